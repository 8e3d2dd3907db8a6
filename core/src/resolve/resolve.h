/*
 * Turns addresses into frames: tokens through their table, native ones through mapped modules,
 * symbols and debug information.
 */
#ifndef SS_RESOLVE_H
#define SS_RESOLVE_H

#include "base/platform.h"
#include "splice/token.h"
#include "unwind/binary.h"
#include <stacksplice/script.h>

#include <string.h>

/* stacksplice_frame.inlined, of what is inlined into the inside of an interpreter. */
enum { SS_INLINED_INSIDE = 2 };

/* A frame, with fields that only reports need. */
typedef struct ss_frame {
    stacksplice_frame frame;
    bool script_named; /* function is the name scripts use for it, not a symbol */
    bool replaced;     /* the file of its module is not the one that was loaded */
    uint64_t number;   /* no other frame has it, nor ever had; 0: none */
    bool is_judged;    /* the next two are known; else they are asked for each time */
    stacksplice_role role;
    const stacksplice_shell *shell; /* or NULL */
} ss_frame;

/* The part of PATH after its last slash. */
static inline const char *ss_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The frames of one element of a stack, from begin to end. */
typedef struct ss_frames {
    uint32_t count;
    bool has_own;                 /* OWN comes first */
    bool has_outer;               /* then OUTER, in a failing process */
    struct native_answer *answer; /* owned, or NULL: the others */
    char *more;                   /* owned, or NULL: texts for which SPACE is too small */
    ss_frame own, outer;
    char space[SS_TOKEN_ROOM];
} ss_frames;

/*
 * Find those of ADDRESS; at least one, also without memory.
 *
 * BRIEF: for a reader that hides glue.  Where all frames are glue, one without a file may stand for
 * them.  Reading debug information takes the longest, and most frames of such a stack are inside an
 * interpreter.
 *
 * FAILFAST: scratch space in a failing process, else NULL.  Then it neither allocates nor waits for
 * a lock of ours or of the loader (where the platform allows).  Native frames have no file, and a
 * function only if it is exported.
 */
void ss_frames_begin(ss_frames *frames, uintptr_t address, bool brief, ss_binary *failfast);

/* The innermost is 0. */
const ss_frame *ss_frames_at(const ss_frames *frames, uint32_t index);
void ss_frames_end(ss_frames *frames);

/* ---- Glue ------------------------------------------------------------------------------------*/

/*
 * Which native frames are glue: the inside of an interpreter and the calls into it, which do not
 * help a reader of reports.  Only reports hide them; a stack keeps all its frames.
 */

bool ss_glue_is(const ss_frame *frame);

/* The shell that FRAME is of, or NULL. */
const stacksplice_shell *ss_shell_of(const stacksplice_frame *frame);
/* Whether TEXT, which may be NULL, ends in END. */
bool ss_ends_with(const char *text, const char *end);
const stacksplice_shell *ss_frame_shell(const ss_frame *frame);

/* Note in FRAME what the glue of now says of it. */
void ss_frame_judge(ss_frame *frame);

/* Whether the tracebacks of GAP's language never mention such a gap: reports hide it, too. */
bool ss_gap_is_quiet(const stacksplice_frame *gap);

/* Whether all frames in the binary at PATH are glue. */
bool ss_glue_is_binary(const char *path);

/*
 * Whether FUNCTION is the inside of an interpreter, or a call into one.  So is then what the
 * compiler inlined into it.  (What was inlined into a function of std::function is the user's.)
 */
bool ss_glue_is_inside(const char *function);

/* Whether SYMBOL is of the code that calls main or a thread's function. */
bool ss_glue_is_start_up(const char *symbol);

/* What is known of LANGUAGE, or NULL. */
const stacksplice_glue *ss_glue_of(const char *language);

/* How many were added to the built-in ones, with what users hide: answers by the former number are old. */
uint32_t ss_glue_added(void);

/* The glue at INDEX, of built-in and added ones; NULL after the last. */
const stacksplice_glue *ss_glue_at(uint32_t index);

/* Whether NAME matches one of PATTERNS, a list as in stacksplice_glue. */
bool ss_glue_matches(const char *name, const char *const *patterns);

/* Glue of interpreters whose binding may not be loaded; ends with NULL. */
extern const stacksplice_glue *const ss_known_glue[];

/* ---- Stack for libraries ---------------------------------------------------------------------*/

/* libdw and demanglers use hundreds of kilobytes without checking.  Threads can have 16 KB, and deep
   recursions have little left. */

/*
 * Call F with DATA: here if the stack has room, else on a mapped one.  False when neither is
 * possible; F was not called.
 *
 * On a mapped stack, F runs with all signals blocked except processor-raised ones, since handlers
 * of the host could not see its frames.  F must not call the host, whose allocator may inspect the
 * stack it runs on.
 */
bool ss_large_stack_call(void (*f)(void *), void *data);

/*
 * Whether a report may descend one more group here.  It calls back into the host, so it stays on
 * this stack and takes up to 6 KB per error.  True when the room is unknown.
 */
bool ss_stack_suffices_for_error(void);

#endif
