/* Strings in JSON: how far they reach, whether they are valid, and what their escapes stand for. */

#include "scan.h"

#include <string.h>

static const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end, uint64_t also);
static uint64_t below_space(uint64_t word);
static uint64_t equal_to(uint64_t word, uint8_t byte);
static size_t first_byte(uint64_t found, const uint8_t *at, bool ascii);
static bool is_special(uint8_t byte, bool ascii);
static size_t utf8_length(const uint8_t *at, const uint8_t *end);
static bool continues(uint8_t byte);
static enum us_flaw read_escape(const uint8_t **at, const uint8_t *end, uint32_t *point);
static enum us_flaw read_low_half(const uint8_t **at, const uint8_t *end, uint32_t *point);
static bool read_hex4(const uint8_t **at, const uint8_t *end, uint32_t *unit);
static int hex_value(uint8_t byte);
static size_t put_utf8(uint32_t point, uint8_t *out);

/* In each byte of a word. */
#define EACH(byte) ((uint64_t)(byte) * 0x0101010101010101u)

/* ---- the end of a string --------------------------------------------------------------------- */

enum us_flaw us_scan_string(const uint8_t *at, const uint8_t *end, us_scan *scan)
{
    scan->escaped = false;
    scan->ascii = true;
    for (;;) {
        at = us_skip_ascii(at, end);
        if (at == end || *at < 0x20)
            return US_NOT_JSON;
        if (*at == '"') {
            scan->end = at;
            return US_SOUND;
        }
        if (*at == '\\') {
            if (end - at < 2)
                return US_NOT_JSON;
            scan->escaped = true;
            /* What follows may be a quote; if it is no escape at all, us_unescape will say so. */
            at += at[1] < 0x80 ? 2 : 1;
            continue;
        }
        size_t length = utf8_length(at, end);
        if (length == 0)
            return US_NOT_UTF8;
        scan->ascii = false;
        at += length;
    }
}

const uint8_t *us_skip_ascii(const uint8_t *at, const uint8_t *end)
{
    return skip_plain(at, end, EACH(0x80));
}

size_t us_plain_run(const uint8_t *at, const uint8_t *end)
{
    return (size_t)(skip_plain(at, end, 0) - at);
}

/* To the first control character, quote or backslash; with EACH(0x80) as `also`, to the first byte
 * above 0x7f as well. */
static const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end, uint64_t also)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t found = below_space(word) | equal_to(word, '"') | equal_to(word, '\\');
        found = (found & EACH(0x80)) | (word & also);
        if (found != 0)
            return at + first_byte(found, at, also != 0);
        at += 8;
    }
    while (at < end && !is_special(*at, also != 0))
        at++;
    return at;
}

/* The high bit of each byte says yes. A borrow turns a no into a yes only above a true yes: the
 * lowest byte that says so is right, and so is a word in which none does. */
static uint64_t below_space(uint64_t word)
{
    return (word - EACH(0x20)) & ~word;
}

static uint64_t equal_to(uint64_t word, uint8_t byte)
{
    uint64_t differences = word ^ EACH(byte);
    return (differences - EACH(1)) & ~differences;
}

/* Which byte in memory stopped us. Where the lowest byte does not come first, look again. */
static size_t first_byte(uint64_t found, const uint8_t *at, bool ascii)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)at, (void)ascii;
    return (size_t)__builtin_ctzll(found) / 8;
#else
    size_t i = 0;
    (void)found;
    while (i < 7 && !is_special(at[i], ascii))
        i++;
    return i;
#endif
}

static bool is_special(uint8_t byte, bool ascii)
{
    return byte < 0x20 || byte == '"' || byte == '\\' || (ascii && byte >= 0x80);
}

/* ---- UTF-8 ------------------------------------------------------------------------------------
 */

/* The length of the character that starts here with a byte above 0x7f; 0 if there is none. */
static size_t utf8_length(const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at);
    uint8_t lead = at[0];

    if (lead >= 0xc2 && lead <= 0xdf)
        return left >= 2 && continues(at[1]) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        if (left < 3 || !continues(at[1]) || !continues(at[2]))
            return 0;
        if (lead == 0xe0 && at[1] < 0xa0) /* overlong */
            return 0;
        if (lead == 0xed && at[1] > 0x9f) /* a surrogate */
            return 0;
        return 3;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if (left < 4 || !continues(at[1]) || !continues(at[2]) || !continues(at[3]))
            return 0;
        if (lead == 0xf0 && at[1] < 0x90) /* overlong */
            return 0;
        if (lead == 0xf4 && at[1] > 0x8f) /* beyond U+10FFFF */
            return 0;
        return 4;
    }
    return 0;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

static size_t put_utf8(uint32_t point, uint8_t *out)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xc0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

/* ---- escapes ----------------------------------------------------------------------------------
 */

enum us_flaw us_unescape(const uint8_t *at, const uint8_t *end, uint8_t *out, size_t *out_len)
{
    uint8_t *begin = out;

    while (at < end) {
        if (*at != '\\') {
            const uint8_t *next = memchr(at, '\\', (size_t)(end - at));
            size_t run = (size_t)((next == NULL ? end : next) - at);
            memcpy(out, at, run);
            at += run;
            out += run;
            continue;
        }
        uint32_t point;
        enum us_flaw flaw = read_escape(&at, end, &point);
        if (flaw != US_SOUND)
            return flaw;
        out += put_utf8(point, out); /* an escape is never shorter than its character */
    }
    *out_len = (size_t)(out - begin);
    return US_SOUND;
}

static enum us_flaw read_escape(const uint8_t **at, const uint8_t *end, uint32_t *point)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";

    if (end - *at < 2)
        return US_NOT_JSON;
    uint8_t letter = (*at)[1];
    *at += 2;
    if (letter != 'u') {
        const char *found = letter == 0 ? NULL : strchr(letters, letter);
        if (found == NULL)
            return US_NOT_JSON;
        *point = (uint8_t)meanings[found - letters];
        return US_SOUND;
    }
    if (!read_hex4(at, end, point))
        return US_NOT_JSON;
    if (*point == 0)
        return US_TEXT_NUL;
    if (*point < 0xd800 || *point > 0xdfff)
        return US_SOUND;
    return read_low_half(at, end, point);
}

/* The second escape of a pair, which the first one calls for. */
static enum us_flaw read_low_half(const uint8_t **at, const uint8_t *end, uint32_t *point)
{
    uint32_t high = *point;
    uint32_t low;

    if (high > 0xdbff || end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return US_TEXT_SURROGATE;
    *at += 2;
    if (!read_hex4(at, end, &low))
        return US_NOT_JSON;
    if (low < 0xdc00 || low > 0xdfff)
        return US_TEXT_SURROGATE;
    *point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return US_SOUND;
}

static bool read_hex4(const uint8_t **at, const uint8_t *end, uint32_t *unit)
{
    *unit = 0;
    if (end - *at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(*(*at)++);
        if (value < 0)
            return false;
        *unit = *unit << 4 | (uint32_t)value;
    }
    return true;
}

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}
