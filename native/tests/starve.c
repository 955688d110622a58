/* Memory that runs out on demand. */

#include "starve.h"

#undef malloc
#undef calloc
#undef realloc

#include <stdbool.h>
#include <stdlib.h>

static bool is_starved(void);

int64_t us_starve_after = -1;

void *us_starved_malloc(size_t size)
{
    return is_starved() ? NULL : malloc(size);
}

void *us_starved_calloc(size_t count, size_t size)
{
    return is_starved() ? NULL : calloc(count, size);
}

void *us_starved_realloc(void *memory, size_t size)
{
    return is_starved() ? NULL : realloc(memory, size);
}

static bool is_starved(void)
{
    if (us_starve_after < 0)
        return false;
    if (us_starve_after == 0)
        return true;
    us_starve_after--;
    return false;
}
