/* A strict reader of canonical JSON's profile, into a flat array of nodes.
 *
 * It accepts exactly what `contracts/canonical.py:decode` accepts. Strings without escapes stay
 * where they are, in the input; the others are unescaped into `text`. Members of an object are
 * chained in canonical order, so that looking for a key and writing the value need no more work.
 *
 *     us_json doc = {.nodes = nodes, .node_max = 512, .text = text, .text_max = sizeof text};
 *     enum us_flaw flaw = us_json_read(&doc, in, len);
 *     if (flaw != US_SOUND)
 *         return flaw;
 *     const us_node *action = us_json_find(&doc, &doc.nodes[0], "action", 6);
 *
 * Invariants of a document that was read:
 *   J1  Node 0 is the whole value. `next` and `first` are greater than the node's own parent, so 0
 *       means none, and following them ends.
 *   J2  Keys of an object are ASCII without NUL, different, and ascend from `first` along `next`.
 *   J3  No string holds NUL or half a surrogate pair; all are valid UTF-8.
 *   J4  A slice without its IN_TEXT flag holds nothing that needs an escape when it is written.
 *   J5  At most US_JSON_DEPTH_MAX arrays and objects are around one another.
 *   J6  There are at most (len + 1) / 2 nodes, and at most `len` bytes of text.
 * `tests/sound.c` checks them all; C tests and the fuzzer call it after every document.
 */

#ifndef US_JSON_H
#define US_JSON_H

#include "lease.h"

#include <stdbool.h>
#include <stddef.h>

#define US_JSON_DEPTH_MAX 32                 /* limits.JSON_DEPTH_MAX */
#define US_JSON_INTEGER_MAX 9007199254740991 /* limits.INTEGER_MAX */
#define US_JSON_BYTES_MAX 0x7fffffff         /* offsets have 32 bits */

enum us_kind { US_NULL, US_FALSE, US_TRUE, US_INTEGER, US_STRING, US_ARRAY, US_OBJECT };

/* Where a slice lies: in the input, or in the text that was unescaped. */
#define US_KEY_IN_TEXT 1u
#define US_VALUE_IN_TEXT 2u

typedef struct us_slice {
    uint32_t at;
    uint32_t len;
} us_slice;

typedef struct us_chain {
    uint32_t first; /* a node; 0 if empty */
    uint32_t count;
} us_chain;

typedef struct us_node {
    union {
        int64_t number;    /* US_INTEGER */
        us_slice string;   /* US_STRING */
        us_chain children; /* US_ARRAY, US_OBJECT */
    } as;
    us_slice key;   /* a member's name */
    uint32_t next;  /* the next item or member; 0 behind the last */
    uint16_t flags; /* US_KEY_IN_TEXT | US_VALUE_IN_TEXT */
    uint8_t kind;   /* enum us_kind */
    uint8_t depth;  /* arrays and objects around this value */
} us_node;

_Static_assert(sizeof(us_slice) == 8, "a slice is two words");
_Static_assert(sizeof(us_node) == 24, "a node has no padding; rooms are measured in nodes");

typedef struct us_json {
    us_node *nodes;    /* given */
    uint32_t node_max; /* given */
    uint32_t text_max; /* given */
    uint8_t *text;     /* given; the length of the input is always enough */
    const uint8_t *in; /* set by us_json_read; the bytes must outlive the document */
    uint32_t in_len;
    uint32_t node_count;
    uint32_t text_len;
} us_json;

/* Read one document; after a flaw it has no meaning. */
US_CHECKED enum us_flaw us_json_read(us_json *doc, const uint8_t *in, size_t len);

/* The member of that name, or NULL; also NULL if the node is no object. */
const us_node *us_json_find(const us_json *doc, const us_node *object, const char *key,
                            size_t key_len);

/* The bytes of a string, or of a member's name; their length is in the slice. Here, and not in
 * json.c, because every comparison of two keys begins with them. */
static inline const uint8_t *us_json_string(const us_json *doc, const us_node *node)
{
    return ((node->flags & US_VALUE_IN_TEXT) != 0 ? doc->text : doc->in) + node->as.string.at;
}

static inline const uint8_t *us_json_key(const us_json *doc, const us_node *node)
{
    return ((node->flags & US_KEY_IN_TEXT) != 0 ? doc->text : doc->in) + node->key.at;
}

#endif
