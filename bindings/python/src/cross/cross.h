/* Exceptions that cross the border between Python and HRESULTs. */
#ifndef SSPY_CROSS_H
#define SSPY_CROSS_H

#include "stack/stack.h"

/* ---- Out (originate.c) -------------------------------------------------------------------------*/

/*
 * EXC's error object with an outside reference: the one it has, or a new one.  A new one has the
 * stack of EXC's traceback and the live stack (outside of ABOVE, or from the calling Python frame).
 * The thread's slot stays unchanged.  Returns 0 with *ERROR NULL if origination is switched off; -1
 * with an exception.
 */
int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, IScriptErrorInfo **error);
/*
 * The same, but that EXC and what led to it stay as they are: exceptions without an error object have
 * none afterwards, so each call makes another one.
 */
int sspy_describe(sspy_state *state, PyObject *exc, IScriptErrorInfo **error);
/* Whether EXC is an exception of which TEST asks; a negative answer is an exception. */
typedef int (*sspy_test)(sspy_state *state, PyObject *exc);
/* The first of EXC and the exceptions that a traceback shows with it that passes TEST, a new
   reference; NULL, maybe with an exception.  Looks at no more than SSPY_MAX_RELATED. */
PyObject *sspy_first_shown(sspy_state *state, PyObject *exc, sspy_test test);
/* Put EXC's error into the slot; *HR is the failing HRESULT to return, *IS_WHOLE whether the error has
   all that EXC's traceback has at this moment. -1 with an exception. */
int sspy_put(sspy_state *state, PyObject *exc, const void *above, HRESULT *hr, bool *is_whole);
/* The same for C.  Without memory the error says so; never leaves an exception set. */
HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above);
/* EXC's language exception with an outside reference; NULL with an exception. */
IUnknown *sspy_language_exception(sspy_state *state, PyObject *exc, const void *above);

/* ---- Without a border (way.c) ------------------------------------------------------------------*/

/* Give EXC its error if it passed code of another language that knows nothing of us, and carries
   the stack of its raise. -1 with an exception. */
int sspy_error_of_way(sspy_state *state, PyObject *exc);
/* _ends_here(exc): the same for one that a hook, which calls this, is told of because the code that
   called Python can do nothing with it.  Without a stack of its raise it gets the live one. */
PyObject *sspy_ends_here(PyObject *module, PyObject *exc);

/* ---- In (arrive.c) -----------------------------------------------------------------------------*/

/* The object of ERROR's language exception if it was born in this interpreter, else NULL. */
PyObject *sspy_own_object(sspy_state *state, IUnknown *error);
/* The exception that stands for ERROR here, also one that was born elsewhere, if there is one. */
PyObject *sspy_known_object(sspy_state *state, IUnknown *error);
/* Set the thread's error as the pending exception, with a node of the stack outside of ABOVE;
   returns NULL. */
PyObject *sspy_raise(sspy_state *state, HRESULT hr, const void *above);

/* ---- The thread's slot (arrive.c) --------------------------------------------------------------*/

/* Save and restore the error around clean-up code that may fail. */
PyObject *sspy_save_error(PyObject *module, PyObject *unused);
PyObject *sspy_restore_error(PyObject *module, PyObject *capsule);
/* Note the task for which Python put an error there; drop the error of another task. */
void sspy_slot_note(sspy_state *state);

/* ---- Unhandled exceptions (originate.c) --------------------------------------------------------*/

/* Give EXC to the host's handler, else to sys.excepthook; see stacksplice_python_unhandled().
   STATE may be NULL: then only sys.excepthook gets it.  Leaves no exception set. */
HRESULT sspy_report_unhandled(sspy_state *state, PyObject *exc, const void *above,
                              int *exit_status);
/* _offer_unhandled(exc): return whether the host's handler handled it. */
PyObject *sspy_offer_unhandled(PyObject *module, PyObject *exc);
/* _is_asked(exc): whether sspy_report_unhandled shows it, in this thread. */
PyObject *sspy_is_asked(PyObject *module, PyObject *exc);

#endif
