/*
 * The native frames of the calling thread: ip, stack pointer, function start and, on request, the
 * callee-saved registers of each.  The contract of the layer; walk.c keeps it with .eh_frame data,
 * walk_none.c for machines whose registers nobody described yet.
 *
 * A walk takes memory only by mmap, in a thread's first, where a stack is deep for the first time
 * or more contexts are kept, and no lock that a fork may hold; a signal handler may walk.  No
 * memory outside the stack in use is read but the unwind data of loaded modules.
 */
#ifndef SS_UNWIND_H
#define SS_UNWIND_H

#include "base/platform.h"
#include <stacksplice/source.h>

/* More frames are an endless recursion: what lies further out is told in bytes. */
#define SS_UNWIND_MAX_FRAMES 65536

/* In the flags of a frame: it has a mark. */
#define SS_UNWIND_MARKED (UINT32_C(1) << 31)

/* A stack changes inside one walk where a signal handler ran on a stack of its own. */
#define SS_UNWIND_MAX_STACKS 8

/* Memory that may be read: one stack, or the part of it that is in use. */
typedef struct ss_range {
    uintptr_t low;
    uintptr_t high; /* one past the last byte */
} ss_range;

#define SS_UNWIND_NO_WALK "native frames not supported on this platform"

/* Why there are outer frames that a walk has not: all that end_reason can be. */
#define SS_UNWIND_REASONS(X)                                                      \
    X(NO_DATA, "callers unknown: this code has no unwind data")                   \
    X(UNASKED, "list of loaded binaries unavailable: another thread was forking") \
    X(BROKEN, "unwind data of this code is damaged or in an unknown format")      \
    X(OFF_STACK, "next frame would lie outside this stack")                       \
    X(UNKNOWN_STACK, "bounds of this stack unknown")                              \
    X(NO_ROOM, "too many functions here have a rare kind of unwind data")         \
    X(NO_WALK, SS_UNWIND_NO_WALK)

struct ss_tree;

/*
 * One walk.  A thread keeps it between captures, for its memory; all zero is a valid empty one.
 * Frames are numbered from the innermost, 0.
 */
typedef struct ss_unwind {
    stacksplice_native_frame *frames;
    uint32_t count;
    uint32_t hidden;  /* frames 0 to hidden - 1 are ours, further in than ABOVE */
    uint32_t *marked; /* the frames with SS_UNWIND_MARKED, counted from the first not hidden */
    uint32_t marked_count;
    uint32_t stack_count;
    ss_range stacks[SS_UNWIND_MAX_STACKS]; /* the last is that of the outermost frame */
    bool inferred;                         /* a frame was found by its frame pointer */
    const char *end_reason; /* why there are outer frames that are not here; NULL: there are none */
    size_t bytes_left;      /* of stack beyond the last frame, when the frame limit was met */
    struct ss_tree *tree;   /* owned: all memory of the walk; NULL before the first */
} ss_unwind;

/*
 * Walk the calling thread's stack from the caller of this function outward, at most MAX frames.
 * ABOVE is the frame address of the outermost function of ours: up to there the stack is known to
 * be good even when its bounds are not.  False when there was no memory for a first walk.
 */
bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max);

/*
 * Walk on from where the last walk met its limit: frame 0 is the last frame that is not
 * interrupted, those behind it follow.  False, and the walk is as it was, where that is impossible.
 */
bool ss_unwind_continue(ss_unwind *walk, uint32_t max);

/*
 * The return addresses alone, without the SKIP innermost, at most MAX, if all of that is known: of
 * the callers of the function whose frame address is ABOVE, which must be exact.  False: a walk
 * must tell, and ss_unwind_recurs after it makes the same stack known.
 */
bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count);
void ss_unwind_recurs(ss_unwind *walk, const void *above);

/* The value that callee-saved register DWARF_REGISTER had in frame FRAME at its call. */
bool ss_unwind_register(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                        uintptr_t *value);

/* The same for COUNT registers of one frame; false when any of them cannot be known. */
bool ss_unwind_registers(const ss_unwind *walk, uint32_t frame, const uint32_t *dwarf_registers,
                         uint32_t count, uintptr_t *values);

/*
 * The first address of the function that the return address IP lies in, by its unwind data; 0 when
 * it has none.  Signal safe.
 */
uintptr_t ss_unwind_function(uintptr_t ip);

/*
 * Ask FLAGS for the flags beyond SIGNAL and INFERRED of the frame with the return address IP into
 * FUNCTION, from now on, also where another answer is remembered.  It must be signal safe.
 */
void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function));

/* Give back memory: what an unusually deep walk took, or (ALL) everything. */
void ss_unwind_trim(ss_unwind *walk, bool all);

#endif
