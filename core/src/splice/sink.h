/*
 * The output of a capture: an array that may be shorter than the stack.  A stored stack keeps both
 * ends, with a gap in between that gives the number of missing frames.
 */
#ifndef SS_SINK_H
#define SS_SINK_H

#include "base/platform.h"
#include "splice/unloaded.h"

typedef struct ss_sink {
    uintptr_t *frames;
    uint32_t max;
    uint32_t skip; /* elements still to skip */
    uint32_t stored;
    bool more;         /* there were elements beyond MAX */
    bool ends;         /* keep the innermost and the outermost elements; else only the innermost */
    uintptr_t behind;  /* drop everything up to the first token equal to this one; 0: nothing */
    uint32_t oldest;   /* with both ends: the outer element to replace next */
    uint64_t left_out; /* number of frames dropped */
} ss_sink;

void ss_sink_put(ss_sink *sink, uintptr_t element);
void ss_sink_put_tokens(ss_sink *sink, const uintptr_t *tokens, uint32_t count);

/* Whether COUNT elements fit without checking each. */
static inline bool ss_sink_has_room(const ss_sink *sink, size_t count)
{
    return !sink->skip && count <= sink->max - sink->stored;
}

/* Call after the last element: joins both ends. */
void ss_sink_finish(ss_sink *sink);

/*
 * The gap in the middle of a long stack is a token that carries its number.  It is in no table, so
 * new depths cost no memory.  Number 0: a provider did not report the outer frames.
 */
#define SS_LEFT_OUT_BIT ((uintptr_t)STACKSPLICE_TOKEN_LEFT_OUT)

static inline bool ss_left_out_is(uintptr_t element)
{
    return (element & SS_UNLOADED_BITS) == SS_LEFT_OUT_BIT && ss_token_is(element);
}

/* How many frames ELEMENT stands for: at least 1. */
uint64_t ss_left_out_count(uintptr_t element);

enum { SS_LEFT_OUT_TEXT = 80 };

/* The reason of that gap, written to TEXT or static.  Signal safe. */
const char *ss_left_out_reason(uintptr_t token, char text[SS_LEFT_OUT_TEXT]);

#endif
