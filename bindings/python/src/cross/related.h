/* What belongs to an exception that leaves. */
#ifndef SSPY_RELATED_H
#define SSPY_RELATED_H

#include "cross/cross.h"

/*
 * What makes errors.  ERROR_FOR: the error of STEP's exception, which may exist already, into
 * *ERROR with an outside reference and its newest notes, or NULL when none is wanted (switched off,
 * or too many); with HR into the slot, too.  -1 with an exception.
 */
typedef struct sspy_maker {
    sspy_state *state;
    const void *above;
    uint32_t errors; /* that were made for causes and members */
    int (*error_for)(struct sspy_maker *maker, const sspy_step *step, HRESULT *hr,
                     IScriptErrorInfo **error);
} sspy_maker;

/* RELATED of STEP's exception, zero before; -1 with an exception.  sspy_related_end in any case. */
int sspy_related_begin(sspy_maker *maker, const sspy_step *step, sspy_related *related);
void sspy_related_end(sspy_state *state, sspy_related *related);

#endif
