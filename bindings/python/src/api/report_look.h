/* Python callables that write Python's frames in reports: those of _look.py and _traceback.py. */
#ifndef SSPY_REPORT_LOOK_H
#define SSPY_REPORT_LOOK_H

#include "life/text.h"

typedef struct sspy_look {
    PyObject *callable; /* borrowed; None: there is none */
    PyObject *text;     /* what it returned last, which lends the lines; or NULL */
} sspy_look;

/* Have OPTIONS call LOOK, which stays where it is until the report is written. */
void sspy_look_take(sspy_look *look, stacksplice_format_options *options);

/* As sspy_text_finish; NULL also when LOOK was left by KeyboardInterrupt or the like. */
PyObject *sspy_look_finish(sspy_look *look, sspy_text_buffer *buffer, HRESULT hr);

#endif
