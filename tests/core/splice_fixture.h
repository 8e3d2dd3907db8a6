/* For the tests of combined captures: a stack of ours beside libgcc's. */
#ifndef STACKSPLICE_TEST_SPLICE_FIXTURE_H
#define STACKSPLICE_TEST_SPLICE_FIXTURE_H

#include "frames.h"
#include "support.h"

#include <stdio.h>
#include <unwind.h>

#define MAX 256

typedef struct stack {
    uintptr_t frames[MAX];
    uint32_t count;
    uint32_t hash;
    stacksplice_hresult hr;
} stack;

/* ---- What a stack should be -------------------------------------------------------------------*/

static inline _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    stack *s = data;

    if (_Unwind_GetIP(context) && s->count < MAX)
        s->frames[s->count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

/* The reason of a gap; NULL for anything else. */
static inline int keep_reason(const stacksplice_frame *frame, void *data)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(data, 200, "%s", frame->reason);
    return 1;
}

static inline const char *gap(uintptr_t element)
{
    static _Thread_local char reason[200];

    reason[0] = 0;
    (void)stacksplice_resolve(element, keep_reason, reason);
    return reason[0] ? reason : NULL;
}

/* ---- Capturing --------------------------------------------------------------------------------*/

static __attribute__((unused)) NOINLINE void capture_both(stack *ours, stack *theirs)
{
    theirs->count = 0;
    _Unwind_Backtrace(keep, theirs);
    ours->hr = stacksplice_capture(0, MAX, ours->frames, &ours->count, &ours->hash);
    AFTER();
}

static inline void check_same(const stack *ours, const stack *theirs)
{
    assert_int_equal(ours->hr, S_OK);
    assert_int_equal(ours->count, theirs->count);
    /* The first differs: two calls from one function. */
    assert_true(ours->frames[0] - theirs->frames[0] < 200);
    for (uint32_t i = 1; i < ours->count; i++)
        assert_true(ours->frames[i] == theirs->frames[i]);
}

static __attribute__((unused)) NOINLINE void capture(stack *s, uint32_t skip, uint32_t max)
{
    s->hr = stacksplice_capture(skip, max, s->frames, &s->count, &s->hash);
    AFTER();
}

#endif
