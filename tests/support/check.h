/* For programs that are tests without a test runner: what must be, or the program ends. */
#ifndef STACKSPLICE_TEST_CHECK_H
#define STACKSPLICE_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                            \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1);                                                \
        }                                                           \
    } while (0)

#endif
