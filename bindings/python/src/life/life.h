/*
 * What all folders share: the interpreter's record, which outlives it; sections; and the module's
 * state, one per interpreter.
 */
#ifndef SSPY_LIFE_H
#define SSPY_LIFE_H

#include "life/compat.h"

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSPY_COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define SSPY_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define SSPY_REPORT_KEY "__stacksplice__" /* of reports in pickles */

typedef struct sspy_state sspy_state;

/* ---- The interpreter's record ------------------------------------------------------------------*/

/* Outlives the interpreter: ties and handles of errors hold one reference each. */
typedef struct sspy_interp {
    atomic_uint refs;          /* (ATOMIC) */
    stacksplice_owner *owner;  /* (RO) counted */
    bool ends;                 /* (GIL) keep no more exceptions */
    PyInterpreterState *state; /* (RO) do not use once the owner is closed */
    PyTypeObject *ties_type;   /* (GIL) borrowed from the module state, NULL at its end */
    sspy_state *module_state;  /* (GIL) borrowed, NULL at its end */
    PyObject *ties_key;        /* (RO) counted, NULL at its end */
    int64_t id;                /* (RO) */
} sspy_interp;

/* Whether there is an interpreter to work with, even one that is being finalized. */
bool sspy_interp_lives(void);
/* The thread state of this thread if it may run Python code now, else NULL. */
PyThreadState *sspy_thread_state_here(void);
/* The record of the current interpreter, borrowed; NULL with an exception.  GIL held. */
sspy_interp *sspy_interp_current(void);
void sspy_interp_ref(sspy_interp *interp);
void sspy_interp_unref(sspy_interp *interp);

/* Enter a section of the interpreter's owner, for code that calls COM with INTERP's lock held and
   runs no Python code.  Leaving the outermost section drops what was released. */
stacksplice_section sspy_enter(sspy_interp *interp);
void sspy_leave(stacksplice_section section);
/* Release an interface of any kind, or NULL, in a section of its own. */
void sspy_release(sspy_interp *interp, void *object);
/* Whether this thread is in a section of any interpreter. */
bool sspy_is_in_section(void);
/* Call LEFT after each section, with the lock held, and ENDED when an interpreter ends. */
void sspy_watch_sections(void (*left)(void), void (*ended)(PyInterpreterState *interp));

/* ---- The module's state ------------------------------------------------------------------------*/

/* Who keeps a record of its own for each interpreter. */
enum { SSPY_OF_ELEMENTS, SSPY_OF_LUPA, SSPY_RECORDS };
enum { SSPY_INFO_MEMBERS = 5, SSPY_SILENT_LOG2 = 6 };

struct sspy_state {
    sspy_interp *interp; /* counted */
    PyTypeObject *ties_type;
    PyTypeObject *carrying_dict_type;
    PyTypeObject *error_type; /* ErrorHandle */
    PyObject *hresult_error;  /* the class HResultError */
    PyObject *back_types;     /* dict: builtin exception type -> its HResultError twin */
    PyObject *foreign;        /* dict: error object's address -> weak reference to its exception */
    PyObject *made_by_others; /* the same for exceptions that others made for an error */
    PyObject *hresult_key;    /* "hresult", interned */
    PyObject *asyncio_key;    /* "asyncio.events", interned */
    PyObject *running_loop_key; /* "_get_running_loop", interned */
    PyObject *notes_key;        /* "__notes__", interned */
    PyObject *setstate_key;     /* "__setstate__", interned */
    PyObject *plain_setstate;   /* that of BaseException */
    PyObject *no_arguments;     /* an empty tuple */
    PyObject *error_info;       /* the class ErrorInfo, or NULL */
    PyObject *wrap_stack;       /* callable: tuple of addresses -> Stack, or NULL */
    PyObject *group_error;      /* the class HResultErrorGroup, or NULL */
    PyObject *redact_hook;      /* (GIL) of stacksplice.redaction, or NULL */
    PyObject *entry_frames;     /* dict: stack element -> its frame objects (traceback/show.c) */
    Py_ssize_t info_members[SSPY_INFO_MEMBERS]; /* their offsets in an ErrorInfo */
    /* (ATOMIC) elements without such objects, by their hashes */
    _Atomic uintptr_t silent[1 << SSPY_SILENT_LOG2];
    _Atomic uint64_t entry_unloads; /* (ATOMIC) of code, when both were filled */
    atomic_bool shows_locals;       /* (ATOMIC) reports have local variables */
    bool shows_foreign;             /* other languages' frames in __traceback__ */
    void *records[SSPY_RECORDS];    /* (GIL) malloc, NULL before the first use */
};
/* Its references, for the garbage collector. */
#define SSPY_EACH_REFERENCE(each)                                                                  \
    each(ties_type) each(carrying_dict_type) each(error_type) each(hresult_error) each(back_types) \
        each(foreign) each(made_by_others) each(hresult_key) each(asyncio_key)                     \
            each(running_loop_key) each(notes_key) each(setstate_key) each(plain_setstate)         \
                each(no_arguments) each(error_info) each(wrap_stack) each(group_error)             \
                    each(redact_hook) each(entry_frames)
/* The state of the current interpreter, borrowed; NULL with an exception. */
sspy_state *sspy_state_current(void);
/* The record of WHOSE, SIZE bytes of zeros at its first use; NULL without memory. */
void *sspy_record(sspy_state *state, unsigned whose, size_t size);

/* QueryInterface for one of our interfaces; NULL if OBJECT does not have it. */
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

/* ---- Conversion between texts of the core and of Python ----------------------------------------*/

PyObject *sspy_text_from_wide(const WCHAR *text, uint32_t units);
/* Keeps surrogates; bytes that are no UTF-8 at all become U+FFFD. */
PyObject *sspy_text_from_utf8(const char *bytes, size_t length);
/* None for NULL; bytes that are no UTF-8 become U+FFFD. */
PyObject *sspy_text_or_none(const char *text);
/* A stacksplice_note_callback: append the text to DATA, a list. */
int sspy_append_note(const char *text, size_t length, void *data);
/* Append ITEM, which is taken over, to LIST; -1 with an exception, also when ITEM is NULL. */
int sspy_append_new(PyObject *list, PyObject *item);
/* The UTF-8 of TEXT with its surrogates, as bytes. */
PyObject *sspy_utf8_from_text(PyObject *text);
/* The same in UTF-16, little-endian. */
PyObject *sspy_utf16_from_text(PyObject *text);

/* The destination of a report: sspy_text_append is a stacksplice_write_callback. */
typedef struct sspy_text_buffer {
    char *text;
    size_t length, capacity;
} sspy_text_buffer;
int sspy_text_append(const char *text, size_t length, void *buffer);
/* The text, freed, after HR; NULL with an exception. */
PyObject *sspy_text_finish(sspy_text_buffer *buffer, HRESULT hr);

#endif
