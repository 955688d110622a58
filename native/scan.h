/* Strings in JSON: how far they reach, whether they are valid, and what their escapes stand for.
 *
 * The reader and the writer both hurry over bytes that mean themselves, many at a time; the
 * writer's question is the narrower one, as its bytes were validated before.
 */

#ifndef US_SCAN_H
#define US_SCAN_H

#include "lease.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__SSE2__) && defined(__GNUC__)
#define US_HAS_SSE2 1
#include <emmintrin.h>
#else
#define US_HAS_SSE2 0
#endif

typedef struct us_scan {
    const uint8_t *end; /* the closing quote */
    bool escaped;       /* there is a backslash before it */
    bool ascii;         /* there is no byte above 0x7f before it */
} us_scan;

/* From behind the opening quote to the closing one; escapes are passed over, not checked. */
US_CHECKED enum us_flaw us_scan_string(const uint8_t *at, const uint8_t *end, us_scan *scan);

/* Write what the bytes between two quotes stand for; `out` has room for as many. */
US_CHECKED enum us_flaw us_unescape(const uint8_t *at, const uint8_t *end, uint8_t *out,
                                    size_t *out_len);

/* To the first control character, quote, backslash or byte above 0x7f, or to the end. */
const uint8_t *us_skip_ascii(const uint8_t *at, const uint8_t *end);

/* The same. Here, because most strings end within the first look, and a call costs more. */
static inline const uint8_t *us_look_ascii(const uint8_t *at, const uint8_t *end)
{
#if US_HAS_SSE2
    if (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i found = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)); /* above 0x7f is below 0 */
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        unsigned int bits = (unsigned int)_mm_movemask_epi8(found);
        if (bits != 0)
            return at + __builtin_ctz(bits);
        at += 16;
    }
#endif
    return us_skip_ascii(at, end);
}

/* How many bytes from here stand for themselves in a written string. */
size_t us_plain_run(const uint8_t *at, const uint8_t *end);

#endif
