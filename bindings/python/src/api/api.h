/* The functions and types that scripts and hosts call. */
#ifndef SSPY_API_H
#define SSPY_API_H

#include "cross/cross.h"

#include <stacksplice/python.h>
#include <stacksplice/read.h>

/* ---- ErrorHandle: Python's handle of an error object (errors.c) --------------------------------*/

PyTypeObject *sspy_error_type(PyObject *module);
/* An ErrorInfo of an interface of any kind, whose reference is released; None for NULL or a foreign
   object. */
PyObject *sspy_error_wrap_taken(sspy_state *state, void *error);

/* ---- Methods of the ties (errors.c) ------------------------------------------------------------*/

extern PyMethodDef sspy_carrying_dict_methods[];

/* ---- Functions ---------------------------------------------------------------------------------*/

/* counts.c: a table of equal exceptions within a window, a capsule; _count(table, exc): whether one like
   EXC was new within it, and EXC was counted.  EXC stays as it is; _tell_counts(table, all, take): calls
   TAKE with each line of counts of windows that ended, or of all. */
PyObject *sspy_new_counts(PyObject *module, PyObject *milliseconds);
PyObject *sspy_count(PyObject *module, PyObject *arguments);
PyObject *sspy_tell_counts(PyObject *module, PyObject *arguments);

/* frames.c */
PyObject *sspy_capture_function(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *sspy_set_max_frames(PyObject *module, PyObject *number);
PyObject *sspy_frames_left_out(PyObject *module, PyObject *addresses);
extern const char sspy_capture_doc[], sspy_set_max_frames_doc[];

/* host.c */
PyObject *sspy_install_crash_handler(PyObject *module, PyObject *others_first);
PyObject *sspy_remove_crash_handler(PyObject *module, PyObject *unused);
PyObject *sspy_crash_thread(PyObject *module, PyObject *unused);

int sspy_add_deadline_type(PyObject *module);
extern const char sspy_report_on_signal_doc[];
PyObject *sspy_report_on_signal(PyObject *module, PyObject *number);

PyObject *sspy_resolve(PyObject *module, PyObject *address);
extern const char sspy_resolve_doc[];
PyObject *sspy_code_epoch(PyObject *module, PyObject *nothing);
PyObject *sspy_frames_of(PyObject *module, PyObject *arguments);
PyObject *sspy_resolve_file(PyObject *module, PyObject *arguments);
PyObject *sspy_resolve_symbol(PyObject *module, PyObject *arguments);
PyObject *sspy_is_glue(PyObject *module, PyObject *arguments);

/* locals.c: the place, the globals and the variables of each entry of TRACEBACK, the outermost
   first */
PyObject *sspy_places(PyObject *module, PyObject *traceback);

/* locals.c: whether reports show local variables */
PyObject *sspy_show_locals(PyObject *module, PyObject *wanted);

/* reports.c */
PyObject *sspy_set_redaction(PyObject *module, PyObject *arguments);
PyObject *sspy_redact(PyObject *module, PyObject *arguments);
PyObject *sspy_redact_name(PyObject *module, PyObject *name);

/* reports.c: JSON is a str; ValueError if it does not describe an error, or a frame */
PyObject *sspy_format_document(PyObject *module, PyObject *arguments);
PyObject *sspy_format_document_for_sentry(PyObject *module, PyObject *json);
PyObject *sspy_format_document_as_brief_json(PyObject *module, PyObject *json);
PyObject *sspy_check_document(PyObject *module, PyObject *json); /* None */
PyObject *sspy_format_frame(PyObject *module, PyObject *json);
/* Of a stack: [(begin, end, name)] of what brief reports count in one line. */
PyObject *sspy_folds_of(PyObject *module, PyObject *json);
/* _hide(name, file): whether that is new.  _is_installed(file): whether a script's file is of a library. */
PyObject *sspy_hide(PyObject *module, PyObject *arguments);
PyObject *sspy_is_installed(PyObject *module, PyObject *file);

/* ---- Callables of Python (reports.c) -----------------------------------------------------------*/

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
extern PyMethodDef sspy_error_functions[];                     /* errors.c */
extern PyMethodDef sspy_winrt_functions[];                     /* winrt.c */

/* The table for C (c_api.c), in a capsule of MODULE. */
int sspy_add_c_api(PyObject *module);

/* ---- What the core's visitor reads (errors.c) --------------------------------------------------*/

enum { SSPY_MAX_OPEN = 16 }; /* nested containers; five occur */

/* A visitor that builds a dict, or fills a row.  Stacks become lists of their elements; related errors
   are wrapped. */
typedef struct sspy_builder {
    stacksplice_visitor visitor;
    sspy_state *state; /* for an error; may be NULL for a frame */
    PyObject *result;  /* owned; NULL with an exception if the walk was stopped */
    unsigned depth;
    PyObject *open[SSPY_MAX_OPEN]; /* borrowed */
    PyObject **row;                /* NULL, or the places of an object's members NAMES */
    const char *const *names;
    unsigned name_count, at; /* AT: behind the name found last */
} sspy_builder;

sspy_builder sspy_new_builder(sspy_state *state);
/* The result after HR, a new reference; NULL with an exception. */
PyObject *sspy_end_builder(sspy_builder *builder, HRESULT hr);

#endif
