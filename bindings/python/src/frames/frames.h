/* Python frames: where this CPython keeps them, and the stack elements for them. */
#ifndef SSPY_FRAMES_H
#define SSPY_FRAMES_H

#include "life/life.h"

#include "shared/python.h"

/* Find the layout of this CPython and check it against known frames; once per process.  GIL held.
   -1 with an exception only when memory runs out. */
int sspy_layout_check(void);
/* Why Python frames cannot be shown, with the version found, or NULL when they can. */
const char *sspy_layout_reason(void);
/* Register the frame source, once per process. */
HRESULT sspy_source_register(void);
/* Start using the table of tokens.  The main interpreter calls this as its module begins.  Without
   memory the table stays empty. */
void sspy_cache_begin(PyInterpreterState *interp);

/* The position of byte offset LASTI in CODE; of its first line when LASTI is negative.  Reads only the
   code object: no allocation, no lock. */
static inline sspy_position sspy_position_of(const PyCodeObject *code, int lasti)
{
    return sspy_position_in((const unsigned char *)PyBytes_AS_STRING(code->co_linetable),
                            (size_t)PyBytes_GET_SIZE(code->co_linetable), code->co_firstlineno,
                            lasti);
}

/* ---- Elements of stacks (tokens.c) -------------------------------------------------------------*/

/* The token of a live frame at byte offset LASTI (or -1) in CODE.  Any thread, also in a capture.
 */
uintptr_t sspy_token(PyCodeObject *code, int lasti, PyInterpreterState *interp);
/* The token of that place at LINE (0: look it up) in the current interpreter, with its lock held
   and outside of any capture.  Looks in the table of tokens, and adds the token to it
   (token_cache.h). */
uintptr_t sspy_token_known(PyCodeObject *code, int lasti, int line, stacksplice_trust trust);

/* The token of a gap.  Without memory the token says so instead. */
static inline uintptr_t sspy_gap(const char *reason)
{
    return stacksplice_gap("python", reason, 0);
}

/* The same, for a thread that asks often: interned again in each epoch of the core, so that it is not
   dropped.  KEPT is of one thread and one reason. */
typedef struct sspy_kept_gap {
    uintptr_t token;
    uint32_t epoch;
} sspy_kept_gap;
uintptr_t sspy_gap_kept(sspy_kept_gap *kept, const char *reason);

/* The token of a seam, where another stack follows. */
static inline uintptr_t sspy_seam_gap(const char *reason)
{
    return stacksplice_gap("python", reason, STACKSPLICE_GAP_ASYNCHRONOUS);
}

uintptr_t sspy_mark(void); /* STACKSPLICE_GAP_RETURNED */
/* Reasons of gaps, besides that one, at which only the callers of Python's frames are missing. */
#define SSPY_CAUGHT_BEFORE "exception caught here earlier: callers of this frame unknown"
#define SSPY_NEVER_RAISED "exception created but never raised"
/* The reason of a seam to another task's stack; the task's name may follow it. */
#define SSPY_AWAITED "awaited by another task"
/* The reason of the gap outside of the last of these tasks; the frames of the loop follow. */
#define SSPY_RUN_BY_LOOP "the event loop runs these tasks"
/* The reason of the gap behind which the callers of a greenlet are. */
#define SSPY_GREENLET_ENDS "end of this greenlet's own stack"
/* Other seams: the frames outside of it raised what was kept. */
#define SSPY_RAISED_AGAIN "stored exception re-raised here"
#define SSPY_OTHER_THREAD "error came from another thread"
/* The reason of the gap outside of a stack whose exception has a traceback that cannot be compared with it. */
#define SSPY_TOO_MANY_ENTRIES "what the error passed later is not known: its traceback is too long"

/* ---- Live frames of the current thread state (source.c) ----------------------------------------*/

/* The innermost complete frame, as an address only; or NULL. */
const void *sspy_frame_top(void);
/* The call that a running frame does now: the frame as an address only, and the address of the
   instruction.  FRAME is NULL if there is none. */
typedef struct sspy_call {
    const void *frame;
    uintptr_t instruction;
} sspy_call;
/* That of THREAD's innermost complete frame.  THREAD is NULL or this thread's, which may have
   released the lock. */
sspy_call sspy_call_now(PyThreadState *thread);
static inline bool sspy_same_call(sspy_call a, sspy_call b)
{
    return a.frame && a.frame == b.frame && a.instruction == b.instruction;
}
/* The address of FRAME's data if it is live on the chain, else NULL.  OWNED is the result of
   sspy_chain_has_owned: without such frames most answers need no look at the chain. */
const void *sspy_frame_live(PyFrameObject *frame, bool owned);
/* Whether FRAME cannot go on meanwhile: it has ended, or this thread runs it.  Without a lock other threads
   run theirs, and what these have can be gone while it is read. */
#if SSPY_IS_FREE_THREADED
bool sspy_frame_is_steady(PyFrameObject *frame);
#else
static inline bool sspy_frame_is_steady(PyFrameObject *Py_UNUSED(frame))
{
    return true;
}
#endif
/* The caller of FRAME, a new reference; NULL if it has none, maybe with an exception, or if another thread
   runs it. */
static inline PyFrameObject *sspy_frame_back(PyFrameObject *frame)
{
    return sspy_frame_is_steady(frame) ? PyFrame_GetBack(frame) : NULL;
}
/* Whether a live frame belongs to its frame object. */
bool sspy_chain_has_owned(void);

/* An address inside of the native frame of the loop that runs the innermost frame; NULL if there is
   none. */
const void *sspy_loop_marker(void);

/* A live frame, by the address of its data, and the token to show for it; 0: the token of its
   current place. */
typedef struct sspy_replaced_frame {
    const void *data;
    uintptr_t token;
} sspy_replaced_frame;
/* Frames that a capture shows with other tokens: MARK goes before the innermost of FRAMES. */
typedef struct sspy_replacement {
    const void *innermost; /* set by sspy_replace */
    const sspy_replaced_frame *frames;
    uint32_t count;
    uintptr_t mark;
} sspy_replacement;
/* Captures of this thread apply WANTED, which is borrowed, until the next call; NULL: nothing. */
void sspy_replace(sspy_replacement *wanted);

/* ---- Loaded binaries (source.c) ----------------------------------------------------------------*/

typedef struct sspy_binary {
    uintptr_t begin, end; /* END 0: unknown */
    const char *path;
} sspy_binary;
/* Find the one with the code at IP, by addresses alone; any thread, also in a capture. */
bool sspy_find_binary(uintptr_t ip, sspy_binary *found);

#endif
