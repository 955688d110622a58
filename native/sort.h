/* The canonical order of an object's members: ascending keys, byte by byte. */

#ifndef US_SORT_H
#define US_SORT_H

#include "json.h"

#include <string.h>

/* Below, at or above 0, as memcmp; a key comes behind its own beginnings. Here, and not in sort.c,
 * because most names differ in their first byte. */
static inline int us_compare_keys(const us_json *doc, const us_node *left, const us_node *right)
{
    const uint8_t *a = us_json_key(doc, left);
    const uint8_t *b = us_json_key(doc, right);
    uint32_t least = left->key.len < right->key.len ? left->key.len : right->key.len;

    if (least > 0 && a[0] != b[0])
        return a[0] < b[0] ? -1 : 1;
    int order = memcmp(a, b, least);
    if (order != 0)
        return order;
    return (left->key.len > right->key.len) - (left->key.len < right->key.len);
}

/* Chain the members of an object anew; US_KEY_TWICE where two have the same name. */
US_CHECKED enum us_flaw us_sort_members(us_json *doc, us_node *object);

#endif
