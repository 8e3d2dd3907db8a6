/* The process's error reporting flags, and the debugger events that they control. */
#ifndef SS_FLAGS_H
#define SS_FLAGS_H

#include "base/platform.h"
#include <stacksplice/debugger.h>

uint32_t ss_flags_get(void);

/* Whether errors are stored in the slot. */
bool ss_flags_store(void);

/*
 * If the flags say so, raise the event of originating HR or, with TRANSFORMED, of turning OLD into
 * HR.  Runs the host's hook, which cannot change the slot.
 */
void ss_event_raise(bool transformed, HRESULT old, HRESULT hr, const WCHAR *message,
                    uint32_t length);

#endif
