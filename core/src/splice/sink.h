/*
 * What comes out of a capture: an array that may be shorter than the stack.  A stack that is kept
 * has both ends, and between them a gap that says how many frames are not there.
 */
#ifndef SS_SINK_H
#define SS_SINK_H

#include "base/platform.h"
#include "splice/token.h"

typedef struct ss_sink {
    uintptr_t *frames;
    uint32_t max;
    uint32_t skip; /* elements still to be left out */
    uint32_t stored;
    bool more;         /* there were elements beyond MAX */
    bool ends;         /* then the innermost and the outermost stay; else the innermost do */
    uintptr_t behind;  /* all up to the first token that is this one is forgotten; 0: nothing */
    uint32_t oldest;   /* of both ends: which of the outer ones goes next */
    uint64_t left_out; /* how many frames went */
} ss_sink;

void ss_sink_put(ss_sink *sink, uintptr_t element);
void ss_sink_put_tokens(ss_sink *sink, const uintptr_t *tokens, uint32_t count);

/* Whether COUNT elements go in without a look at each. */
static inline bool ss_sink_has_room(const ss_sink *sink, size_t count)
{
    return !sink->skip && count <= sink->max - sink->stored;
}

/* Behind the last element: bring both ends together. */
void ss_sink_finish(ss_sink *sink);

/*
 * The gap in the middle of a long stack is a token that carries its number and is in no table, so
 * that ever new depths cost no memory.  0: a provider did not give the outer frames.
 */
#define SS_LEFT_OUT_BIT ((uintptr_t)1 << 47)

static inline bool ss_left_out_is(uintptr_t element)
{
    return (element & SS_LEFT_OUT_BIT) && ss_token_is(element);
}

/* How many frames ELEMENT stands for: 1 at least. */
uint64_t ss_left_out_count(uintptr_t element);

enum { SS_LEFT_OUT_TEXT = 80 };

/* The reason of that gap, in TEXT or static.  Signal safe. */
const char *ss_left_out_reason(uintptr_t token, char text[SS_LEFT_OUT_TEXT]);

#endif
