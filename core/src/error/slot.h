/*
 * The thread's error slot.  A thread releases its error when it ends.  A forked child keeps the
 * error of the thread that forked.
 */
#ifndef SS_SLOT_H
#define SS_SLOT_H

#include "base/platform.h"
#include <stacksplice/source.h>

/* Take the slot's content with its reference, or NULL. */
IErrorInfo *ss_slot_take(void);

/*
 * Put INFO (with its reference, or NULL) into the slot and release the old content.  The release
 * runs foreign code, which may originate an error; that error is released, too.
 */
void ss_slot_put(IErrorInfo *info);

/* The error or node of this library in the slot, without a reference, or NULL. */
struct ss_record *ss_slot_peek(void);

#endif
