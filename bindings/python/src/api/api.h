/* The functions and types that scripts and hosts call. */
#ifndef SSPY_API_H
#define SSPY_API_H

#include "cross/cross.h"
#include "life/text.h"

#include <stacksplice/python.h>

/* ---- ErrorHandle: Python's handle of an error object (error_object.c, error_fields.c) ---------*/

typedef struct sspy_error_object {
    PyObject_HEAD IScriptErrorInfo *error; /* (RO) inside if it was born here, else outside */
    bool inside;                           /* (RO) */
    PyObject *exception;                   /* (GIL) or NULL */
    sspy_interp *interp;                   /* (RO) counted */
} sspy_error_object;

/* The type with these METHODS. */
PyTypeObject *sspy_error_type(PyObject *module, PyMethodDef *methods);
extern PyMethodDef sspy_error_methods[];

/* Take an outside reference on the error for the length of a call.  While the caller holds it, no
   other release can drop the last reference, so only letting go needs a section. */
IScriptErrorInfo *sspy_error_hold(sspy_error_object *self);
void sspy_error_let_go(sspy_error_object *self);
/* Add the notes and callers that the exception got since to ERROR, which the caller holds; -1 with
   an exception. */
int sspy_error_update(sspy_error_object *self, IScriptErrorInfo *error);

/* Make a handle of ERROR, on which the caller has an outside reference.  EXC is its exception if it
   was born in this interpreter, else NULL.  The result is an ErrorInfo that has the handle. */
PyObject *sspy_error_wrap(sspy_state *state, IScriptErrorInfo *error, PyObject *exc);
/* The same for an interface of any kind; None for NULL or a foreign object. */
PyObject *sspy_error_wrap_unknown(sspy_state *state, IUnknown *error);
/* The same, and the caller's reference is released. */
PyObject *sspy_error_wrap_taken(sspy_state *state, void *error);

/* ---- Methods of the ties (pickling.c) ---------------------------------------------------------*/

extern PyMethodDef sspy_carrying_dict_methods[];
/* The report that EXC brought from another process, or None. */
PyObject *sspy_remote_info(sspy_state *state, PyObject *exc);

/* ---- Functions --------------------------------------------------------------------------------*/

/* captures.c */
PyObject *sspy_capture_function(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *sspy_set_max_frames(PyObject *module, PyObject *number);
PyObject *sspy_frames_left_out(PyObject *module, PyObject *addresses);
extern const char sspy_capture_doc[], sspy_set_max_frames_doc[];

/* crash.c */
PyObject *sspy_install_crash_handler(PyObject *module, PyObject *others_first);
PyObject *sspy_remove_crash_handler(PyObject *module, PyObject *unused);
PyObject *sspy_crash_thread(PyObject *module, PyObject *unused);

/* deadline.c */
int sspy_add_deadline_type(PyObject *module);

/* frame_table.c: frames as values of Python */
PyObject *sspy_tuple_of(const uintptr_t *frames, uint32_t count);
PyObject *sspy_resolve(PyObject *module, PyObject *address);
extern const char sspy_resolve_doc[];
PyObject *sspy_code_epoch(PyObject *module, PyObject *nothing);
PyObject *sspy_frames_of(PyObject *module, PyObject *arguments);
PyObject *sspy_resolve_file(PyObject *module, PyObject *arguments);
PyObject *sspy_is_glue(PyObject *module, PyObject *arguments);

/* places.c: the place, the globals and the variables of each entry of TRACEBACK, the outermost
   first */
PyObject *sspy_places(PyObject *module, PyObject *traceback);

/* locals.c: whether reports show local variables */
PyObject *sspy_show_locals(PyObject *module, PyObject *wanted);

/* redaction.c */
PyObject *sspy_set_redaction(PyObject *module, PyObject *arguments);
PyObject *sspy_redact(PyObject *module, PyObject *arguments);
PyObject *sspy_redact_name(PyObject *module, PyObject *name);

/* report_text.c: JSON is a str; ValueError if it does not describe an error, or a frame */
PyObject *sspy_format_told(PyObject *module, PyObject *arguments);
PyObject *sspy_format_told_for_sentry(PyObject *module, PyObject *json);
PyObject *sspy_check_told(PyObject *module, PyObject *json); /* None */
PyObject *sspy_format_frame(PyObject *module, PyObject *json);

/* ---- Callables of Python (report_text.c) ------------------------------------------------------*/

/* They write Python's frames: those of look.py and traceback.py. */

typedef struct sspy_look {
    PyObject *callable; /* borrowed; None: there is none */
    PyObject *text;     /* what it returned last, which lends the lines; or NULL */
} sspy_look;

/* Have OPTIONS call LOOK, which stays where it is until the report is written. */
void sspy_look_take(sspy_look *look, stacksplice_format_options *options);

/* As sspy_text_finish; NULL also when LOOK was left by KeyboardInterrupt or the like. */
PyObject *sspy_look_finish(sspy_look *look, sspy_text_buffer *buffer, HRESULT hr);

PyObject *sspy_take_error(PyObject *module, PyObject *unused); /* errors.c */
extern PyMethodDef sspy_functions[];                           /* functions.c */
extern PyMethodDef sspy_error_functions[];                     /* errors.c */
extern PyMethodDef sspy_winrt_functions[];                     /* winrt.c */

/* The table for C (c_api.c), in a capsule of MODULE. */
int sspy_add_c_api(PyObject *module);

#endif
