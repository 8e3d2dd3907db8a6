/* The stack of an exception: its traceback, the live stack and the tasks that await it, in one. */
#ifndef SSPY_STACK_H
#define SSPY_STACK_H

#include "frames/frames.h"
#include "value/value.h"

/* ---- Captures (stack.c) ------------------------------------------------------------------------*/

/* A buffer in which a stack is assembled before it is shortened to LIMIT.  It holds ended frames,
   live frames and waiting tasks, each with both ends. */
enum { SSPY_NEAR_FRAMES = 512 };
#define SSPY_ROOM(limit) (3 * (limit) + 8)
typedef struct sspy_room {
    uint32_t limit;
    bool is_whole;     /* the stack has each entry of the traceback: no frame has a second one */
    bool has_no_loop;  /* no asyncio loop runs in this thread */
    uintptr_t *frames; /* NEAR, or malloc */
    uintptr_t near[SSPY_ROOM(SSPY_NEAR_FRAMES)];
} sspy_room;
/* -1 with a MemoryError. */
int sspy_room_begin(sspy_room *room, uint32_t limit);
void sspy_room_end(sspy_room *room);

/*
 * Store a combined stack in FRAMES (room for MAX, both ends of a longer one).  It starts outside of
 * ABOVE, or at the calling Python frame if ABOVE is NULL.  Returns the count.
 */
uint32_t sspy_capture(const void *above, uint32_t max, uintptr_t *frames);

/* ---- Elements (facts.c) ------------------------------------------------------------------------*/

/* What is known of an element.  The numbers are hashes: equal for equal texts, 0 for what is no frame of
   a script. */
typedef struct sspy_facts {
    uintptr_t element;
    uint64_t function;       /* its name, file, language and interpreter */
    uint64_t line;           /* the same, and the line */
    uint64_t place;          /* the same and the columns */
    uint64_t file_line;      /* the line and the file; 0 if it has none */
    bool is_python, is_here; /* a frame of Python; of this interpreter's */
    bool is_in_file;         /* and no function of C */
    bool is_passed;          /* a traceback tells of it: when it was read, it may have ended */
    bool is_gap;
    bool awaits; /* a seam: the frames of a task that awaits the inner one end here */
    bool ends;   /* the gap outside of which a greenlet was called */
    bool joins;  /* the gap outside of which another thread waited */
} sspy_facts;
sspy_facts sspy_facts_of(sspy_state *state, uintptr_t element);
/* Whether ELEMENT is a Python frame of STATE's interpreter. */
bool sspy_is_frame_of(sspy_state *state, uintptr_t element);

/* ---- Of an exception (stack.c) -----------------------------------------------------------------*/

/* An exception whose error is being made; OUTER is the one of which it is a cause or a member. */
typedef struct sspy_step {
    PyObject *exc;
    const struct sspy_step *outer;
    uint32_t number; /* of steps outward */
} sspy_step;

/*
 * Store EXC's stack in ROOM; *COUNT is at most the limit. -1 with a MemoryError.  A frame that is
 * both in the traceback and live appears at its live place, with the line where the exception
 * passed.  OUTER is NULL for the exception that is at the border.
 */
int sspy_stack_of(sspy_state *state, PyObject *exc, const sspy_step *outer, const void *above,
                  sspy_room *room, uint32_t *count);
/* The same for EXC while it leaves the innermost frame: what it left before is known. */
int sspy_stack_at_border(sspy_state *state, PyObject *exc, sspy_room *room, uint32_t *count);
/* Keep the stack of EXC, which has none yet: its traceback, and FRAMES outward of that, where it is
   now.  -1 with a MemoryError. */
int sspy_raised_at(sspy_state *state, PyObject *exc, const uintptr_t *frames, uint32_t count);
/* The seam between the frame of ENTRY and that of the next, inner entry; 0 if there is none.  If
   ENTRY stands for a frame of another language and the next one does not: sspy_mark(). */
uintptr_t sspy_seam_inside(const PyTracebackObject *entry);
/* Keep the COUNT frames in ROOM as the stack where EXC was raised, unless it has one; -1 with an
   exception. */
int sspy_keep_raised(sspy_interp *interp, PyObject *exc, sspy_room *room, uint32_t count);
/* What an entry of a traceback stands for; MADE: a function of C code, as Cython makes them. */
typedef enum sspy_entry_kind {
    SSPY_ENTRY_OF_OTHERS,
    SSPY_ENTRY_OF_PYTHON,
    SSPY_ENTRY_MADE
} sspy_entry_kind;
sspy_entry_kind sspy_kind_of(const PyTracebackObject *entry);
/* Whether the frame of ENTRY never ran: it is not Python's. */
bool sspy_entry_is_made(const PyTracebackObject *entry);
/* The element of ENTRY in a stack; 0: another entry has it. */
uintptr_t sspy_element_of(const PyTracebackObject *entry, stacksplice_trust trust);
/* Whether the frame of ENTRY called that of the next one, as in nearly all tracebacks.  Without memory
   the answer is false, and an exception is set. */
bool sspy_called_next(const PyTracebackObject *entry);
/* The callback of sys.monitoring for RAISE: keeps the stack in the ties. */
PyObject *sspy_raised(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* ---- Native frames that exceptions left (stack.c) ----------------------------------------------*/

enum { SSPY_LEFT_FRAMES = 24 /* at most, on the way from one loop to the next */ };
/* Note the COUNT native FRAMES that EXC leaves outside of the frame that its traceback begins with. */
void sspy_keep_left(PyObject *exc, const uintptr_t *frames, uint32_t count);
/* The chain of notes that those of EXC are in, and a bit for each that has any in this thread. */
enum { SSPY_LEFT_CHAINS = 64 };
extern _Thread_local uint64_t sspy_left_chains;
static inline unsigned sspy_left_chain(const PyObject *exc)
{
    return (uintptr_t)exc / 16 % SSPY_LEFT_CHAINS;
}
/* Whether there may be notes of EXC, and forget them. */
static inline bool sspy_left_by(const PyObject *exc)
{
    return sspy_left_chains >> sspy_left_chain(exc) & 1;
}
void sspy_forget_left(const PyObject *exc);

/* ---- Borders to code of other languages (border.c) ---------------------------------------------*/

/* Add `_unwound` to MODULE: the callback of sys.monitoring for PY_UNWIND.  It keeps the stack of an
   exception that leaves Python for code of another language. */
int sspy_add_unwound(PyObject *module);
/* Whether the call before ADDRESS, a native frame's element, is in a binary that is not Python's.
 */
bool sspy_is_foreign_code(uintptr_t address);

/* ---- Tasks that wait (stack.c) -----------------------------------------------------------------*/

/* Put the tasks that await the running one into the COUNT of FRAMES, outside of its own frames, or at the
   end where those are not known; both ends if they have more than MAX elements.  Runs Python code while an asyncio loop runs in this thread. -1 with an
   exception. */
int sspy_awaited_by(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count);
/* The same for an error, within the limit of ROOM: a failure becomes a gap. */
void sspy_append_awaiting(sspy_state *state, sspy_room *room, uint32_t *count);
/* Whether an asyncio loop runs in this thread; -1 with an exception. */
int sspy_loop_runs(sspy_state *state);
/* Clear what our own Python code raised, which is not the program's error; raise interrupts
   again. */
void sspy_clear_but_interrupts(void);

/* ---- Frames that stand for those of other languages (stack.c) ----------------------------------*/

/* The globals of a frame object for FRAME; FILE is NULL if there is no file to open. */
PyObject *sspy_foreign_globals(const stacksplice_frame *frame, PyObject *file);
/* Whether FRAME has such globals.  *ELEMENT (optional) is its stack element, or 0 when another
   entry has that element. */
bool sspy_foreign_frame(PyFrameObject *frame, uintptr_t *element);
/* Whether CODE may belong to such a frame: most Python code has flags, these have none. */
static inline bool sspy_may_be_foreign(const PyCodeObject *code)
{
    return code->co_flags == 0;
}

#endif
