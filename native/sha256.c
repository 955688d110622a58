/* SHA-256 after FIPS 180-4, with the SHA extensions of x86 where the processor has them. */

#include "sha256.h"

#include "scan.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define US_HAS_SHANI 1
#include <cpuid.h>
#include <immintrin.h>
#else
#define US_HAS_SHANI 0
#endif

static void pad(us_sha256_lane *lane, const uint8_t *rest, size_t len);
static bool has_blocks(us_sha256_lane *lane);
static void compress(uint32_t path, us_sha256_lane *lane, size_t count);
static void compress_both(uint32_t path, us_sha256_lane *first, us_sha256_lane *second,
                          size_t count);
static void compress_portable(uint32_t state[8], const uint8_t *blocks, size_t count);
static uint32_t rotate(uint32_t word, unsigned int by);
static uint32_t load_be32(const uint8_t *at);
static void store_be32(uint8_t *at, uint32_t word);
static void store_be64(uint8_t *at, uint64_t word);
#if US_HAS_SSE2
static void put_digits(__m128i numbers, char *out);
#endif
#if US_HAS_SHANI
static void compress_shani(us_sha256_lane *lane, size_t count);
static void compress_shani_both(us_sha256_lane *first, us_sha256_lane *second, size_t count);
#endif

static const uint32_t INITIAL[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* ---- a lane ---------------------------------------------------------------------------------- */

void us_sha256_load(us_sha256_lane *lane, const void *data, size_t len)
{
    memcpy(lane->state, INITIAL, sizeof INITIAL);
    lane->at = data;
    lane->left = len / 64;
    pad(lane, len % 64 == 0 ? NULL : lane->at + len / 64 * 64, len);
}

static void pad(us_sha256_lane *lane, const uint8_t *rest, size_t len)
{
    size_t held = len % 64;

    lane->tail_left = held < 56 ? 1 : 2; /* else the length does not fit behind the mark */
    memset(lane->tail, 0, 64 * lane->tail_left);
    if (held != 0)
        memcpy(lane->tail, rest, held);
    lane->tail[held] = 0x80;
    store_be64(lane->tail + 64 * lane->tail_left - 8, (uint64_t)len * 8);
}

void us_sha256_finish(uint32_t path, us_sha256_lane *first, us_sha256_lane *second)
{
    while (has_blocks(first)) {
        if (second == NULL || !has_blocks(second))
            compress(path, first, first->left);
        else
            compress_both(path, first, second,
                          first->left < second->left ? first->left : second->left);
    }
}

static bool has_blocks(us_sha256_lane *lane)
{
    if (lane->left == 0) {
        lane->at = lane->tail;
        lane->left = lane->tail_left;
        lane->tail_left = 0;
    }
    return lane->left != 0;
}

void us_sha256_bytes(const us_sha256_lane *lane, uint8_t digest[US_SHA256_SIZE])
{
    assert(lane->left == 0 && lane->tail_left == 0); /* H1 */
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        store_be32(digest + 4 * i, lane->state[i]);
}

size_t us_sha256_text(const us_sha256_lane *lane, const char *prefix, size_t prefix_len, char *out)
{
    uint8_t digest[US_SHA256_SIZE];

    us_sha256_bytes(lane, digest);
    memcpy(out, prefix, prefix_len);
    out[prefix_len] = '_';
    us_hex(digest, sizeof digest, out + prefix_len + 1);
    return prefix_len + 1 + 2 * sizeof digest;
}

void us_hex(const uint8_t *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t i = 0;

#if US_HAS_SSE2
    const __m128i nibble = _mm_set1_epi8(15);
    for (; len - i >= 16; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(data + i));
        __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
        __m128i low = _mm_and_si128(bytes, nibble);
        put_digits(_mm_unpacklo_epi8(high, low), out + 2 * i);
        put_digits(_mm_unpackhi_epi8(high, low), out + 2 * i + 16);
    }
#endif
    for (; i < len; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
}

#if US_HAS_SSE2
/* Sixteen numbers below sixteen, as hex. */
static void put_digits(__m128i numbers, char *out)
{
    __m128i letters = _mm_cmpgt_epi8(numbers, _mm_set1_epi8(9));
    __m128i text = _mm_add_epi8(numbers, _mm_set1_epi8('0'));
    text = _mm_add_epi8(text, _mm_and_si128(letters, _mm_set1_epi8('a' - '0' - 10)));
    _mm_storeu_si128((__m128i *)(void *)out, text);
}
#endif

/* ---- which path ------------------------------------------------------------------------------ */

uint32_t us_sha256_best(void)
{
#if US_HAS_SHANI
    /* By hand, because __builtin_cpu_supports does not know "sha" in older compilers. */
    unsigned int a, b, c, d;
    unsigned int ssse3_and_sse41 = 1u << 9 | 1u << 19;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & ssse3_and_sse41) == ssse3_and_sse41 &&
        __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29) != 0)
        return US_SHA256_SHANI;
#endif
    return US_SHA256_PORTABLE;
}

static void compress(uint32_t path, us_sha256_lane *lane, size_t count)
{
#if US_HAS_SHANI
    if (path == US_SHA256_SHANI)
        compress_shani(lane, count);
    else
#endif
        compress_portable(lane->state, lane->at, count);
    (void)path;
    lane->at += 64 * count;
    lane->left -= count;
}

static void compress_both(uint32_t path, us_sha256_lane *first, us_sha256_lane *second,
                          size_t count)
{
#if US_HAS_SHANI
    if (path == US_SHA256_SHANI) {
        compress_shani_both(first, second, count);
        first->at += 64 * count, first->left -= count;
        second->at += 64 * count, second->left -= count;
        return;
    }
#endif
    compress(path, first, count); /* side by side is no faster here */
    compress(path, second, count);
}

/* ---- the portable path ----------------------------------------------------------------------- */

static void compress_portable(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    for (; count > 0; count--, blocks += 64) {
        uint32_t w[64];
        for (size_t i = 0; i < 16; i++)
            w[i] = load_be32(blocks + 4 * i);
        for (size_t i = 16; i < 64; i++) {
            uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }

        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (size_t i = 0; i < 64; i++) {
            uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
            uint32_t first = h + sum1 + ((e & f) ^ (~e & g)) + ROUND[i] + w[i];
            uint32_t second = sum0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + first;
            d = c, c = b, b = a, a = first + second;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

static uint32_t rotate(uint32_t word, unsigned int by)
{
    return word >> by | word << (32 - by);
}

static uint32_t load_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void store_be32(uint8_t *at, uint32_t word)
{
#pragma GCC unroll 4
    for (unsigned int i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void store_be64(uint8_t *at, uint64_t word)
{
    store_be32(at, (uint32_t)(word >> 32));
    store_be32(at + 4, (uint32_t)word);
}

/* ---- the path through the SHA extensions ----------------------------------------------------- */

#if US_HAS_SHANI

#define SHANI __attribute__((target("sha,sse4.1,ssse3")))
#define LANES_MAX 2

/* The state of a lane, as the instructions want it: the eight words as ABEF and CDGH, highest
 * first. `w` is a ring with the last sixteen words of the message schedule. */
typedef struct shani {
    __m128i abef, cdgh;
    __m128i abef_before, cdgh_before;
    __m128i w[4];
} shani;

SHANI static inline __attribute__((always_inline)) shani enter(const us_sha256_lane *lane)
{
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)&lane->state[0]);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)&lane->state[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
    __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    return (shani){.abef = _mm_alignr_epi8(cdab, efgh, 8),
                   .cdgh = _mm_blend_epi16(efgh, cdab, 0xf0)};
}

SHANI static inline __attribute__((always_inline)) void leave(const shani *s, us_sha256_lane *lane)
{
    __m128i feba = _mm_shuffle_epi32(s->abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(s->cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)&lane->state[0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)&lane->state[4], _mm_alignr_epi8(dchg, feba, 8));
}

/* Four rounds; `i` of sixteen such steps. */
SHANI static inline __attribute__((always_inline)) void step(shani *s, const uint8_t *block,
                                                             size_t i)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i words;

    if (i < 4) {
        words = _mm_loadu_si128((const __m128i *)(const void *)(block + 16 * i));
        words = _mm_shuffle_epi8(words, swap);
    } else {
        __m128i last = s->w[(i + 3) % 4];
        __m128i seventh = _mm_alignr_epi8(last, s->w[(i + 2) % 4], 4);
        words = _mm_sha256msg1_epu32(s->w[i % 4], s->w[(i + 1) % 4]);
        words = _mm_sha256msg2_epu32(_mm_add_epi32(words, seventh), last);
    }
    s->w[i % 4] = words;
    const __m128i *round = (const __m128i *)(const void *)&ROUND[4 * i];
    __m128i added = _mm_add_epi32(words, _mm_loadu_si128(round));
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, added);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(added, 0x0e));
}

/* The same step of every lane before the next one of any: they do not wait for one another. */
SHANI static inline __attribute__((always_inline)) void
compress_lanes(us_sha256_lane *const lanes[LANES_MAX], size_t lane_count, size_t count)
{
    shani s[LANES_MAX];

    for (size_t lane = 0; lane < lane_count; lane++)
        s[lane] = enter(lanes[lane]);
    for (size_t block = 0; block < count; block++) {
        for (size_t lane = 0; lane < lane_count; lane++) {
            s[lane].abef_before = s[lane].abef;
            s[lane].cdgh_before = s[lane].cdgh;
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; i++) {
#pragma GCC unroll 2
            for (size_t lane = 0; lane < lane_count; lane++)
                step(&s[lane], lanes[lane]->at + 64 * block, i);
        }
        for (size_t lane = 0; lane < lane_count; lane++) {
            s[lane].abef = _mm_add_epi32(s[lane].abef, s[lane].abef_before);
            s[lane].cdgh = _mm_add_epi32(s[lane].cdgh, s[lane].cdgh_before);
        }
    }
    for (size_t lane = 0; lane < lane_count; lane++)
        leave(&s[lane], lanes[lane]);
}

SHANI static void compress_shani(us_sha256_lane *lane, size_t count)
{
    us_sha256_lane *const lanes[LANES_MAX] = {lane, NULL};
    compress_lanes(lanes, 1, count);
}

SHANI static void compress_shani_both(us_sha256_lane *first, us_sha256_lane *second, size_t count)
{
    us_sha256_lane *const lanes[LANES_MAX] = {first, second};
    compress_lanes(lanes, 2, count);
}

#endif
