/* The exceptions that belong to one that leaves. */
#ifndef SSPY_RELATED_H
#define SSPY_RELATED_H

#include "cross/cross.h"

/*
 * Makes errors.  ERROR_FOR returns the error of STEP's exception, new or existing, in *ERROR with
 * an outside reference and its newest notes.  *ERROR is NULL when none is wanted (switched off, or
 * too many).  With HR the error also goes into the slot. -1 with an exception.
 */
typedef struct sspy_maker {
    sspy_state *state;
    const void *above;
    uint32_t errors; /* made for causes and members */
    int (*error_for)(struct sspy_maker *maker, const sspy_step *step, HRESULT *hr,
                     IScriptErrorInfo **error);
} sspy_maker;

/* Fill RELATED, which is zero, for STEP's exception; -1 with an exception.  Call sspy_related_end
   in any case. */
int sspy_related_begin(sspy_maker *maker, const sspy_step *step, sspy_related *related);
void sspy_related_end(sspy_state *state, sspy_related *related);

#endif
