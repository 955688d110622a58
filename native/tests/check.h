/* The one assertion of the C tests: it says where and what, and ends the program. */

#ifndef US_TESTS_CHECK_H
#define US_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
