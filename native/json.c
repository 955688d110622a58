/* A strict reader of canonical JSON's profile, into a flat array of nodes.
 *
 *     value -> settle -> value -> ... -> end
 *
 * `read_value` reads one scalar or opens one array or object; `settle` passes commas and closes
 * what ends, up to the next value. Open arrays and objects are kept in a stack of fixed depth:
 * nothing here recurs, so no input can exhaust the C stack.
 */

#include "json.h"

#include "scan.h"
#include "sort.h"

#include <string.h>

typedef struct frame {
    uint32_t node;  /* the open array or object */
    uint32_t last;  /* its newest child; 0 before the first */
    bool is_object; /* or else an array */
    bool unsorted;  /* some key is smaller than the one before it */
} frame;

typedef struct reader {
    const uint8_t *at;
    const uint8_t *end;
    us_json *doc;
    uint32_t depth; /* open frames */
    frame frames[US_JSON_DEPTH_MAX];
} reader;

static enum us_flaw read_value(reader *r);
static enum us_flaw read_kind(reader *r, us_node *node);
static enum us_flaw read_literal(reader *r, us_node *node, const char *word, size_t len,
                                 uint8_t kind);
static enum us_flaw read_integer(reader *r, us_node *node);
static inline enum us_flaw read_string(reader *r, us_slice *slice, uint16_t *flags,
                                       uint16_t in_text, bool *ascii);
static enum us_flaw read_odd_string(reader *r, us_slice *slice, uint16_t *flags, uint16_t in_text,
                                    bool *ascii);
static enum us_flaw read_key(reader *r, us_node *node);
static enum us_flaw open_frame(reader *r, us_node *node, uint8_t kind);
static enum us_flaw settle(reader *r, bool *done);
static enum us_flaw close_frame(reader *r);
static enum us_flaw link_child(reader *r, uint32_t index);
static inline void skip_space(reader *r);

enum us_flaw us_json_read(us_json *doc, const uint8_t *in, size_t len)
{
    reader r; /* its frames are filled as they are opened */
    bool done = false;

    if (len > US_JSON_BYTES_MAX)
        return US_TOO_LONG;
    r.at = in;
    r.end = in + len;
    r.doc = doc;
    r.depth = 0;
    doc->in = in;
    doc->in_len = (uint32_t)len;
    doc->node_count = 0;
    doc->text_len = 0;
    while (!done) {
        enum us_flaw flaw = read_value(&r);
        if (flaw == US_SOUND)
            flaw = settle(&r, &done);
        if (flaw != US_SOUND)
            return flaw;
    }
    skip_space(&r);
    return r.at == r.end ? US_SOUND : US_NOT_JSON;
}

/* ---- values -----------------------------------------------------------------------------------
 */

/* A value, with its key in front where it is a member. */
static enum us_flaw read_value(reader *r)
{
    us_json *doc = r->doc;
    uint32_t index = doc->node_count;
    enum us_flaw flaw = US_SOUND;

    skip_space(r);
    if (r->at == r->end)
        return US_NOT_JSON; /* before a node is asked for: an empty text is no matter of room */
    if (index == doc->node_max)
        return US_NODES_FULL;
    us_node *node = &doc->nodes[index];
    *node = (us_node){.depth = (uint8_t)r->depth};
    doc->node_count++;
    if (r->depth > 0) {
        if (r->frames[r->depth - 1].is_object)
            flaw = read_key(r, node);
        if (flaw == US_SOUND)
            flaw = link_child(r, index);
    }
    if (flaw != US_SOUND)
        return flaw;
    skip_space(r);
    return read_kind(r, node);
}

static enum us_flaw read_kind(reader *r, us_node *node)
{
    bool ascii;

    if (r->at == r->end)
        return US_NOT_JSON;
    switch (*r->at) {
    case '{':
        return open_frame(r, node, US_OBJECT);
    case '[':
        return open_frame(r, node, US_ARRAY);
    case '"':
        node->kind = US_STRING;
        return read_string(r, &node->as.string, &node->flags, US_VALUE_IN_TEXT, &ascii);
    case 't':
        return read_literal(r, node, "true", 4, US_TRUE);
    case 'f':
        return read_literal(r, node, "false", 5, US_FALSE);
    case 'n':
        return read_literal(r, node, "null", 4, US_NULL);
    default:
        return read_integer(r, node);
    }
}

static enum us_flaw read_literal(reader *r, us_node *node, const char *word, size_t len,
                                 uint8_t kind)
{
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return US_NOT_JSON;
    r->at += len;
    node->kind = kind;
    return US_SOUND;
}

/* `-0` is the integer 0, as for the reference; `-0.0` and `0e0` are no integers. */
static enum us_flaw read_integer(reader *r, us_node *node)
{
    const uint8_t *at = r->at, *end = r->end;
    bool negative = *at == '-';
    int64_t number = 0;

    const uint8_t *begin = at += negative;
    for (; at < end && (uint8_t)(*at - '0') <= 9; at++) {
        /* Ten times the maximum is far from overflow, and what is beyond it stays beyond. */
        if (number <= US_JSON_INTEGER_MAX)
            number = number * 10 + (*at - '0');
    }
    if (at == begin || (*begin == '0' && at - begin > 1))
        return US_NOT_JSON;
    if (at < end && (*at == '.' || *at == 'e' || *at == 'E'))
        return US_NOT_INTEGER; /* or no number at all: refused either way */
    r->at = at;
    if (number > US_JSON_INTEGER_MAX)
        return US_INTEGER_BEYOND;
    node->kind = US_INTEGER;
    node->as.number = negative ? -number : number;
    return US_SOUND;
}

/* From the opening quote to behind the closing one. */
static inline enum us_flaw read_string(reader *r, us_slice *slice, uint16_t *flags,
                                       uint16_t in_text, bool *ascii)
{
    const uint8_t *begin = r->at + 1;
    const uint8_t *end = us_look_ascii(begin, r->end);

    if (end == r->end || *end != '"')
        return read_odd_string(r, slice, flags, in_text, ascii);
    r->at = end + 1;
    *slice = (us_slice){(uint32_t)(begin - r->doc->in), (uint32_t)(end - begin)};
    *ascii = true;
    return US_SOUND;
}

/* With escapes, with bytes above 0x7f, or with flaws. */
static enum us_flaw read_odd_string(reader *r, us_slice *slice, uint16_t *flags, uint16_t in_text,
                                    bool *ascii)
{
    us_json *doc = r->doc;
    us_scan scan;

    const uint8_t *begin = r->at + 1;
    enum us_flaw flaw = us_scan_string(begin, r->end, &scan);
    if (flaw != US_SOUND)
        return flaw;
    r->at = scan.end + 1;
    size_t len = (size_t)(scan.end - begin);
    *ascii = scan.ascii;
    if (!scan.escaped) {
        *slice = (us_slice){(uint32_t)(begin - doc->in), (uint32_t)len};
        return US_SOUND;
    }
    uint8_t *out = doc->text + doc->text_len;
    if (len > doc->text_max - doc->text_len)
        return US_TEXT_FULL; /* what it stands for is shorter, but who knows by how much */
    flaw = us_unescape(begin, scan.end, out, &len);
    if (flaw != US_SOUND)
        return flaw;
    for (size_t i = 0; i < len && *ascii; i++)
        *ascii = out[i] < 0x80;
    *slice = (us_slice){doc->text_len, (uint32_t)len};
    *flags |= in_text;
    doc->text_len += (uint32_t)len;
    return US_SOUND;
}

static enum us_flaw read_key(reader *r, us_node *node)
{
    bool ascii;

    if (*r->at != '"')
        return US_NOT_JSON;
    enum us_flaw flaw = read_string(r, &node->key, &node->flags, US_KEY_IN_TEXT, &ascii);
    if (flaw != US_SOUND)
        return flaw;
    if (!ascii)
        return US_KEY_NOT_ASCII;
    skip_space(r);
    if (r->at == r->end || *r->at != ':')
        return US_NOT_JSON;
    r->at++;
    return US_SOUND;
}

/* ---- arrays and objects -----------------------------------------------------------------------
 */

static enum us_flaw open_frame(reader *r, us_node *node, uint8_t kind)
{
    if (r->depth == US_JSON_DEPTH_MAX)
        return US_TOO_DEEP;
    r->at++;
    node->kind = kind;
    r->frames[r->depth++] = (frame){
        .node = (uint32_t)(node - r->doc->nodes),
        .is_object = kind == US_OBJECT,
    };
    return US_SOUND;
}

/* Behind a value, or a bracket that was just opened: go to where the next value starts. */
static enum us_flaw settle(reader *r, bool *done)
{
    while (r->depth > 0) {
        const frame *top = &r->frames[r->depth - 1];
        skip_space(r);
        if (r->at == r->end)
            return US_NOT_JSON;
        if (*r->at == (top->is_object ? '}' : ']')) {
            enum us_flaw flaw = close_frame(r);
            if (flaw != US_SOUND)
                return flaw;
            continue;
        }
        /* An array or object was opened by the node that was read last, if it has no child yet. */
        if (top->last == 0)
            return US_SOUND;
        if (*r->at != ',')
            return US_NOT_JSON;
        r->at++;
        return US_SOUND;
    }
    *done = true;
    return US_SOUND;
}

static enum us_flaw close_frame(reader *r)
{
    const frame *top = &r->frames[--r->depth];

    r->at++;
    if (!top->unsorted)
        return US_SOUND;
    return us_sort_members(r->doc, &r->doc->nodes[top->node]);
}

/* Behind its older siblings. Keys that come in order, as ours do, are proven different here. */
static enum us_flaw link_child(reader *r, uint32_t index)
{
    us_node *nodes = r->doc->nodes;
    frame *top = &r->frames[r->depth - 1];

    if (top->last == 0)
        nodes[top->node].as.children.first = index;
    else
        nodes[top->last].next = index;
    if (top->is_object && top->last != 0) {
        int order = us_compare_keys(r->doc, &nodes[top->last], &nodes[index]);
        if (order == 0)
            return US_KEY_TWICE;
        top->unsorted |= order > 0;
    }
    nodes[top->node].as.children.count++;
    top->last = index;
    return US_SOUND;
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

static inline void skip_space(reader *r)
{
    while (r->at < r->end && *r->at <= ' ' &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

/* ---- what was read ----------------------------------------------------------------------------
 */

const us_node *us_json_find(const us_json *doc, const us_node *object, const char *key,
                            size_t key_len)
{
    if (object->kind != US_OBJECT)
        return NULL;
    for (uint32_t i = object->as.children.first; i != 0; i = doc->nodes[i].next) {
        const us_node *member = &doc->nodes[i];
        if (member->key.len == key_len && memcmp(us_json_key(doc, member), key, key_len) == 0)
            return member;
    }
    return NULL;
}
