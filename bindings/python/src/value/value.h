/*
 * A Python exception and what stands for it: its HRESULT, the language exception that COM sees, and
 * the ties that keep both with it.
 */
#ifndef SSPY_VALUE_H
#define SSPY_VALUE_H

#include "life/life.h"

enum {
    SSPY_MAX_STEPS = 64,    /* exceptions on a way through causes and groups */
    SSPY_MAX_RELATED = 256, /* errors made for causes and members of one that leaves */
    SSPY_MAX_NOTES = 150    /* of one exception */
};

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

/* ---- What belongs to an exception (notes.c, exception.c) --------------------------------------*/

/* The members of EXC if it is a group, borrowed; else NULL. */
PyObject *sspy_group_members(PyObject *exc);

/* Notes by value: one block of memory (malloc). */
typedef struct sspy_notes {
    uint32_t count;
    struct {
        const char *text; /* UTF-8 with surrogates as they are, and a NUL */
        size_t length;
    } notes[];
} sspy_notes;
/* EXC's notes into *NOTES (malloc), NULL when it has none; -1 with an exception. */
int sspy_notes_of(sspy_state *state, PyObject *exc, sspy_notes **notes);
/* Append to ERROR, which is EXC's, the notes that it does not have yet.  -1 with an exception. */
int sspy_notes_update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error);

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

/* ---- The language exception (exception.c) -----------------------------------------------------*/

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

/* What a type is derived from, readable in any thread and when the interpreter has ended. */
typedef struct sspy_bases {
    char *names; /* malloc: one after the other, the last one empty; or NULL */
    const PyTypeObject
        *rest; /* after them a type of the interpreter's own and its bases, or NULL */
} sspy_bases;

/* A Python exception as COM sees it; see exception.c for the counts. */
typedef struct sspy_exception {
    ILanguageExceptionStackBackTrace backtrace; /* also the IUnknown */
    ILanguageExceptionTransform transform;      /* answered only when CAUSE is not NULL */
    IScriptException script;
    IAgileObject agile;
    IScriptExceptionDetails more; /* answered only when DETAILS is not NULL */
    IScriptExceptionType type;
    sspy_held held;
    bool is_interrupt;       /* (RO) a BaseException that is no Exception */
    IScriptErrorInfo *cause; /* (RO) held inside; outside too while the exception is */
    sspy_details *details;   /* (RO) malloc, or NULL */
    sspy_bases bases;        /* (RO) */
    size_t message_length;   /* (RO) */
    char *type_name;         /* (RO) behind the frames */
    char *message;           /* (RO) behind it, UTF-8 with surrogates as they are */
    uint32_t frame_count;    /* (RO) */
    uintptr_t frames[];      /* (RO) innermost first */
} sspy_exception;

/*
 * A language exception for OBJECT with one outside reference; NULL with a MemoryError.  FRAMES is
 * copied, the errors of RELATED are referenced, its notes taken over.
 */
sspy_exception *sspy_exception_new(sspy_interp *interp, PyObject *object, const uintptr_t *frames,
                                   uint32_t frame_count, sspy_related *related);
/* Take an outside reference with OBJECT, the exception it stands for, in hand and alive. */
void sspy_exception_hold(sspy_exception *exception, PyObject *object);
void sspy_exception_release(sspy_exception *exception);
/* The language exception behind UNKNOWN if it is one of this module's (borrowed), else NULL. */
sspy_exception *sspy_exception_from(IUnknown *unknown);

/* ---- The ties in the exception's __dict__ (ties.c, clean_dict.c) ------------------------------*/

/* What ties an exception to its error. */
typedef struct sspy_ties {
    PyObject_HEAD uintptr_t owner; /* the exception's address: a copy that shares it has none */
    bool foreign;                  /* ERROR was not born here: held outside */
    IScriptErrorInfo *error;       /* inside (outside if foreign), or NULL */
    sspy_exception *exception;     /* inside, or NULL */
    sspy_interp *interp;           /* counted */
    uintptr_t *raised;             /* malloc: the stack where it was raised, or NULL */
    uint32_t raised_count;
    PyObject *remote;  /* the report that came with it from another process, a str, or NULL */
    uint32_t received; /* nodes its error had when it was raised here last */
} sspy_ties;

/* The type of ties with these METHODS, and that of a dict which holds them beside its items. */
PyTypeObject *sspy_ties_type(PyObject *module, PyMethodDef *methods);
PyTypeObject *sspy_clean_dict_type(PyObject *module);
/* EXC's own ties, borrowed; NULL without an exception when it has none.  GIL held. */
sspy_ties *sspy_ties_of(sspy_interp *interp, PyObject *exc);
/* The same, made when there are none; NULL with an exception when EXC cannot carry any. */
sspy_ties *sspy_ties_make(sspy_interp *interp, PyObject *exc);
/* The report that EXC brought from another process, a str, borrowed; NULL without an exception. */
PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc);
/* Let TIES hold ERROR, which the caller has an outside reference on, instead of what they held. */
void sspy_ties_set_error(sspy_ties *ties, IScriptErrorInfo *error, bool foreign);
void sspy_ties_set_exception(sspy_ties *ties, sspy_exception *exception);
/* The stack where the exception was raised, taken over (malloc); NULL if none was kept. */
uintptr_t *sspy_ties_take_raised(sspy_ties *ties, uint32_t *count);
/* An outside reference on the error of EXC's ties, EXC in hand; NULL if it has none. */
IScriptErrorInfo *sspy_ties_hold(sspy_ties *ties, PyObject *exc);

#endif
