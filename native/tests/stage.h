/* A kernel to try things with, what it was asked last, and whether it is sound. */

#ifndef US_TESTS_STAGE_H
#define US_TESTS_STAGE_H

#include "../kernel.h"

#define NOW_MS 1800000000000
#define OUT_MAX 65536

extern us_row row;   /* the last one that was handed out */
extern us_room room; /* tests may make it smaller */

/* With the contract's actions, and texts that are short: reason 61 is R61. */
us_kernel *fresh(uint32_t answers_max, uint32_t ids_max);

/* An issue; with a lease where the fence is not 0. */
void put(us_kernel *k, const char *id, uint32_t status, uint32_t flags, const char *assignee,
         int64_t fence, int64_t deadline_ms);

/* One line, at NOW_MS; why it was cold. */
uint32_t ask(us_kernel *k, const char *line);
uint32_t ask_bytes(us_kernel *k, const char *line, size_t len);

/* Whether the last answer has this text. */
bool says(const char *text);

/* K4 and K5, and that every record is found under its id. */
void check_invariants(const us_kernel *k);

uint32_t next_random(uint64_t *state);

#endif
