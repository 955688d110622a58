/* The invariants of a document that was read, as code. */

#include "sound.h"

#include "../scan.h"
#include "../sort.h"

static bool sound_node(const us_json *doc, uint32_t index);
static bool sound_children(const us_json *doc, uint32_t index);
static bool sound_slice(const us_json *doc, us_slice slice, bool in_text);
static bool sound_key(const us_json *doc, const us_node *node);

bool us_json_sound(const us_json *doc)
{
    uint64_t children = 0;

    if (doc->node_count == 0 || doc->node_count > doc->node_max || doc->text_len > doc->text_max)
        return false;
    if (doc->node_count > ((uint64_t)doc->in_len + 1) / 2) /* J6 */
        return false;
    if (doc->nodes[0].next != 0 || doc->nodes[0].depth != 0) /* J1 */
        return false;
    for (uint32_t i = 0; i < doc->node_count; i++) {
        if (!sound_node(doc, i))
            return false;
        if (doc->nodes[i].kind >= US_ARRAY)
            children += doc->nodes[i].as.children.count;
    }
    return children == doc->node_count - 1; /* J1 */
}

static bool sound_node(const us_json *doc, uint32_t index)
{
    const us_node *node = &doc->nodes[index];

    switch (node->kind) {
    case US_NULL:
    case US_FALSE:
    case US_TRUE:
        return true;
    case US_INTEGER:
        return node->as.number <= US_JSON_INTEGER_MAX && node->as.number >= -US_JSON_INTEGER_MAX;
    case US_STRING:
        return sound_slice(doc, node->as.string, (node->flags & US_VALUE_IN_TEXT) != 0);
    case US_ARRAY:
    case US_OBJECT:
        return node->depth < US_JSON_DEPTH_MAX && sound_children(doc, index); /* J5 */
    default:
        return false;
    }
}

static bool sound_children(const us_json *doc, uint32_t index)
{
    const us_node *parent = &doc->nodes[index];
    const us_node *before = NULL;
    uint32_t count = 0;

    for (uint32_t i = parent->as.children.first; i != 0; i = doc->nodes[i].next) {
        const us_node *child = &doc->nodes[i];
        if (i <= index || i >= doc->node_count || ++count > doc->node_count) /* J1 */
            return false;
        if (child->depth != parent->depth + 1)
            return false;
        if (parent->kind == US_OBJECT) { /* J2 */
            if (!sound_key(doc, child))
                return false;
            if (before != NULL && us_compare_keys(doc, before, child) >= 0)
                return false;
        }
        before = child;
    }
    return count == parent->as.children.count;
}

static bool sound_key(const us_json *doc, const us_node *node)
{
    if (!sound_slice(doc, node->key, (node->flags & US_KEY_IN_TEXT) != 0))
        return false;
    for (uint32_t i = 0; i < node->key.len; i++) {
        uint8_t byte = us_json_key(doc, node)[i];
        if (byte == 0 || byte > 0x7f)
            return false;
    }
    return true;
}

static bool sound_slice(const us_json *doc, us_slice slice, bool in_text)
{
    const uint8_t *at = (in_text ? doc->text : doc->in) + slice.at;
    uint32_t size = in_text ? doc->text_len : doc->in_len;

    if (slice.at > size || slice.len > size - slice.at)
        return false;
    if (!in_text) /* J4 */
        return us_plain_run(at, at + slice.len) == slice.len;
    for (uint32_t i = 0; i < slice.len; i++) {
        if (at[i] == 0) /* J3 */
            return false;
    }
    return true;
}
