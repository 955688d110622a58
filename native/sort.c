/* The canonical order of an object's members: ascending keys, byte by byte.
 *
 * A merge sort of the chain: it needs no memory but the links and a few heads, and n log n steps
 * for any input, so that no order of keys is a way to slow the reader down.
 */

#include "sort.h"

#include <assert.h>
#include <string.h>

#define FEW 16  /* up to which insertion is faster than merging */
#define BINS 31 /* for fewer than 2^31 members; there are at most 2^30 (J6) */

static enum us_flaw insert_all(us_json *doc, us_node *object);
static enum us_flaw merge_all(us_json *doc, us_node *object);
static uint32_t merge(us_json *doc, uint32_t left, uint32_t right, bool *twice);

enum us_flaw us_sort_members(us_json *doc, us_node *object)
{
    if (object->as.children.count <= FEW)
        return insert_all(doc, object);
    return merge_all(doc, object);
}

/* Each member goes behind the ones that are smaller. */
static enum us_flaw insert_all(us_json *doc, us_node *object)
{
    uint32_t index = object->as.children.first;
    uint32_t first = 0;

    while (index != 0) {
        us_node *member = &doc->nodes[index];
        uint32_t next = member->next;
        uint32_t *link = &first;
        int order = -1;
        while (*link != 0 && (order = us_compare_keys(doc, &doc->nodes[*link], member)) < 0)
            link = &doc->nodes[*link].next;
        if (order == 0)
            return US_KEY_TWICE;
        member->next = *link;
        *link = index;
        index = next;
    }
    object->as.children.first = first;
    return US_SOUND;
}

/* A chain of 2^i members waits in bin i. */
static enum us_flaw merge_all(us_json *doc, us_node *object)
{
    uint32_t bins[BINS] = {0};
    uint32_t index = object->as.children.first;
    bool twice = false;

    while (index != 0) {
        uint32_t next = doc->nodes[index].next;
        uint32_t carry = index;
        size_t i = 0;
        doc->nodes[index].next = 0;
        for (; bins[i] != 0; i++) {
            carry = merge(doc, bins[i], carry, &twice);
            bins[i] = 0;
            assert(i + 1 < BINS);
        }
        bins[i] = carry;
        index = next;
    }
    for (size_t i = 0; i < BINS; i++) {
        if (bins[i] != 0)
            index = merge(doc, bins[i], index, &twice);
    }
    object->as.children.first = index;
    return twice ? US_KEY_TWICE : US_SOUND;
}

/* Two sorted chains as one. Keys that end up side by side were compared, so equals are noticed. */
static uint32_t merge(us_json *doc, uint32_t left, uint32_t right, bool *twice)
{
    uint32_t first = 0;
    uint32_t *link = &first;

    while (left != 0 && right != 0) {
        int order = us_compare_keys(doc, &doc->nodes[left], &doc->nodes[right]);
        uint32_t *source = order <= 0 ? &left : &right;
        *twice |= order == 0;
        *link = *source;
        link = &doc->nodes[*source].next;
        *source = *link;
    }
    *link = left != 0 ? left : right;
    return first;
}
