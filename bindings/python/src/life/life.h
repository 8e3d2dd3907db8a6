/*
 * What all folders share: the interpreter's record, which outlives it, sections, and the module's
 * state, one per interpreter.
 */
#ifndef SSPY_LIFE_H
#define SSPY_LIFE_H

#include "life/compat.h"

#include <stacksplice/source.h>
#include <stacksplice/stacksplice.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSPY_COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define SSPY_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

typedef struct sspy_state sspy_state;
typedef struct sspy_held sspy_held;

/* ---- The interpreter's record (interp.c) ------------------------------------------------------*/

/*
 * Outlives the interpreter: whatever needs its lock to be dropped holds one reference.  RELEASED is
 * the list of what was released elsewhere; it is pushed to without a lock and drained with the
 * interpreter's lock held.
 */
typedef struct sspy_interp {
    atomic_uint refs;              /* (ATOMIC) */
    atomic_bool dead;              /* (ATOMIC) set once, under the wake lock */
    atomic_bool wake_pending;      /* (ATOMIC) one pending call is on its way */
    _Atomic(sspy_held *) released; /* (ATOMIC) */
    sspy_held *holding;            /* (GIL) those that hold their Python objects, linked */
    bool ends;                     /* (GIL) no more objects are held */
    PyInterpreterState *state;     /* (RO) not to be used once dead */
    PyTypeObject *ties_type;       /* (GIL) borrowed from the module state, NULL at its end */
    sspy_state *module_state;      /* (GIL) borrowed, NULL at its end */
    PyObject *ties_key;            /* (RO) counted, NULL at its end */
    int64_t id;                    /* (RO) */
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
/* Whether this thread is in a section of any interpreter. */
bool sspy_is_in_section(void);
/* Call LEFT after each section, with the lock held, and ENDED when an interpreter ends. */
void sspy_watch_sections(void (*left)(void), void (*ended)(PyInterpreterState *interp));
/* Release an interface of any kind, or NULL, in a section of its own. */
void sspy_release(sspy_interp *interp, void *object);

/* ---- What holds a Python object for COM (section.c)
 * ----------------------------------------------*/

/*
 * OUTSIDE counts COM references; while it is above 0 the object is held.  INSIDE keeps the memory;
 * all outside references together hold one of it.
 */
struct sspy_held {
    atomic_uint outside;              /* (ATOMIC) */
    atomic_uint inside;               /* (ATOMIC) */
    atomic_bool queued;               /* (ATOMIC) on the released list */
    sspy_held *next_released;         /* of that list */
    sspy_held *next_holding;          /* (GIL) of the list of those that hold their objects */
    sspy_held **holding_link;         /* (GIL) what points to this one there */
    sspy_interp *interp;              /* (RO) counted */
    PyObject *object;                 /* (GIL) strong while outside > 0 and until drained */
    void (*destroy)(sspy_held *held); /* (RO) frees what HELD is part of, not its record */
};

/* HELD, which is zero, with one inside reference. */
void sspy_held_begin(sspy_held *held, sspy_interp *interp, void (*destroy)(sspy_held *held));
void sspy_held_ref_inside(sspy_held *held);
void sspy_held_unref_inside(sspy_held *held);
/* HELD holds OBJECT from now on, unless the interpreter is at its very end.  GIL held. */
void sspy_held_keep(sspy_held *held, PyObject *object);
/* Its outside count fell to 0: have the object dropped. */
void sspy_held_released(sspy_held *held);
/* Drop what is on the list.  GIL held, may run any Python code; keeps the pending exception. */
void sspy_held_drain(sspy_interp *interp);
/* Drop all objects that are held now; what held them lives on by value.  GIL held. */
void sspy_held_let_go(sspy_interp *interp);
/* INTERP begins, and ends: what is on its list is abandoned, without running Python code. */
void sspy_sections_begin(void);
void sspy_sections_end(sspy_interp *interp);

/* ---- The module's state -----------------------------------------------------------------------*/

struct sspy_state {
    sspy_interp *interp; /* counted */
    PyTypeObject *ties_type;
    PyTypeObject *clean_dict_type;
    PyTypeObject *error_type; /* ErrorHandle */
    PyObject *hresult_error;  /* the class HResultError */
    PyObject *back_types;     /* dict: builtin exception type -> its HResultError twin */
    PyObject *foreign;        /* dict: error object's address -> weak reference to its exception */
    PyObject *hresult_key;    /* "hresult", interned */
    PyObject *asyncio_key;    /* "asyncio.events", interned */
    PyObject *running_loop_key;           /* "_get_running_loop", interned */
    PyObject *notes_key;                  /* "__notes__", interned */
    PyObject *wrap_error;                 /* callable: ErrorHandle -> ErrorInfo, or NULL */
    PyObject *wrap_stack;                 /* callable: tuple of addresses -> Stack, or NULL */
    PyObject *group_error;                /* the class HResultErrorGroup, or NULL */
    struct sspy_kept_frames *kept_frames; /* malloc, NULL before its first use (traceback.h) */
    bool shows_foreign;                   /* other languages' frames in __traceback__ */
};
/* The state of the current interpreter, borrowed; NULL with an exception. */
sspy_state *sspy_state_current(void);

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
