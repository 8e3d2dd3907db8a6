/* The values of a report that was read back.  Functions that return an int return -1 with an
   exception. */
#ifndef SSPY_REPORT_VALUES_H
#define SSPY_REPORT_VALUES_H

#include "api/report_read.h"

int sspy_refuse_value(const char *key, const char *wanted, PyObject *value);
int sspy_check_dict(const char *what, PyObject *value);
/* Borrowed; NULL when there is none or it is None. */
PyObject *sspy_value_of(PyObject *dict, const char *key);
int sspy_read_text(sspy_reader *reader, PyObject *dict, const char *key,
                   stacksplice_told_text *out);
int sspy_read_name(sspy_reader *reader, PyObject *dict, const char *key, const char **out);
/* Read a number from 0 to MOST, or its text in hexadecimal; 0 when there is none. */
int sspy_read_number(PyObject *dict, const char *key, uint64_t most, uint64_t *out);
int sspy_read_count(PyObject *dict, const char *key, uint32_t *out);
int sspy_read_truth(PyObject *dict, const char *key, int *out);
/* Read the list of KEY, borrowed, and the number of its items; NULL if it is empty. */
int sspy_read_list(PyObject *dict, const char *key, PyObject **list, Py_ssize_t *count);

#endif
