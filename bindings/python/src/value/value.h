/*
 * A Python exception and what stands for it: its HRESULT, the language exception that COM sees, and
 * the ties that keep both.
 */
#ifndef SSPY_VALUE_H
#define SSPY_VALUE_H

#include "life/life.h"

enum {
    SSPY_MAX_STEPS = 64,    /* exceptions on a path through causes and groups */
    SSPY_MAX_RELATED = 256, /* errors made for causes and members of one that leaves */
    SSPY_MAX_NOTES = 150    /* of one exception */
};

/* ---- HRESULTs (hresult.c) ----------------------------------------------------------------------*/

HRESULT sspy_hresult_of(sspy_state *state, PyObject *exc);
/* The class HResultError, added to MODULE. */
int sspy_hresult_error_init(PyObject *module, sspy_state *state);
/* __getattr__ of MODULE: the twins of HResultError, such as HResultValueError. */
PyObject *sspy_twin_named(PyObject *module, PyObject *name);
/* A new HResultError of the right class. */
PyObject *sspy_hresult_error_new(sspy_state *state, HRESULT hr, PyObject *message);
/* An HRESULT from a Python int, signed or unsigned; -1 with an exception naming ARGUMENT. */
int sspy_hresult_from(PyObject *number, const char *argument, HRESULT *hr);

/* ---- Notes, members and the language exception (exception.c) -----------------------------------*/

/* Append EXC's notes that ERROR, its error, does not have yet. -1 with an exception. */
int sspy_notes_update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

/* The errors that belong to one that leaves, with an outside reference each. */
typedef struct sspy_related {
    IScriptErrorInfo *cause; /* or NULL */
    stacksplice_relation relation;
    uint32_t causes_left_out;
    bool is_group;
    IScriptErrorInfo **members; /* malloc, or NULL */
    uint32_t member_count, members_left_out;
} sspy_related;

/*
 * Make a language exception for EXC, whose HRESULT is HR, with one inside reference; NULL with an
 * exception.  Runs Python code to get EXC's message and type names.
 */
stacksplice_exception *sspy_exception_new(sspy_state *state, PyObject *exc, HRESULT hr,
                                          const uintptr_t *frames, uint32_t frame_count,
                                          const sspy_related *related);

/* The exception of a script that raised ERROR, with a reference; or NULL. */
IScriptException *sspy_script_of(void *error);

/* ---- The ties of an exception (ties.c) ---------------------------------------------------------*/

/* Ties an exception to its error. */
typedef struct sspy_ties {
    PyObject_HEAD stacksplice_ties core;
    sspy_interp *interp; /* counted */
    PyObject *exception; /* borrowed: nothing else keeps its ties */
    PyObject *dict;      /* borrowed, or NULL: the one that writes the report into pickles */
    PyObject *remote;    /* a str, or NULL: the report that it brought from another process */
    PyObject *words; /* a str, or NULL: the note that says what its error says; no report has it */
    uintptr_t *raised; /* malloc: the stack where it was raised, or NULL */
    uint32_t raised_count;
    uint64_t raised_epoch; /* of their code: see stacksplice_settle */
    bool is_of_pcall;      /* which a pcall of a script told, as it caught the exception */
    uint32_t received;     /* the number of nodes its error had when it was last raised here */
    bool is_carried;       /* the exception's __dict__ writes its report into pickles, if any can */
} sspy_ties;

/*
 * What TIES, which may be NULL, hold now.  Another thread may give them another error (sspy_ties_hold keeps
 * it), but no thread leaves them without the one or the other that they had.
 */
static inline const stacksplice_exception *sspy_ties_exception(const sspy_ties *ties)
{
    return ties ? __atomic_load_n(&ties->core.exception, __ATOMIC_ACQUIRE) : NULL;
}

static inline const IScriptErrorInfo *sspy_ties_error(const sspy_ties *ties)
{
    return ties ? __atomic_load_n(&ties->core.error, __ATOMIC_ACQUIRE) : NULL;
}

/* Whether that error was born elsewhere. */
static inline bool sspy_ties_are_foreign(const sspy_ties *ties)
{
    return ties && __atomic_load_n(&ties->core.foreign, __ATOMIC_ACQUIRE);
}

/* -1 with an exception if CPython uses the word where the ties stand. */
int sspy_ties_check(void);
PyTypeObject *sspy_ties_type(PyObject *module);
/* The type, with these METHODS, of the __dict__ of exceptions that crossed a border. */
PyTypeObject *sspy_carrying_dict_type(PyObject *module, PyMethodDef *methods);
/* The ties of the exception that DICT, one of that type, was made for; borrowed. */
sspy_ties *sspy_carrying_dict_ties(PyObject *dict);
/* EXC's own ties, borrowed; NULL without an exception when it has none.  GIL held. */
sspy_ties *sspy_ties_of(sspy_interp *interp, PyObject *exc);
/* The same, made if there are none; NULL with an exception if EXC cannot carry any. */
sspy_ties *sspy_ties_make(sspy_interp *interp, PyObject *exc);
/* The same for an exception that crosses a border: pickles of it have its report. */
sspy_ties *sspy_ties_make_to_cross(sspy_interp *interp, PyObject *exc);
/* From now on unpickled exceptions have the report that they bring in their ties. */
void sspy_ties_begin(void);
/* The report that EXC brought from another process, a str, new reference; NULL without an exception. */
PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc);
/* Make TIES hold ERROR, on which the caller has an outside reference, instead of the former one. */
void sspy_ties_set_error(sspy_ties *ties, IScriptErrorInfo *error, bool foreign);
/* Whether the exception of TIES, which may be NULL, has the stack of its raise, or its error. */
bool sspy_ties_have_stack(sspy_ties *ties);
/* MEMBER, one of TIES (new reference), or NULL without an exception. */
PyObject *sspy_ties_member(sspy_ties *ties, PyObject *const *member);
/* Let MEMBER, one of TIES, be OBJECT. */
void sspy_ties_exchange(sspy_ties *ties, PyObject **member, PyObject *object);
/* Keep a copy of the stack where the exception was raised, unless TIES have one; -1 with an exception. */
int sspy_ties_set_raised(sspy_ties *ties, const uintptr_t *frames, uint32_t count);
/* The stack where the exception was raised (malloc), which TIES keep unless it is to be TAKEn; NULL if
   none was kept. */
uintptr_t *sspy_ties_raised(sspy_ties *ties, bool take, uint32_t *count);
/* The same to read or change: the ties' own, or a copy where another thread may take that meanwhile.  NULL
   if none was kept, or there is no memory for it; else it is to be returned, with whether it is_CHANGED. */
uintptr_t *sspy_ties_borrow_raised(sspy_ties *ties, uint32_t *count);
void sspy_ties_return_raised(sspy_ties *ties, uintptr_t *frames, uint32_t count, bool is_changed);
/* Keep FRAMES (malloc, taken over; NULL: none) instead of the stack of the raise, if TIES have one. */
void sspy_ties_replace_raised(sspy_ties *ties, uintptr_t *frames, uint32_t count);
/* The stack of the raise is that of where a pcall of a script caught the exception; forget it if so. */
void sspy_ties_set_of_pcall(sspy_ties *ties);
void sspy_ties_forget_caught(sspy_ties *ties);
/* The members of EXC if it is a group, borrowed; else NULL. */
PyObject *sspy_group_members(PyObject *exc);
/* Make the exception of TIES keep EXC.  Returns an outside reference on it, or NULL if there is
   none.  Call it before giving out other outside references.  Runs no Python code. */
IUnknown *sspy_ties_pin(sspy_interp *interp, const stacksplice_ties *ties, PyObject *exc);
/* An outside reference on the error of EXC's ties, which may be NULL; NULL if it has none. */
IScriptErrorInfo *sspy_ties_hold(sspy_ties *ties, PyObject *exc);

/* ---- Words (exception.c) ------------------------------------------------------------------------*/

/* Give EXC, whose own text is empty, the MESSAGE of its error as a note, as far as a note is long: so it
   is shown by whatever shows exceptions.  -1 with an exception. */
int sspy_say_words(sspy_ties *ties, PyObject *exc, const char *message, size_t length);
/* Take that note, if there is one, from ITEMS, those of the exception's __dict__. -1 with an exception. */
int sspy_drop_words(const sspy_ties *ties, PyObject *items, PyObject *notes_key);

#endif
