/*
 * The native frames of the calling thread: ip, stack pointer, function start and, on request, the
 * callee-saved registers of each.  This is the layer's contract.  walk.c implements it with
 * .eh_frame data, walk_none.c for processors that have no description yet.
 *
 * A walk gets memory only by mmap: in a thread's first walk, for the first deep stack, or to keep
 * more contexts.  It takes no lock that a fork may hold, so a signal handler may walk.  Outside the
 * stack in use it reads only the unwind data of loaded modules.
 */
#ifndef SS_UNWIND_H
#define SS_UNWIND_H

#include "base/platform.h"
#include <stacksplice/source.h>

/* Of one walk, and of a stack in a report: more frames mean endless recursion. */
#define SS_UNWIND_MAX_FRAMES 65536

/* At most as many functions of our own lie further in than the caller. */
#define SS_UNWIND_OWN_FRAMES 16

/* Flag of a frame that `marked` lists. */
#define SS_UNWIND_MARKED (UINT32_C(1) << 31)

/* Flag of a frame of a forwarder (ss_rule_forwarder), which a stack does not show. */
#define SS_UNWIND_FORWARDER UINT32_C(4)

/* The stack changes within a walk where a signal handler ran on its own stack. */
#define SS_UNWIND_MAX_STACKS 8

/* Readable memory: one stack, or the part of it that is in use. */
typedef struct ss_range {
    uintptr_t low;
    uintptr_t high; /* one past the last byte */
} ss_range;

#define SS_UNWIND_NO_WALK "native frames not supported on this platform"

/* Why a walk lacks outer frames: all possible values of end_reason. */
#define SS_UNWIND_REASONS(X)                                                                   \
    X(NO_DATA, "callers unknown: this code has no unwind data")                                \
    X(UNASKED, "list of loaded binaries unavailable: another thread was forking or unloading") \
    X(BROKEN, "unwind data of this code is damaged or in an unknown format")                   \
    X(OFF_STACK, "next frame would lie outside this stack")                                    \
    X(UNKNOWN_STACK, "bounds of this stack unknown")                                           \
    X(NO_ROOM, "too many functions here have a rare kind of unwind data")                      \
    X(NO_WALK, SS_UNWIND_NO_WALK)

struct ss_table;

/*
 * One walk.  A thread keeps it between captures for its memory; all zero is a valid empty walk.
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
    bool forwards;                         /* a frame is of a forwarder */
    const char *end_reason;                /* why outer frames are missing; NULL: none are */
    bool has_more;                         /* the frame limit was met */
    struct ss_table *table; /* owned: all memory of the walk; NULL before the first */
} ss_unwind;

/*
 * Walk the calling thread's stack outward from the caller of this function, at most MAX frames.
 * ABOVE is the frame address of our outermost function: the stack is readable up to there, even
 * when its bounds are unknown.  False when there was no memory for a first walk.
 */
bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max);

/*
 * Go on where the last walk met its limit, as long again.  The first frames of the new walk are the
 * last ones of the old: returns how many, or 0 where that is impossible.
 */
uint32_t ss_unwind_continue(ss_unwind *walk);

/*
 * The return addresses alone, at most MAX, without the SKIP innermost.  They are those of the
 * callers of the function whose frame address is ABOVE, which must be exact.  False when the table
 * lacks one of them: then walk, and call ss_unwind_recurs to tell of that walk.
 */
bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count);
void ss_unwind_recurs(ss_unwind *walk, const void *above);

/*
 * The values that COUNT callee-saved registers had in frame FRAME at its call; false when any of
 * them cannot be known.
 */
bool ss_unwind_registers(const ss_unwind *walk, uint32_t frame, const uint32_t *dwarf_registers,
                         uint32_t count, uintptr_t *values);

/*
 * Call REPORT for each word of the stack that decides COUNT frames from FIRST outward: where each
 * lies, and where the last walk ended after the last one.  Frames further in are taken as given.
 * False if that is more than words of the stack: signal frames, guesses, rare unwind data.
 */
typedef void (*ss_word_report)(void *data, uintptr_t address, uintptr_t value);
bool ss_unwind_words(const ss_unwind *walk, uint32_t first, uint32_t count, ss_word_report report,
                     void *data);

/* The same for the value of a register of one frame, as ss_unwind_registers finds it. */
bool ss_unwind_register_word(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                             ss_word_report report, void *data);

/*
 * The first address of the function that contains the return address IP, from its unwind data; 0
 * when it has none.  Signal safe.
 */
uintptr_t ss_unwind_function(uintptr_t ip);

/*
 * Register FLAGS, which returns a frame's flags beyond SIGNAL and INFERRED, given its return
 * address IP and its FUNCTION's start.  Cached answers are dropped.  FLAGS must be signal safe.
 */
void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function));

/* A number that changes when the flags of frames may change. */
uint32_t ss_unwind_epoch(void);

/* Release memory: that of an unusually deep walk, or (ALL) everything. */
void ss_unwind_trim(ss_unwind *walk, bool all);

#endif
