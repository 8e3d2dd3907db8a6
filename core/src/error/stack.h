/* The stack that a record stores: the language exception's own, or the thread's. */
#ifndef SS_STACK_H
#define SS_STACK_H

#include "error/record.h"

enum { SS_DEFAULT_MAX_FRAMES = 512 };

typedef struct ss_stack {
    const uintptr_t *frames;
    uint32_t count;
    uint64_t epoch;    /* see ss_code_epoch */
    int64_t taken_at;  /* nanoseconds since 1970 of the clock by which files are dated */
    uint32_t to_store; /* elements that a record has to store: 0 where the exception keeps them */
    uintptr_t *heap;   /* the memory of frames when the limit is above the default */
    uintptr_t room[SS_DEFAULT_MAX_FRAMES];
} ss_stack;

/*
 * Take the stack outside of ABOVE into STACK.  Calls QueryInterface for IAgileObject and
 * ILanguageExceptionStackBackTrace on LANGUAGE (its object may be NULL).  The stack is optional:
 * without memory it is empty.
 */
void ss_stack_take(ss_stack *stack, const ss_held *language, const void *above);
void ss_stack_done(ss_stack *stack);

/*
 * Point RECORD, which holds the language exception for life, to the frames.  Those that it has to
 * store are copied to STORAGE.
 */
void ss_stack_store(const ss_stack *stack, ss_record *record, uintptr_t *storage);

#endif
