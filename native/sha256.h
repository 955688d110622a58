/* SHA-256: in one call, in pieces, as hex, and as the prefixed digests of the contract.
 *
 *     us_sha256_begin -> us_sha256_add* -> us_sha256_end
 *
 * Invariants:
 *   H1  `held` is below 64 between calls: a full block is compressed at once.
 *   H2  `length` counts every byte that was added; it fits, as 2^61 bytes never pass through here.
 *   H3  Both paths give the same state for the same blocks.
 */

#ifndef US_SHA256_H
#define US_SHA256_H

#include "lease.h"

#include <stddef.h>

typedef struct us_sha256_run {
    uint32_t state[8];
    uint64_t length;   /* bytes added so far */
    uint32_t held;     /* bytes waiting in `block` */
    uint32_t path;     /* enum us_sha256_path */
    uint8_t block[64]; /* the part that is not compressed yet */
} us_sha256_run;

_Static_assert(sizeof(us_sha256_run) == 112, "no padding, so that a run can be copied and kept");

void us_sha256_begin(us_sha256_run *run, uint32_t path);
void us_sha256_add(us_sha256_run *run, const void *data, size_t len);
void us_sha256_end(us_sha256_run *run, uint8_t digest[US_SHA256_SIZE]);

/* Lower-case hex, two characters per byte, no NUL behind them. */
void us_hex(const uint8_t *data, size_t len, char *out);

/* End a run as `<prefix>_<hex>`. The text has `prefix_len + 65` characters, and `out` the room. */
size_t us_sha256_text(us_sha256_run *run, const char *prefix, size_t prefix_len, char *out);

#endif
