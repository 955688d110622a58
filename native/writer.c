/* Bytes of canonical JSON, put one behind the other into the caller's room. */

#include "writer.h"

#include "scan.h"

static void put_scalar(us_writer *w, const us_json *doc, const us_node *node);
static void put_key(us_writer *w, const us_json *doc, const us_node *node);
static void put_quoted(us_writer *w, const uint8_t *data, size_t len);
static void put_escape(us_writer *w, uint8_t byte);
static void put_end(us_writer *w, const us_node *node);

us_writer us_writer_over(uint8_t *out, size_t out_max)
{
    return (us_writer){.begin = out, .at = out, .end = out + out_max, .full = false};
}

/* Two digits at a time: rows are full of numbers, and divisions are slow. */
void us_put_integer(us_writer *w, int64_t number)
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324252627282930"
                                "31323334353637383940414243444546474849505152535455565758596061"
                                "62636465666768697071727374757677787980818283848586878889909192"
                                "93949596979899";
    char digits[20]; /* of 2^64, without the sign */
    size_t at = sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    for (; left >= 100; left /= 100) {
        at -= 2;
        memcpy(digits + at, PAIRS + 2 * (left % 100), 2);
    }
    if (left >= 10) {
        at -= 2;
        memcpy(digits + at, PAIRS + 2 * left, 2);
    } else {
        digits[--at] = (char)('0' + left);
    }
    if (number < 0)
        us_put_byte(w, '-');
    us_put_raw(w, digits + at, sizeof digits - at);
}

/* ---- strings ----------------------------------------------------------------------------------
 */

void us_put_string(us_writer *w, const uint8_t *data, size_t len)
{
    const uint8_t *end = data + len;

    us_put_byte(w, '"');
    while (data < end) {
        size_t run = us_plain_run(data, end);
        us_put_raw(w, data, run);
        data += run;
        if (data < end)
            put_escape(w, *data++);
    }
    us_put_byte(w, '"');
}

static void put_escape(us_writer *w, uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', digits[byte >> 4 & 15], digits[byte & 15]};

    switch (byte) {
    case '"':
    case '\\':
        text[1] = (char)byte;
        break;
    case '\b':
        text[1] = 'b';
        break;
    case '\f':
        text[1] = 'f';
        break;
    case '\n':
        text[1] = 'n';
        break;
    case '\r':
        text[1] = 'r';
        break;
    case '\t':
        text[1] = 't';
        break;
    default:
        break;
    }
    us_put_raw(w, text, text[1] == 'u' ? 6 : 2);
}

/* Bytes of which the reader has shown that they need no escape (J4). */
static void put_quoted(us_writer *w, const uint8_t *data, size_t len)
{
    us_put_byte(w, '"');
    us_put_raw(w, data, len);
    us_put_byte(w, '"');
}

/* ---- values -----------------------------------------------------------------------------------
 */

void us_put_value(us_writer *w, const us_json *doc, const us_node *node)
{
    const us_node *open[US_JSON_DEPTH_MAX];
    uint32_t depth = 0;

    for (;;) {
        if (depth > 0 && open[depth - 1]->kind == US_OBJECT)
            put_key(w, doc, node);
        put_scalar(w, doc, node);
        if (node->kind >= US_ARRAY && node->as.children.first != 0) {
            open[depth++] = node; /* J5 */
            node = &doc->nodes[node->as.children.first];
            continue;
        }
        if (node->kind >= US_ARRAY)
            put_end(w, node);
        while (depth > 0 && node->next == 0) {
            node = open[--depth];
            put_end(w, node);
        }
        if (depth == 0)
            return;
        us_put_byte(w, ',');
        node = &doc->nodes[node->next];
    }
}

/* A scalar, or the opening bracket of what is none. */
static void put_scalar(us_writer *w, const us_json *doc, const us_node *node)
{
    switch (node->kind) {
    case US_NULL:
        us_put_raw(w, "null", 4);
        break;
    case US_FALSE:
        us_put_raw(w, "false", 5);
        break;
    case US_TRUE:
        us_put_raw(w, "true", 4);
        break;
    case US_INTEGER:
        us_put_integer(w, node->as.number);
        break;
    case US_STRING:
        if ((node->flags & US_VALUE_IN_TEXT) != 0)
            us_put_string(w, us_json_string(doc, node), node->as.string.len);
        else
            put_quoted(w, us_json_string(doc, node), node->as.string.len);
        break;
    case US_ARRAY:
        us_put_byte(w, '[');
        break;
    default:
        us_put_byte(w, '{');
        break;
    }
}

static void put_end(us_writer *w, const us_node *node)
{
    us_put_byte(w, node->kind == US_OBJECT ? '}' : ']');
}

static void put_key(us_writer *w, const us_json *doc, const us_node *node)
{
    if ((node->flags & US_KEY_IN_TEXT) != 0)
        us_put_string(w, us_json_key(doc, node), node->key.len);
    else
        put_quoted(w, us_json_key(doc, node), node->key.len);
    us_put_byte(w, ':');
}
