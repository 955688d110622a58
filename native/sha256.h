/* SHA-256 of messages that lie in one piece: one, or two side by side; as bytes, as hex, and as the
 * prefixed digests of the contract.
 *
 *     us_sha256_load -> us_sha256_finish -> us_sha256_bytes or us_sha256_text
 *
 * Each step of a hash waits for the one before, so that most of the processor waits as well: with
 * the SHA extensions, a message that goes along with another one costs next to nothing.
 *
 * Invariants:
 *   H1  What is left of a message is `left` blocks at `at`, and then `tail_left` blocks of `tail`.
 *   H2  The tail holds the mark, the length, and what of the message fills no block: one block or
 *       two. The length fits, as 2^61 bytes never pass through here.
 *   H3  Both paths give the same state for the same blocks, alone or side by side.
 */

#ifndef US_SHA256_H
#define US_SHA256_H

#include "lease.h"

#include <stddef.h>

/* A message on its way. It may not be copied: `at` points into it, in the end. */
typedef struct us_sha256_lane {
    uint32_t state[8];
    const uint8_t *at;
    size_t left;
    size_t tail_left;
    uint8_t tail[128];
} us_sha256_lane;

/* The data must outlive the lane. */
void us_sha256_load(us_sha256_lane *lane, const void *data, size_t len);

/* All that is left of `first`, and of `second`, which may be NULL, as much as goes along. */
void us_sha256_finish(uint32_t path, us_sha256_lane *first, us_sha256_lane *second);

/* Of a lane that is finished: the hash. */
void us_sha256_bytes(const us_sha256_lane *lane, uint8_t digest[US_SHA256_SIZE]);

/* The same as `<prefix>_<hex>`: `prefix_len + 65` characters, for which `out` has the room. */
size_t us_sha256_text(const us_sha256_lane *lane, const char *prefix, size_t prefix_len, char *out);

/* Lower-case hex, two characters per byte, no NUL behind them. */
void us_hex(const uint8_t *data, size_t len, char *out);

#endif
