/*
 * How an error holds another object: its language exception, or the error it was made from.
 *
 * An object with two counts (IScriptException, IScriptErrorInfo) is held inside for the life of the
 * holder.  It is held outside only while the holder is awake, that is, while the holder's own
 * outside count is above 0.  Any other object is held by one plain reference for the life of the
 * holder.
 */
#ifndef SS_HELD_H
#define SS_HELD_H

#include "base/platform.h"
#include <stacksplice/script.h>

typedef struct ss_held {
    IUnknown *object;            /* (RO) the original pointer, or NULL */
    IScriptException *exception; /* (RO) the same object if it has two counts, else NULL */
    IScriptErrorInfo *error;     /* (RO) likewise */
} ss_held;

/* Start to hold OBJECT (may be NULL), awake.  Calls its AddRef and QueryInterface. */
void ss_held_begin(ss_held *held, IUnknown *object);

void ss_held_wake(const ss_held *held);
void ss_held_sleep(const ss_held *held);

/* Stop holding, while the holder sleeps. */
void ss_held_end(ss_held *held);

#endif
