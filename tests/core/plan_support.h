/*
 * For the tests of plans (plan/plan.h): a source whose frames follow from words, and captures from
 * one place.
 */
#ifndef PLAN_SUPPORT_H
#define PLAN_SUPPORT_H

#include "splice_fixture.h"

#include <stacksplice/source.h>

#include <stdbool.h>

enum { ENOUGH = 100 /* captures, after which a recurring stack has a plan */ };

/* A place in the source is one place in the code: no copies for constants, no unrolled loops. */
#ifdef __clang__
#define ONE_PLACE __attribute__((noinline))
#else
#define ONE_PLACE __attribute__((noipa))
#endif
extern volatile unsigned one; /* 1: a step that the compiler does not know */

/* ---- The source -------------------------------------------------------------------------------*/

typedef struct node {
    const struct node *next;
    uintptr_t token;
} node;

/* What this thread's captures read, and what they asked. */
typedef struct script {
    const node *head;
    unsigned asked;   /* how often the source was asked, */
    unsigned reports; /* and how often for reports */
    bool refuses, forgets_tokens;
    int guarded; /* 0: no guard */
} script_state;

extern _Thread_local script_state script;
extern node nodes[2]; /* of the functions "a" and "b" */

uintptr_t script_token(const char *function);

/* Make the nodes and the thread's script as they were; adds the source when first called. */
int set_up(void **state);

#define PLAN_TEST(name) TEST_WITH(name, set_up, NULL)

/* ---- Captures ---------------------------------------------------------------------------------*/

/* Capture TIMES times into S; returns how often the source was asked. */
unsigned capture_times(stack *s, unsigned times);

/*
 * All captures of a test are made here: the stack is the same.  First make a plan, then do CHANGE,
 * then capture once more; returns whether that asked the source.
 */
bool asks_after(void (*change)(void), stack *before, stack *after);

void check_equal(const stack *a, const stack *b);

/* A change: the second node gets another token. */
void change_token(void);

#endif
