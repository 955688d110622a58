/* SHA-256 after FIPS 180-4, with the SHA extensions of x86 where the processor has them. */

#include "sha256.h"

#include <assert.h>
#include <string.h>

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define US_HAS_SHANI 1
#include <cpuid.h>
#include <immintrin.h>
#else
#define US_HAS_SHANI 0
#endif

static void compress(us_sha256_run *run, const uint8_t *blocks, size_t count);
static void compress_portable(uint32_t state[8], const uint8_t *blocks, size_t count);
static uint32_t rotate(uint32_t word, unsigned int by);
static uint32_t load_be32(const uint8_t *at);
static void store_be32(uint8_t *at, uint32_t word);
static void store_be64(uint8_t *at, uint64_t word);
#if US_HAS_SHANI
static void compress_shani(uint32_t state[8], const uint8_t *blocks, size_t count);
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

/* ---- a run ----------------------------------------------------------------------------------- */

void us_sha256_begin(us_sha256_run *run, uint32_t path)
{
    memcpy(run->state, INITIAL, sizeof INITIAL);
    run->length = 0;
    run->held = 0;
    run->path = path;
}

void us_sha256_add(us_sha256_run *run, const void *data, size_t len)
{
    const uint8_t *at = data;

    assert(run->held < 64); /* H1 */
    if (len == 0)           /* and `data` may be NULL, which memcpy does not like */
        return;
    run->length += len;
    if (run->held != 0) {
        size_t take = 64 - run->held;
        if (take > len)
            take = len;
        memcpy(run->block + run->held, at, take);
        run->held += (uint32_t)take;
        at += take;
        len -= take;
        if (run->held < 64)
            return;
        compress(run, run->block, 1);
        run->held = 0;
    }
    compress(run, at, len / 64);
    run->held = (uint32_t)(len % 64);
    memcpy(run->block, at + (len - run->held), run->held);
}

void us_sha256_end(us_sha256_run *run, uint8_t digest[US_SHA256_SIZE])
{
    size_t held = run->held;

    run->block[held++] = 0x80;
    if (held > 56) { /* the length no longer fits behind the mark */
        memset(run->block + held, 0, 64 - held);
        compress(run, run->block, 1);
        held = 0;
    }
    memset(run->block + held, 0, 56 - held);
    store_be64(run->block + 56, run->length * 8);
    compress(run, run->block, 1);
    for (size_t i = 0; i < 8; i++)
        store_be32(digest + 4 * i, run->state[i]);
}

size_t us_sha256_text(us_sha256_run *run, const char *prefix, size_t prefix_len, char *out)
{
    uint8_t digest[US_SHA256_SIZE];

    us_sha256_end(run, digest);
    memcpy(out, prefix, prefix_len);
    out[prefix_len] = '_';
    us_hex(digest, sizeof digest, out + prefix_len + 1);
    return prefix_len + 1 + 2 * sizeof digest;
}

void us_hex(const uint8_t *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
}

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

static void compress(us_sha256_run *run, const uint8_t *blocks, size_t count)
{
#if US_HAS_SHANI
    if (run->path == US_SHA256_SHANI) {
        compress_shani(run->state, blocks, count);
        return;
    }
#endif
    compress_portable(run->state, blocks, count);
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

/* The instructions want the eight words as ABEF and CDGH, highest first, and work on four rounds
 * at a time. `w[0..3]` is a ring with the last sixteen words of the message schedule. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
compress_shani(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)&state[0]);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
    __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; count > 0; count--, blocks += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; i++) {
            __m128i words;
            if (i < 4) {
                const uint8_t *at = blocks + 16 * i;
                words = _mm_loadu_si128((const __m128i *)(const void *)at);
                words = _mm_shuffle_epi8(words, swap);
            } else {
                __m128i last = w[(i + 3) % 4];
                __m128i seventh = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
                words = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
                words = _mm_sha256msg2_epu32(_mm_add_epi32(words, seventh), last);
            }
            w[i % 4] = words;
            const __m128i *round = (const __m128i *)(const void *)&ROUND[4 * i];
            __m128i added = _mm_add_epi32(words, _mm_loadu_si128(round));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    dcba = _mm_blend_epi16(feba, dchg, 0xf0);
    hgfe = _mm_alignr_epi8(dchg, feba, 8);
    _mm_storeu_si128((__m128i *)(void *)&state[0], dcba);
    _mm_storeu_si128((__m128i *)(void *)&state[4], hgfe);
}

#endif
