/* Bytes of canonical JSON, put one behind the other into the caller's room. */

#include "writer.h"

#include "scan.h"

#define EIGHT_DIGITS 100000000
#define ZEROS 0x3030303030303030u /* eight of them */

static void put_first_digits(us_writer *w, uint32_t number);
static void put_eight_digits(us_writer *w, uint32_t number);
static uint64_t digits(uint32_t number);
static unsigned int zeros_in_front(uint64_t word);
static void store_text(uint8_t text[8], uint64_t word);
static void put_scalar(us_writer *w, const us_json *doc, const us_node *node);
static void put_key(us_writer *w, const us_json *doc, const us_node *node);
static void put_quoted(us_writer *w, const uint8_t *data, size_t len);
static void put_escape(us_writer *w, uint8_t byte);
static void put_end(us_writer *w, const us_node *node);

us_writer us_writer_over(uint8_t *out, size_t out_max)
{
    return (us_writer){.begin = out, .at = out, .end = out + out_max, .full = false};
}

/* Eight digits at a time; an int64_t has at most nineteen. */
void us_put_integer(us_writer *w, int64_t number)
{
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    if (left < 10 && number >= 0) { /* most are counts of few things */
        us_put_byte(w, (char)('0' + left));
        return;
    }
    if (number < 0)
        us_put_byte(w, '-');
    if (left < EIGHT_DIGITS) {
        put_first_digits(w, (uint32_t)left);
        return;
    }
    uint64_t above = left / EIGHT_DIGITS;
    if (above < EIGHT_DIGITS) {
        put_first_digits(w, (uint32_t)above);
    } else {
        put_first_digits(w, (uint32_t)(above / EIGHT_DIGITS));
        put_eight_digits(w, (uint32_t)(above % EIGHT_DIGITS));
    }
    put_eight_digits(w, (uint32_t)(left % EIGHT_DIGITS));
}

/* Without zeros in front. */
static void put_first_digits(us_writer *w, uint32_t number)
{
    uint64_t word = digits(number);
    unsigned int zeros = zeros_in_front(word);
    uint8_t text[8];

    store_text(text, word >> 8 * zeros);
    us_put_some(w, text, 8 - zeros);
}

static void put_eight_digits(us_writer *w, uint32_t number)
{
    uint8_t text[8];

    store_text(text, digits(number));
    us_put_raw(w, text, sizeof text);
}

/* Eight digits of ASCII, the first in the lowest byte. A number is cut in two, and each part again:
 * all parts of a step at once, with a reciprocal in place of each division. */
static uint64_t digits(uint32_t number)
{
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007f;
    uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000f;
    return (tens | (twos - 10 * tens) << 8) | ZEROS;
}

/* But for the last digit, which stays. */
static unsigned int zeros_in_front(uint64_t word)
{
    uint64_t others = (word ^ ZEROS) | (uint64_t)1 << 56;
#if defined(__GNUC__)
    return (unsigned int)__builtin_ctzll(others) / 8;
#else
    unsigned int count = 0;
    for (; (others & 0xff) == 0; others >>= 8)
        count++;
    return count;
#endif
}

/* The lowest byte first, on every machine; where that is its own order, compilers see one move. */
static void store_text(uint8_t text[8], uint64_t word)
{
#pragma GCC unroll 8
    for (unsigned int i = 0; i < 8; i++)
        text[i] = (uint8_t)(word >> 8 * i);
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
    if (!us_fits(w, len + 2))
        return;
    *w->at++ = '"';
    us_put_some(w, data, len);
    *w->at++ = '"';
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
