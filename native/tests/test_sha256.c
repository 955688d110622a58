/* SHA-256 in pieces and in one call, on both paths. */

#include "../sha256.h"
#include "check.h"

#include <string.h>

static void published_hashes(uint32_t path);
static void every_cut_into_three(uint32_t path);
static void both_paths_agree(uint32_t path);
static void texts_have_their_prefix(uint32_t path);

int main(void)
{
    uint32_t best = us_sha256_best();

    for (uint32_t path = US_SHA256_PORTABLE; path <= best; path++) {
        published_hashes(path);
        every_cut_into_three(path);
        both_paths_agree(path);
        texts_have_their_prefix(path);
    }
    printf("sanitize: sha256, %s\n", best == US_SHA256_SHANI ? "portable and SHA-NI" : "portable");
    return 0;
}

static void published_hashes(uint32_t path)
{
    static const char *const cases[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t digest[US_SHA256_SIZE];
        char hex[2 * US_SHA256_SIZE];
        us_sha256(path, (const uint8_t *)cases[i][0], strlen(cases[i][0]), digest);
        us_hex(digest, sizeof digest, hex);
        CHECK(memcmp(hex, cases[i][1], sizeof hex) == 0);
    }
}

/* Each length up to four blocks, on the heap so that a byte too far is noticed. */
static void every_cut_into_three(uint32_t path)
{
    for (size_t len = 0; len <= 256; len += len < 140 ? 1 : 29) {
        uint8_t *data = malloc(len + (len == 0));
        uint8_t once[US_SHA256_SIZE], pieces[US_SHA256_SIZE];
        CHECK(data != NULL);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(i * 7 + len);
        us_sha256(path, data, len, once);
        for (size_t a = 0; a <= len; a += 3) {
            for (size_t b = a; b <= len; b += 5) {
                us_sha256_run run;
                us_sha256_begin(&run, path);
                us_sha256_add(&run, data, a);
                us_sha256_add(&run, data + a, b - a);
                us_sha256_add(&run, NULL, 0);
                us_sha256_add(&run, data + b, len - b);
                us_sha256_end(&run, pieces);
                CHECK(memcmp(once, pieces, sizeof once) == 0);
            }
        }
        free(data);
    }
}

static void both_paths_agree(uint32_t path)
{
    uint8_t data[1024], left[US_SHA256_SIZE], right[US_SHA256_SIZE];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i ^ i >> 3);
    for (size_t len = 0; len <= sizeof data; len++) {
        us_sha256(US_SHA256_PORTABLE, data, len, left);
        us_sha256(path, data, len, right);
        CHECK(memcmp(left, right, sizeof left) == 0); /* H3 */
    }
}

static void texts_have_their_prefix(uint32_t path)
{
    char out[US_DIGEST_TEXT_MAX];
    const char *abc = "he1_ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    CHECK(us_digest(path, "he1", (const uint8_t *)"abc", 3, out, sizeof out) == 68);
    CHECK(memcmp(out, abc, 68) == 0);
    CHECK(us_digest(path, "he1", (const uint8_t *)"abc", 3, out, 68) == 68);
    CHECK(us_digest(path, "he1", (const uint8_t *)"abc", 3, out, 67) == -US_OUT_FULL);
    CHECK(us_digest(path, "123456789012345", NULL, 0, out, sizeof out) == sizeof out);
    CHECK(us_digest(path, "1234567890123456", NULL, 0, out, 100) == -US_OUT_FULL);
}
