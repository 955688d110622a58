/* SHA-256 alone and side by side, on both paths. */

#include "../sha256.h"
#include "check.h"

#include <string.h>

static void published_hashes(uint32_t path);
static void side_by_side_is_as_alone(uint32_t path);
static void one_beside_many_is_as_alone(uint32_t path);
static void both_paths_agree(uint32_t path);
static void texts_have_their_prefix(uint32_t path);
static uint8_t *sample(size_t len);
static void check_lane(uint32_t path, const us_sha256_lane *lane, const uint8_t *data, size_t len);

int main(void)
{
    uint32_t best = us_sha256_best();

    for (uint32_t path = US_SHA256_PORTABLE; path <= best; path++) {
        published_hashes(path);
        side_by_side_is_as_alone(path);
        one_beside_many_is_as_alone(path);
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

/* Each two lengths up to four blocks, on the heap so that a byte too far is noticed. */
static void side_by_side_is_as_alone(uint32_t path)
{
    for (size_t first = 0; first <= 256; first += first < 140 ? 1 : 29) {
        for (size_t second = 0; second <= 256; second += 11) {
            us_sha256_lane left, right;
            uint8_t *data = sample(first), *other = sample(second);
            us_sha256_load(&left, data, first);
            us_sha256_load(&right, other, second);
            us_sha256_finish(path, &left, &right);
            check_lane(path, &left, data, first);
            us_sha256_finish(path, &right, NULL);
            check_lane(path, &right, other, second);
            us_sha256_finish(path, &right, &left); /* there is nothing left to do */
            check_lane(path, &right, other, second);
            free(data);
            free(other);
        }
    }
}

/* One message beside several, as the evidence of a row goes along with what the next one needs. */
static void one_beside_many_is_as_alone(uint32_t path)
{
    us_sha256_lane along, lane;
    uint8_t *data = sample(1024), *other = sample(130);

    us_sha256_load(&along, data, 1024);
    for (size_t len = 0; len <= 130; len += 26) {
        us_sha256_load(&lane, other, len);
        us_sha256_finish(path, &lane, &along);
        check_lane(path, &lane, other, len);
    }
    us_sha256_finish(path, &along, NULL);
    check_lane(path, &along, data, 1024);
    free(data);
    free(other);
}

static uint8_t *sample(size_t len)
{
    uint8_t *data = malloc(len + (len == 0));

    CHECK(data != NULL);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + len);
    return data;
}

static void check_lane(uint32_t path, const us_sha256_lane *lane, const uint8_t *data, size_t len)
{
    uint8_t alone[US_SHA256_SIZE], digest[US_SHA256_SIZE];

    us_sha256(path, data, len, alone);
    us_sha256_bytes(lane, digest);
    CHECK(memcmp(alone, digest, sizeof alone) == 0); /* H3 */
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
