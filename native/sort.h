/* The canonical order of an object's members: ascending keys, byte by byte. */

#ifndef US_SORT_H
#define US_SORT_H

#include "json.h"

/* Below, at or above 0, as memcmp; a key comes behind its own beginnings. */
int us_compare_keys(const us_json *doc, const us_node *left, const us_node *right);

/* Chain the members of an object anew; US_KEY_TWICE where two have the same name. */
US_CHECKED enum us_flaw us_sort_members(us_json *doc, us_node *object);

#endif
