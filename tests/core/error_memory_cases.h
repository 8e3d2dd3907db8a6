/* What each function does that takes memory, for error_memory_test.c. */
#ifndef ERROR_MEMORY_CASES_H
#define ERROR_MEMORY_CASES_H

#include "error_test.h"
#include "failing_allocator.h"

/* A case sets up, arms, calls once, disarms, checks, and cleans up: S_OK or E_OUTOFMEMORY. */
typedef struct memory_case {
    const char *name;
    HRESULT (*run)(void);
    int keeps; /* what it makes stays for ever */
} memory_case;

extern const memory_case memory_cases[];
extern const size_t memory_case_count;

extern long fail_at; /* which allocation the next arm() lets fail; 0: none */

static inline void arm(void)
{
    memory_arm(fail_at);
}

/* STATEMENT, in which an allocation may fail. */
#define STARVED(statement) \
    do {                   \
        arm();             \
        statement;         \
        memory_disarm();   \
    } while (0)

#endif
