/* Conversion between texts of the core and of Python. */
#ifndef SSPY_TEXT_H
#define SSPY_TEXT_H

#include "life/life.h"

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
