/* Memory that runs out on demand: tests are built with these in place of malloc and its kin. */

#ifndef US_TESTS_STARVE_H
#define US_TESTS_STARVE_H

#include <stddef.h>
#include <stdint.h>

/* How many more allocations succeed; below 0, all of them. */
extern int64_t us_starve_after;

void *us_starved_malloc(size_t size);
void *us_starved_calloc(size_t count, size_t size);
void *us_starved_realloc(void *memory, size_t size);

#endif
