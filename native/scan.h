/* Strings in JSON: how far they reach, whether they are valid, and what their escapes stand for.
 *
 * The reader and the writer both hurry over bytes that mean themselves, eight at a time; the
 * writer's question is the narrower one, as its bytes were validated before.
 */

#ifndef US_SCAN_H
#define US_SCAN_H

#include "lease.h"

#include <stdbool.h>
#include <stddef.h>

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

/* How many bytes from here stand for themselves in a written string. */
size_t us_plain_run(const uint8_t *at, const uint8_t *end);

#endif
