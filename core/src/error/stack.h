/* The stack that goes into a record: the language exception's own, or the thread's. */
#ifndef SS_STACK_H
#define SS_STACK_H

#include "error/record.h"

enum { SS_DEFAULT_MAX_FRAMES = 512 };

typedef struct ss_stack {
    uintptr_t *frames;
    uint32_t count;
    uintptr_t *heap; /* behind frames when the limit is above the default */
    uintptr_t room[SS_DEFAULT_MAX_FRAMES];
} ss_stack;

/*
 * Take the stack outside of ABOVE into STACK.  Calls QueryInterface for IAgileObject and
 * ILanguageExceptionStackBackTrace on LANGUAGE (its object may be NULL).  A stack is a bonus:
 * without memory it is empty.
 */
void ss_stack_take(ss_stack *stack, const ss_held *language, const void *above);
void ss_stack_done(ss_stack *stack);

/* Copy it behind a record, to STORAGE of as many elements, and make RECORD point there. */
void ss_stack_store(const ss_stack *stack, ss_record *record, uintptr_t *storage);

#endif
