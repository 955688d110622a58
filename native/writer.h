/* Bytes of canonical JSON, put one behind the other into the caller's room.
 *
 * A writer that has run out of room stays full and writes nothing more, so that a long row of puts
 * needs one look at the end:
 *
 *     us_writer w = us_writer_over(out, out_max);
 *     us_put_raw(&w, "{\"seq\":", 7);
 *     us_put_integer(&w, seq);
 *     us_put_raw(&w, "}", 1);
 *     if (w.full)
 *         return US_OUT_FULL;
 *
 * Invariants:
 *   W1  `begin <= at <= end`; nothing is written at or behind `end`.
 *   W2  Strings are escaped as orjson and msgspec do: `"`, `\`, and what is below U+0020, in the
 *       two-character form where there is one, else as \u00xx in lower case. Nothing else is.
 *   W3  A value that was read is written in no more bytes than it was read from.
 */

#ifndef US_WRITER_H
#define US_WRITER_H

#include "json.h"

#include <string.h>

typedef struct us_writer {
    uint8_t *begin;
    uint8_t *at;
    uint8_t *end;
    bool full;
} us_writer;

us_writer us_writer_over(uint8_t *out, size_t out_max);

/* Where the next byte goes; rooms with offsets of 32 bits are no longer than these reach. */
static inline uint32_t us_position(const us_writer *w)
{
    return (uint32_t)(w->at - w->begin);
}

/* Whether there is room for so many bytes; if not, there is none for anything any more. */
static inline bool us_fits(us_writer *w, size_t len)
{
    if (len <= (size_t)(w->end - w->at))
        return true;
    w->full = true;
    w->end = w->at;
    return false;
}

/* As they are. Here, and not in writer.c, because the length is mostly a constant: then the copy is
 * a few moves. */
static inline void us_put_raw(us_writer *w, const void *data, size_t len)
{
    if (!us_fits(w, len))
        return;
    if (len != 0) /* an empty slice may point nowhere, which memcpy does not like */
        memcpy(w->at, data, len);
    w->at += len;
}

/* The same for a length that is no constant, and mostly short: two moves that overlap, and no call.
 */
static inline void us_put_some(us_writer *w, const uint8_t *data, size_t len)
{
    if (!us_fits(w, len))
        return;
    if (len >= 16 && len <= 32) {
        memcpy(w->at, data, 16);
        memcpy(w->at + len - 16, data + len - 16, 16);
    } else if (len >= 8 && len < 16) {
        memcpy(w->at, data, 8);
        memcpy(w->at + len - 8, data + len - 8, 8);
    } else if (len > 32) {
        memcpy(w->at, data, len);
    } else if (len >= 4) {
        memcpy(w->at, data, 4);
        memcpy(w->at + len - 4, data + len - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            w->at[i] = data[i];
    }
    w->at += len;
}

/* A byte. */
static inline void us_put_byte(us_writer *w, char byte)
{
    us_put_raw(w, &byte, 1);
}

/* Decimal, any int64_t. */
void us_put_integer(us_writer *w, int64_t number);

/* In quotes, with escapes; the bytes are valid UTF-8. */
void us_put_string(us_writer *w, const uint8_t *data, size_t len);

/* A value that was read, and everything in it; without its key. */
void us_put_value(us_writer *w, const us_json *doc, const us_node *node);

#endif
