/* The interpreter as the core sees it: what waits to be dropped, and what is kept. */
#ifndef SS_OWNER_H
#define SS_OWNER_H

#include "base/platform.h"
#include <stacksplice/script.h>

/* EXCEPTION's outside count fell to 0: have its value dropped.  Takes over an inside reference.
   Any thread. */
void ss_owner_released(stacksplice_owner *owner, stacksplice_exception *exception);

/* The list of EXCEPTIONs that keep values; owner's thread.  False when OWNER is closed. */
bool ss_owner_keep(stacksplice_owner *owner, stacksplice_exception *exception);

bool ss_owner_is_closed(const stacksplice_owner *owner);

/* Whether values of OWNER are dropped where their exception is released. */
bool ss_owner_any_thread(const stacksplice_owner *owner);

#endif
