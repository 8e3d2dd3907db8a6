/* Decides which thread drops a value, and when. */
#ifndef SS_RELEASE_H
#define SS_RELEASE_H

#include "base/platform.h"
#include <stacksplice/script.h>

/*
 * Call when X's outside count fell to 0: has its value dropped.  Takes over an inside reference.
 * Any thread.
 */
void ss_release(stacksplice_owner *owner, stacksplice_exception *x);

/*
 * Add X to the list that OWNER drops values from at its end; owner's thread.  False when OWNER is
 * closed.
 */
bool ss_release_can_keep(stacksplice_owner *owner, stacksplice_exception *x);

#endif
