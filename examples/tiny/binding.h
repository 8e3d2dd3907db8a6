/* What the files of the binding share. */
#ifndef STACKSPLICE_TINY_BINDING_H
#define STACKSPLICE_TINY_BINDING_H

#include <stacksplice/script.h>
#include <stacksplice/tiny.h>

/* Register the frame source and names for all interpreters; further calls change nothing. */
stacksplice_hresult stacksplice_tiny_add_source(void);

/* The report of ERROR as a string; empty for NULL. */
tiny_value stacksplice_tiny_text(tiny *t, IUnknown *error);

#endif
