/* Errors that Python describes for the core's formatter. */
#ifndef SSPY_REPORT_READ_H
#define SSPY_REPORT_READ_H

#include "api/api.h"
#include "life/text.h"

/* What is read of one report.  The Python objects it was read from lend the texts. */
typedef struct sspy_reader {
    sspy_state *state;
    struct sspy_block *blocks;
    PyObject *kept;       /* list: other objects that lend texts */
    PyObject *references; /* dict: gives equal errors of one report the same key */
} sspy_reader;

/* Return -1 with an exception.  Call the end in any case, after the report is written. */
int sspy_reader_begin(sspy_reader *reader, sspy_state *state);
void sspy_reader_end(sspy_reader *reader);

/* Allocate COUNT zeroed items of SIZE bytes that last until the end; NULL with an exception. */
void *sspy_take(sspy_reader *reader, Py_ssize_t count, size_t size);
stacksplice_told *sspy_new_told(sspy_reader *reader);

/* Lend the UTF-8 of TEXT, a str.  These functions return -1 with an exception. */
int sspy_lend_text(sspy_reader *reader, PyObject *text, stacksplice_told_text *out);

/* Read a frame, or an error with all that belongs to it, as a JSON report has them. */
int sspy_read_frame(sspy_reader *reader, PyObject *dict, stacksplice_told_frame *out);
int sspy_read_error(sspy_reader *reader, PyObject *dict, stacksplice_told *out);

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

#endif
