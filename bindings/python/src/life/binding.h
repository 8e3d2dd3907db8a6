/*
 * What the files of the extension share.  One state per interpreter (module state), one record per
 * interpreter that outlives it (sspy_interp), and the frame source, which is one per process.
 */
#ifndef SSPY_BINDING_H
#define SSPY_BINDING_H

#include "life/compat.h"

#include <stacksplice/source.h>
#include <stacksplice/stacksplice.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <stacksplice/python.h>

#define SSPY_COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define SSPY_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define SSPY_NOINLINE __attribute__((noinline))

/* HRESULTs that the exception table uses and winerror.h may not name. */
#define SSPY_HRESULT(bits) ((HRESULT)(bits))

enum {
    SSPY_MAX_STEPS = 64,    /* exceptions on a way through causes and groups */
    SSPY_MAX_RELATED = 256, /* errors made for causes and members of one that leaves */
    SSPY_MAX_NOTES = 150    /* of one exception */
};

typedef struct sspy_exception sspy_exception;
typedef struct sspy_anchor sspy_anchor;
typedef struct sspy_state sspy_state;
typedef struct sspy_kept_frames sspy_kept_frames;

/* ---- The interpreter's record (interp.c) ------------------------------------------------------*/

/*
 * Outlives the interpreter: every language exception holds one reference.  RELEASED is the list of
 * language exceptions whose last outside reference went away where we could not drop the Python
 * object; it is pushed to without a lock and drained with the interpreter's lock held.
 */
typedef struct sspy_interp {
    atomic_uint refs;                   /* (ATOMIC) */
    atomic_bool dead;                   /* (ATOMIC) set once, under the wake lock */
    atomic_bool wake_pending;           /* (ATOMIC) one pending call is on its way */
    _Atomic(sspy_exception *) released; /* (ATOMIC) linked through the exceptions */
    sspy_exception *holding;            /* (GIL) those that hold their Python objects, linked */
    bool ends;                          /* (GIL) no more objects are held */
    PyInterpreterState *state;          /* (RO) not to be used once dead */
    PyTypeObject *anchor_type;          /* (GIL) borrowed from the module state, NULL at its end */
    sspy_state *module_state;           /* (GIL) borrowed, NULL at its end */
    PyObject *anchor_key;               /* (RO) counted, NULL at its end */
    int64_t id;                         /* (RO) */
} sspy_interp;

/* Whether there is an interpreter to work with, also one that is being finalized. */
bool sspy_interp_lives(void);
/* The record of the current interpreter, borrowed; NULL with an exception.  GIL held. */
sspy_interp *sspy_interp_current(void);
void sspy_interp_ref(sspy_interp *interp);
void sspy_interp_unref(sspy_interp *interp);

/*
 * A section: code that calls into COM with INTERP's lock held and runs no Python code.  Releases
 * inside it need no pending call: leaving drains the list.  Sections nest.
 */
typedef struct sspy_section {
    sspy_interp *outer;
} sspy_section;
sspy_section sspy_enter(sspy_interp *interp);
void sspy_leave(sspy_section section);
/* The interpreter whose section this thread is in, or NULL. */
sspy_interp *sspy_section_interp(void);

/* EXCEPTION's outside count fell to 0: have its Python object dropped.  Takes an inside reference.
 */
void sspy_interp_released(sspy_interp *interp, sspy_exception *exception);
/* Drop what is on the list.  GIL held, may run any Python code; keeps the pending exception. */
void sspy_interp_drain(sspy_interp *interp);
/* EXCEPTION holds OBJECT from now on, unless the interpreter is at its very end.  GIL held. */
void sspy_interp_hold(sspy_exception *exception, PyObject *object);
/* EXCEPTION's object, which is the caller's now; NULL if it holds none.  GIL held. */
PyObject *sspy_interp_take(sspy_exception *exception);

/* ---- The language exception (exception.c) -----------------------------------------------------*/

/* Notes by value: one block of memory (malloc). */
typedef struct sspy_notes {
    uint32_t count;
    struct {
        const char *text; /* UTF-8 with surrogates as they are, and a NUL */
        size_t length;
    } notes[];
} sspy_notes;

/* The error of a member, and which of the group's exceptions it stands for. */
typedef struct sspy_member {
    IScriptErrorInfo *error;
    Py_ssize_t index;
} sspy_member;

/* What belongs to an exception that leaves; the errors have an outside reference. */
typedef struct sspy_related {
    IScriptErrorInfo *cause; /* or NULL */
    stacksplice_relation relation;
    uint32_t causes_left_out;
    bool is_group;
    sspy_member *members; /* malloc, or NULL */
    uint32_t member_count, members_left_out;
    sspy_notes *notes; /* or NULL */
} sspy_related;

/* The same in a language exception, of those few that have something of it. */
typedef struct sspy_details {
    stacksplice_relation relation;
    uint32_t causes_left_out;
    bool is_group;
    uint32_t members_left_out;
    sspy_notes *notes; /* or NULL */
    uint32_t member_count;
    sspy_member members[]; /* held inside; outside too while the exception is */
} sspy_details;

/* A Python exception as COM sees it; see exception.c for the layout and the counts. */
/* ---- Names of types (type_names.c) ------------------------------------------------------------*/

/* The type as a traceback prints it: without its module where that is builtins or __main__.  New
   reference; NULL with an exception. */
PyObject *sspy_full_type_name(PyTypeObject *type);

/* What a type is derived from, readable in any thread and when the interpreter has ended. */
typedef struct sspy_bases {
    char *names; /* malloc: one after the other, the last one empty; or NULL */
    const PyTypeObject
        *rest; /* after them a type of the interpreter's own and its bases, or NULL */
} sspy_bases;

/* The bases of TYPE in the order of its MRO, without object; -1 with a MemoryError. */
int sspy_bases_take(sspy_bases *bases, PyTypeObject *type);
/* Name INDEX; NULL behind the last. */
const char *sspy_bases_name(const sspy_bases *bases, uint32_t index);

struct sspy_exception {
    ILanguageExceptionStackBackTrace backtrace; /* also the IUnknown */
    ILanguageExceptionTransform transform;      /* answered only when CAUSE is not NULL */
    IScriptException script;
    IAgileObject agile;
    IScriptExceptionDetails more; /* answered only when DETAILS is not NULL */
    IScriptExceptionType type;
    atomic_uint outside;           /* (ATOMIC) COM references */
    atomic_uint inside;            /* (ATOMIC) keep the memory; all outside ones hold one */
    atomic_bool queued;            /* (ATOMIC) on the released list */
    sspy_exception *next_released; /* of that list */
    sspy_exception *next_holding;  /* (GIL) of the list of those that hold their objects */
    sspy_exception **holding_link; /* (GIL) what points to this one there */
    sspy_interp *interp;           /* (RO) counted */
    bool is_interrupt;             /* (RO) a BaseException that is no Exception */
    PyObject *object;              /* (GIL) strong while outside > 0 and until drained */
    IScriptErrorInfo *cause;       /* (RO) held inside; outside too while outside > 0 */
    sspy_details *details;         /* (RO) malloc, or NULL */
    sspy_bases bases;              /* (RO) */
    size_t message_length;         /* (RO) */
    char *type_name;               /* (RO) behind the frames */
    char *message;                 /* (RO) behind it, UTF-8 with surrogates as they are */
    uint32_t frame_count;          /* (RO) */
    uintptr_t frames[];            /* (RO) innermost first */
};

/*
 * A language exception for OBJECT with one outside reference; NULL with a MemoryError.  FRAMES is
 * copied, the errors of RELATED are referenced, its notes taken over.
 */
sspy_exception *sspy_exception_new(sspy_interp *interp, PyObject *object, const uintptr_t *frames,
                                   uint32_t frame_count, sspy_related *related);
/* Take an outside reference with OBJECT, the exception it stands for, in hand and alive. */
void sspy_exception_hold(sspy_exception *exception, PyObject *object);
void sspy_exception_release(sspy_exception *exception);
void sspy_exception_ref_inside(sspy_exception *exception);
void sspy_exception_unref_inside(sspy_exception *exception);
/* The language exception behind UNKNOWN if it is one of this module's (borrowed), else NULL. */
sspy_exception *sspy_exception_from(IUnknown *unknown);
/* Drop the Python object if nobody outside holds the exception any more.  GIL held. */
void sspy_exception_drop(sspy_exception *exception);

/* ---- The anchor in the exception's __dict__ (anchor.c) ----------------------------------------*/

struct sspy_anchor {
    PyObject_HEAD uintptr_t owner; /* address of the exception; a copy's anchor is found by it */
    bool foreign;                  /* ERROR was not born here: held outside */
    IScriptErrorInfo *error;       /* inside (outside if foreign), or NULL */
    sspy_exception *exception;     /* inside, or NULL */
    sspy_interp *interp;           /* counted */
    uintptr_t *raised;             /* malloc: the stack where it was raised, or NULL */
    uint32_t raised_count;
    PyObject *remote;  /* the report that came with it from another process, a str, or NULL */
    uint32_t received; /* nodes its error had when it was raised here last */
};

extern PyType_Spec sspy_anchor_spec;
/* A subclass of dict that holds an anchor beside its items (clean_dict.c). */
PyTypeObject *sspy_clean_dict_type(PyObject *module);
/* Give EXC a copy of DICT of that TYPE as its __dict__: a new reference, NULL with an exception. */
PyObject *sspy_clean_dict_install(PyTypeObject *type, PyObject *exc, PyObject *dict);
/* Where DICT keeps the anchor, or NULL if it is not of TYPE. */
PyObject **sspy_clean_dict_anchor(PyTypeObject *type, PyObject *dict);
/* EXC's own anchor, borrowed; NULL without an exception when it has none.  GIL held. */
sspy_anchor *sspy_anchor_of(sspy_interp *interp, PyObject *exc);
/* The same, made when there is none; NULL with an exception when EXC cannot carry one. */
sspy_anchor *sspy_anchor_make(sspy_interp *interp, PyObject *exc);
/* The report that EXC brought from another process, a str, borrowed; NULL without an exception. */
PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc);
/* Let ANCHOR hold ERROR, which the caller has an outside reference on, instead of what it held. */
void sspy_anchor_set_error(sspy_anchor *anchor, IScriptErrorInfo *error, bool foreign);
void sspy_anchor_set_exception(sspy_anchor *anchor, sspy_exception *exception);
/* The stack where the exception was raised, taken over (malloc); NULL if none was kept. */
uintptr_t *sspy_anchor_take_raised(sspy_anchor *anchor, uint32_t *count);
/* Where stacks are captured for scripts (captures.c). */
PyObject *sspy_capture_function(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *sspy_set_max_frames(PyObject *module, PyObject *number);
PyObject *sspy_frames_left_out(PyObject *module, PyObject *addresses);
extern const char sspy_capture_doc[], sspy_set_max_frames_doc[];
/* The callback of sys.monitoring for RAISE: keeps the stack in the anchor (monitor.c). */
PyObject *sspy_raised(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
/* An outside reference on the anchor's error, whose exception EXC is in hand; NULL if it has none.
 */
IScriptErrorInfo *sspy_anchor_hold(sspy_anchor *anchor, PyObject *exc);

/* ---- Frames (layout.c, frames.c, tokens.c) ----------------------------------------------------*/

/* Find the layout of this CPython and check it against the truth; once per process.  GIL held.
   -1 with an exception only when memory runs out. */
int sspy_layout_check(void);
/* Why Python frames cannot be shown, with the version found, or NULL when they can. */
const char *sspy_layout_reason(void);
/* Register the frame source, once per process. */
HRESULT sspy_source_register(void);

/* The token of the place LASTI (bytes, or -1) with LINE (0: look it up) in CODE. */
uintptr_t sspy_token(PyCodeObject *code, int lasti, int line, stacksplice_trust trust,
                     PyInterpreterState *interp);

/* The same in the current interpreter, with its lock held and outside of any capture: it is looked
   for, and put, in the table of tokens (token_cache.h). */
uintptr_t sspy_token_known(PyCodeObject *code, int lasti, int line, stacksplice_trust trust);
/* Put into that table what captures of this thread did not find there and is still live.  Lock
   held, outside of any capture. */
void sspy_frames_learn(void);

/* The innermost complete frame of the current thread state, as an address only; or NULL. */
const void *sspy_frame_top(void);
/* The address of FRAME's data if it is live on the current thread state's chain, else NULL.  OWNED
   is what sspy_chain_has_owned said: without such frames most answers need no look at the chain. */
const void *sspy_frame_live(PyFrameObject *frame, bool owned);
/* Whether a live frame of the current thread state belongs to its frame object. */
bool sspy_chain_has_owned(void);
/* A live frame, by the address of its data, and the token that stands for it; 0: that of the place
   where it is now. */
typedef struct sspy_placed_frame {
    const void *data;
    uintptr_t token;
} sspy_placed_frame;
/* What a capture shows otherwise than it is: MARK goes before the innermost of FRAMES. */
typedef struct sspy_placement {
    const void *innermost; /* set by sspy_place */
    const sspy_placed_frame *frames;
    uint32_t count;
    uintptr_t mark;
} sspy_placement;
/* Captures of this thread follow PLACEMENT, which is borrowed, until the next call; NULL: none. */
void sspy_place(sspy_placement *placement);
uintptr_t sspy_mark(void); /* STACKSPLICE_GAP_RETURNED */
/* Reasons of gaps, besides that one, where only what called Python's frames is missing. */
#define SSPY_CAUGHT_BEFORE "exception caught here earlier: callers of this frame unknown"
#define SSPY_NEVER_RAISED "exception created but never raised"
/* The reason of the seam behind which another task follows; the task's name may stand after it. */
#define SSPY_AWAITED "awaited by another task"

/* ---- Stacks and errors (stack.c, related.c, wrap.c, arrive.c, raise.c) ------------------------*/

/* An exception whose error is being made; OUTER is the one that it is a cause or a member of. */
typedef struct sspy_step {
    PyObject *exc;
    const struct sspy_step *outer;
    uint32_t number; /* of steps outward */
} sspy_step;

/* Module state: one per interpreter. */
struct sspy_state {
    sspy_interp *interp; /* counted */
    PyTypeObject *anchor_type;
    PyTypeObject *clean_dict_type;
    PyTypeObject *error_type; /* ErrorHandle */
    PyObject *hresult_error;  /* the class HResultError */
    PyObject *back_types;     /* dict: builtin exception type -> its HResultError twin */
    PyObject *foreign;        /* dict: error object's address -> weak reference to its exception */
    PyObject *hresult_key;    /* "hresult", interned */
    PyObject *asyncio_key;    /* "asyncio.events", interned */
    PyObject *running_loop_key;    /* "_get_running_loop", interned */
    PyObject *notes_key;           /* "__notes__", interned */
    PyObject *wrap_error;          /* callable: ErrorHandle -> ErrorInfo, or NULL */
    PyObject *wrap_stack;          /* callable: tuple of addresses -> Stack, or NULL */
    PyObject *group_error;         /* the class HResultErrorGroup, or NULL */
    sspy_kept_frames *kept_frames; /* malloc, NULL before its first use */
    bool shows_foreign;            /* other languages' frames in __traceback__ */
};
/* The state of the current interpreter, borrowed; NULL with an exception. */
sspy_state *sspy_state_current(void);

/* Room in which a stack is put together before it is shortened to LIMIT: of frames that have ended,
   live ones and tasks that wait, each with both ends. */
enum { SSPY_NEAR_FRAMES = 512 };
#define SSPY_ROOM(limit) (3 * (limit) + 8)
typedef struct sspy_room {
    uint32_t limit;
    uintptr_t *frames; /* NEAR, or malloc */
    uintptr_t near[SSPY_ROOM(SSPY_NEAR_FRAMES)];
} sspy_room;
/* -1 with a MemoryError. */
int sspy_room_begin(sspy_room *room, uint32_t limit);
void sspy_room_end(sspy_room *room);

/*
 * A combined stack into FRAMES (room for MAX, both ends of a longer one): outside of ABOVE, or from
 * the calling Python frame on when ABOVE is NULL.  Returns the count.
 */
uint32_t sspy_capture(const void *above, uint32_t max, uintptr_t *frames);
/*
 * EXC's stack into ROOM, its *COUNT not above the limit; -1 with a MemoryError.  A frame that is
 * both in the traceback and live stands where it lives, with the line where the exception passed.
 * OUTER is NULL for the exception that is at the border.
 */
int sspy_stack_of(sspy_state *state, PyObject *exc, const sspy_step *outer, const void *above,
                  sspy_room *room, uint32_t *count);

/* What makes an error for EXC, which may exist already: *ERROR has an outside reference, or is NULL
   when none is wanted (switched off, or too many).  -1 with an exception. */
typedef struct sspy_maker {
    sspy_state *state;
    const void *above;
    uint32_t errors; /* that were made */
} sspy_maker;
int sspy_error_of_related(sspy_maker *maker, const sspy_step *step, IScriptErrorInfo **error);

/* RELATED of STEP's exception, zero before; -1 with an exception.  sspy_related_end in any case. */
int sspy_related_begin(sspy_maker *maker, const sspy_step *step, sspy_related *related);
void sspy_related_end(sspy_state *state, sspy_related *related);
/* The members of EXC if it is a group, borrowed; else NULL. */
PyObject *sspy_group_members(PyObject *exc);
/* EXC's notes into *NOTES (malloc), NULL when it has none; -1 with an exception. */
int sspy_notes_of(sspy_state *state, PyObject *exc, sspy_notes **notes);
/* Append to ERROR, which is EXC's, the notes that it does not have yet.  -1 with an exception. */
int sspy_notes_update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

/* Append the tasks that await the running one to the COUNT of FRAMES, both ends if they have more
   than MAX elements; runs Python code while an asyncio loop runs in this thread.  -1 with an
   exception. */
int sspy_awaited_by(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count);
/* The same for an error, whose limit is that of ROOM: what fails becomes a gap. */
void sspy_append_awaiting(sspy_state *state, sspy_room *room, uint32_t *count);
/* Whether an asyncio loop runs in this thread; -1 with an exception. */
int sspy_loop_runs(sspy_state *state);
/* What our own Python code raised is not the program's; an interrupt will come again. */
void sspy_clear_but_interrupts(void);
/* The token of a seam (seams.c): a gap that is asynchronous. */
uintptr_t sspy_seam_token(const char *reason);
/* The seam between the frame of ENTRY and that of the next, inner one; 0 when there is none.  Where
   ENTRY stands for a frame of another language and the next one does not: sspy_mark(). */
uintptr_t sspy_seam_inside(const PyTracebackObject *entry);

/*
 * EXC's error object with an outside reference: the one it has, or a new one, whose stack is that
 * of EXC's traceback and of the live stack (outside of ABOVE, or from the calling Python frame).
 * A new one is left in the thread's slot only if IN_SLOT.  0 with *ERROR NULL when origination is
 * switched off; -1 with an exception.
 */
int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                   IScriptErrorInfo **error);
/* EXC's error goes into the slot; *HR is the failing HRESULT to return.  -1 with an exception. */
int sspy_put(sspy_state *state, PyObject *exc, const void *above, HRESULT *hr);
/* The same for C: without memory an error that says so; never leaves an exception set. */
HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above);
/* EXC's language exception with an outside reference; NULL with an exception. */
sspy_exception *sspy_wrap(sspy_state *state, PyObject *exc, const void *above);

/* The Python exception that stands for ERROR here (new reference): the same object if ERROR was
   born in this interpreter, else an HResultError.  NULL with an exception. */
PyObject *sspy_object_for(sspy_state *state, IRestrictedErrorInfo *error);
/* The object of ERROR's language exceptions if it was born in this interpreter, else NULL. */
PyObject *sspy_own_object(sspy_state *state, IUnknown *error);
/* ERROR's causes and notes into EXC, the new HResultError that stands for it; -1 with an exception.
 */
int sspy_arrive(sspy_state *state, PyObject *exc, IUnknown *error);
/* A new HResultErrorGroup if ERROR is a group whose members can be in one; NULL without an
   exception if not. */
PyObject *sspy_foreign_group(sspy_state *state, IUnknown *error, HRESULT hr, PyObject *message);
/* thread error -> pending exception, with a node of the stack outside of ABOVE; returns NULL. */
PyObject *sspy_raise(sspy_state *state, HRESULT hr, const void *above);

/* Python put an error into the slot: of the running task, if there is one (slot.c). */
void sspy_slot_note(sspy_state *state);
/* Empty the slot if its error is that of another task than the running one. */
void sspy_slot_drop_other_task(sspy_state *state);
PyObject *sspy_save_error(PyObject *module, PyObject *unused);
PyObject *sspy_restore_error(PyObject *module, PyObject *capsule);

/* ---- Other languages' frames in __traceback__ (foreign.c) -------------------------------------*/

/* Put before EXC's traceback what lies between it and the border that raises EXC, as which ERROR
   arrives, with a node of this moment; unless that is switched off.  Without memory EXC stays as it
   is.  Leaves no exception set. */
void sspy_show_foreign(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);
/* Whether FRAME is one that sspy_show_foreign made; *ELEMENT (optional) is the element of a stack
   that it stands for, 0 when another entry stands for that. */
bool sspy_foreign_frame(PyFrameObject *frame, uintptr_t *element);
/* Whether CODE may be that of such a frame: most Python code has flags, theirs has none. */
static inline bool sspy_may_be_foreign(const PyCodeObject *code)
{
    return code->co_flags == 0;
}
int sspy_kept_frames_traverse(sspy_kept_frames *all, visitproc visit, void *arg);
void sspy_kept_frames_clear(sspy_kept_frames *all);

/* ---- HRESULTs (hresult.c, hresult_error.c) ----------------------------------------------------*/

HRESULT sspy_hresult_of(sspy_state *state, PyObject *exc);
/* The builtin exception type (borrowed) for HR and the errno to give it (0: none). */
PyObject *sspy_type_for(HRESULT hr, int *errno_out);
/* The classes: HResultError and its twins, added to MODULE. */
int sspy_hresult_error_init(PyObject *module, sspy_state *state);
/* A new HResultError of the right class. */
PyObject *sspy_hresult_error_new(sspy_state *state, HRESULT hr, PyObject *message);
/* An HRESULT from a Python int, signed or unsigned; -1 with an exception naming ARGUMENT. */
int sspy_hresult_from(PyObject *number, const char *argument, HRESULT *hr);
/* The rows of the table, for the test of its completeness. */
PyObject *sspy_hresult_table(void);

/* ---- The top of the road (unhandled.c) --------------------------------------------------------*/

/* EXC is given to the host's handler, else to sys.excepthook; see stacksplice_python_unhandled().
   STATE may be NULL: then only the latter.  Leaves no exception set. */
HRESULT sspy_report_unhandled(sspy_state *state, PyObject *exc, const void *above,
                              int *exit_status);
/* _offer_unhandled(exc): whether the host's handler handled it. */
PyObject *sspy_offer_unhandled(PyObject *module, PyObject *exc);

/* ---- ErrorHandle (info.c), functions (functions.c, winrt.c) -----------------------------------*/

extern PyType_Spec sspy_error_spec;

/* A reference on the error of HANDLE, an ErrorHandle, until it is let go. */
IUnknown *sspy_handle_hold(PyObject *handle);
void sspy_handle_let_go(PyObject *handle);
/* ERROR, which is held, gets the notes that the handle's exception got since; -1 with an exception.
 */
int sspy_handle_update_notes(PyObject *handle, IUnknown *error);

/* What a report is written to: sspy_text_append is a stacksplice_write_callback. */
typedef struct sspy_text_buffer {
    char *text;
    size_t length, capacity;
} sspy_text_buffer;
int sspy_text_append(const char *text, size_t length, void *buffer);
/* The text, freed, after HR; NULL with an exception. */
PyObject *sspy_text_finish(sspy_text_buffer *buffer, HRESULT hr);

/* told_live.c */
PyObject *sspy_format_told(PyObject *module, PyObject *arguments);
/* None, or an exception where a value of the report is not of its kind or too large. */
PyObject *sspy_check_told(PyObject *module, PyObject *error);
PyObject *sspy_format_frame(PyObject *module, PyObject *frame);

/* A handle of ERROR, on which the caller has an outside reference; EXC is its exception if it was
   born in this interpreter, else NULL.  Passed through state->wrap_error. */
PyObject *sspy_error_wrap(sspy_state *state, IScriptErrorInfo *error, PyObject *exc);
/* The same for an interface of any kind; None for NULL or a foreign object. */
PyObject *sspy_error_wrap_unknown(sspy_state *state, IUnknown *error);
/* The elements of a stack as ints. */
PyObject *sspy_tuple_of(const uintptr_t *frames, uint32_t count);
PyObject *sspy_text_from_wide(const WCHAR *text, uint32_t units);
/* Surrogates as they are; U+FFFD for what is no UTF-8 at all. */
PyObject *sspy_text_from_utf8(const char *bytes, size_t length);
/* The whole message of a script's exception, NULs too; "" when it has none. */
PyObject *sspy_script_message(IScriptException *script);

extern PyMethodDef sspy_functions[];
extern PyMethodDef sspy_winrt_functions[];
extern const stacksplice_python_api sspy_api;

/* QueryInterface for one of the interfaces of ours; NULL when it is not answered. */
static inline void *sspy_query(void *object, REFIID iid)
{
    IUnknown *unknown = object;
    void *out = NULL;

    return unknown && SUCCEEDED(unknown->lpVtbl->QueryInterface(unknown, iid, &out)) ? out : NULL;
}

static inline void sspy_unknown_release(void *object)
{
    IUnknown *unknown = object;

    if (unknown)
        unknown->lpVtbl->Release(unknown);
}

#endif
