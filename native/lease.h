/* The only header that Python sees, and the manual of what lies behind it.
 *
 * Everything here is pure C11: no I/O, no globals, no clock, no allocation. The caller brings the
 * bytes, the room to work in and the room for the answer, and nothing is kept after the return.
 *
 * Rules for callers:
 *   R1  Lengths are exact; nothing is read at or behind `in + len`, and no NUL is expected there.
 *   R2  What is written never exceeds the stated maximum; a caller that gives less room gets a
 *       refusal, never a part of an answer.
 *   R3  A result below zero is a flaw with its sign turned; zero and above is a length or a time.
 *   R4  Two calls with the same arguments give the same bytes, on every machine.
 *   R5  Input and output may not overlap. Any call may run beside any other.
 *
 * Example, the digest of a request's arguments:
 *
 *     uint32_t path = us_sha256_best();
 *     int64_t size = us_canonical(in, len, room, us_canonical_room(len), out, len);
 *     if (size >= 0)
 *         size = us_digest(path, "he1", out, (uint64_t)size, text, US_DIGEST_TEXT_MAX);
 *
 * `build_ffi.py` hands the part between the two marks to cffi, without the word US_CHECKED.
 */

#ifndef US_LEASE_H
#define US_LEASE_H

#include <stdint.h>

/* A flaw that nobody looked at is a bug of the caller. */
#if defined(__GNUC__)
#define US_CHECKED __attribute__((warn_unused_result))
#else
#define US_CHECKED
#endif

/* cffi: begin */

/* Grows with every change below, so that Python never calls a library built from another header. */
#define US_ABI 1

/* ---- flaws: why bytes were refused ------------------------------------------------------------
 * Numbers are appended and never reused. The first flaw that the reader meets is the one it names,
 * so two flawed documents may be told apart only by whether they are refused. */

enum us_flaw {
    US_SOUND = 0,
    US_NOT_JSON = 1,       /* the grammar: also an end too early, and anything behind the value */
    US_NOT_UTF8 = 2,       /* overlong, surrogate, beyond U+10FFFF, cut short, or stray */
    US_NOT_INTEGER = 3,    /* a number with a fraction or an exponent */
    US_INTEGER_BEYOND = 4, /* an integer whose absolute value is greater than 2^53 - 1 */
    US_KEY_TWICE = 5,      /* one object names a key twice, however it is spelled */
    US_KEY_NOT_ASCII = 6,  /* NUL is refused here as well */
    US_TEXT_NUL = 7,       /* a string holds U+0000 */
    US_TEXT_SURROGATE = 8, /* half of a surrogate pair, escaped */
    US_TOO_DEEP = 9,       /* more than 32 arrays and objects around one another */
    US_TOO_LONG = 10,      /* offsets have 32 bits; far above any limit of the contract */
    US_NODES_FULL = 11, /* the document begins more values than the caller's room has nodes for */
    US_TEXT_FULL = 12,  /* the caller's room is too small for the unescaped strings */
    US_OUT_FULL = 13,   /* the caller's room is too small for the answer */
    US_MOMENT_INVALID = 14 /* no RFC 3339 moment between 1970 and 9999 */
};

/* ---- canonical JSON ---------------------------------------------------------------------------
 * Accepts and refuses what `contracts/canonical.py:decode` does, and writes what `encode` would
 * write for the result. The answer is never longer than the input. */

/* The room that is enough for every document of `len` bytes; less is enough for most. The room
 * itself must be aligned for a uint64_t. */
uint64_t us_canonical_room(uint64_t len);

/* The length of the canonical bytes in `out`, or a flaw. */
US_CHECKED int64_t us_canonical(const uint8_t *in, uint64_t len, void *room, uint64_t room_size,
                                uint8_t *out, uint64_t out_max);

/* ---- digests ----------------------------------------------------------------------------------
 * Asking the processor is slow in a virtual machine, and there are no globals to remember the
 * answer in: ask once, keep the path, and hand it to every call. Only `US_SHA256_PORTABLE` and
 * what `us_sha256_best` gave on this machine are allowed as a path. */

enum us_sha256_path { US_SHA256_PORTABLE = 0, US_SHA256_SHANI = 1 };

#define US_SHA256_SIZE 32
#define US_PREFIX_MAX 15      /* characters in front of the underscore */
#define US_DIGEST_TEXT_MAX 80 /* the prefix, `_`, and 64 hex digits; no NUL behind them */

uint32_t us_sha256_best(void);

/* SHA-256 of the input, as 32 bytes. */
void us_sha256(uint32_t path, const uint8_t *in, uint64_t len, uint8_t *digest);

/* `<prefix>_<hex>`: the length of the text in `out`, or a flaw. */
US_CHECKED int64_t us_digest(uint32_t path, const char *prefix, const uint8_t *in, uint64_t len,
                             char *out, uint64_t out_max);

/* ---- moments ----------------------------------------------------------------------------------
 * As `contracts/rfc3339.py`, for milliseconds from 0 to US_WALL_MS_MAX. */

#define US_WALL_MS_MAX 253402300799999
#define US_MOMENT_TEXT_MAX 29 /* 2026-02-03T04:05:06.007+00:00 */

/* The length of the text in `out`, which has room for US_MOMENT_TEXT_MAX bytes; or a flaw. */
US_CHECKED int64_t us_answer_text(int64_t wall_ms, char *out);
US_CHECKED int64_t us_record_text(int64_t wall_ms, char *out);

/* Milliseconds since 1970, rounded down; or a flaw. */
US_CHECKED int64_t us_parse_ms(const char *text, uint64_t len);

/* cffi: end */

#endif
