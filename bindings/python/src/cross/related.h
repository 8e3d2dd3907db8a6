/* What belongs to an exception that leaves. */
#ifndef SSPY_RELATED_H
#define SSPY_RELATED_H

#include "cross/cross.h"

/* What makes an error for EXC, which may exist already: *ERROR has an outside reference, or is NULL
   when none is wanted (switched off, or too many).  -1 with an exception. */
typedef struct sspy_maker {
    sspy_state *state;
    const void *above;
    uint32_t errors; /* that were made */
    int (*error_for)(struct sspy_maker *maker, const sspy_step *step, IScriptErrorInfo **error);
} sspy_maker;

/* RELATED of STEP's exception, zero before; -1 with an exception.  sspy_related_end in any case. */
int sspy_related_begin(sspy_maker *maker, const sspy_step *step, sspy_related *related);
void sspy_related_end(sspy_state *state, sspy_related *related);

#endif
