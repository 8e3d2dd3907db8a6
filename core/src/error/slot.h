/*
 * The thread's error slot.  A thread that has ended has released its error; a forked child keeps
 * the one of the thread that forked.
 */
#ifndef SS_SLOT_H
#define SS_SLOT_H

#include "base/platform.h"
#include <stacksplice/source.h>

/* Take what the slot holds, with its reference, or NULL. */
IErrorInfo *ss_slot_take(void);

/*
 * Put INFO (with its reference, or NULL) into the slot and release what was there.  A release runs
 * foreign code, which may itself originate; whatever it leaves is released too.
 */
void ss_slot_put(IErrorInfo *info);

/* The error or node of this library that the slot holds, without a reference, or NULL. */
struct ss_record *ss_slot_peek(void);

#endif
