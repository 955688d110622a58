/* What libFuzzer calls, and mutate.c where there is no libFuzzer. */

#ifndef US_FUZZ_H
#define US_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
