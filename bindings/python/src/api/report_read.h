/* Errors that Python tells in words, for the core's formatter. */
#ifndef SSPY_REPORT_READ_H
#define SSPY_REPORT_READ_H

#include "api/api.h"

/* What is read of one report.  Its texts are lent by the Python objects that they are read from. */
typedef struct sspy_reader {
    sspy_state *state;
    struct sspy_block *blocks;
    PyObject *kept;       /* list: what lends texts besides */
    PyObject *references; /* dict: equal errors of one report have one key */
} sspy_reader;

/* -1 with an exception; the end is due all the same, after the report is written. */
int sspy_reader_begin(sspy_reader *reader, sspy_state *state);
void sspy_reader_end(sspy_reader *reader);

/* COUNT items of SIZE zero bytes, until the end; NULL with an exception. */
void *sspy_take(sspy_reader *reader, Py_ssize_t count, size_t size);
stacksplice_told *sspy_new_told(sspy_reader *reader);

/* The UTF-8 of TEXT, a str that is lent.  These return -1 with an exception. */
int sspy_lend_text(sspy_reader *reader, PyObject *text, stacksplice_told_text *out);

/* A frame, and an error with all that belongs to it, as a JSON report has them. */
int sspy_read_frame(sspy_reader *reader, PyObject *dict, stacksplice_told_frame *out);
int sspy_read_error(sspy_reader *reader, PyObject *dict, stacksplice_told *out);

#endif
