/* The local variables of an error's frames, as its language tells them when a report is made. */
#ifndef SS_LOCALS_H
#define SS_LOCALS_H

#include "base/platform.h"
#include "error/view.h"
#include <stacksplice/script.h>

/* Those of one stack.  All zero: none. */
typedef struct ss_locals {
    stacksplice_told_local *all; /* owned, as are the texts */
    uint32_t *elements;          /* for each its element of the stack */
    uint32_t count;
} ss_locals;

/* Read those of ERROR, which VIEW is of, and of its exception. */
void ss_locals_begin(ss_locals *locals, IUnknown *error, const ss_error_view *view);
void ss_locals_end(ss_locals *locals);

/* Those of the frame at ELEMENT; LOCALS may be NULL. */
stacksplice_told_locals ss_locals_of(const ss_locals *locals, uint32_t element);

#endif
