/* Names of exported functions, from the mapped symbol tables. */
#ifndef SS_SYMBOL_H
#define SS_SYMBOL_H

#include "base/platform.h"

/*
 * Find the exported function that contains ADDRESS: its NAME, which lies in its module, and its
 * START.  Takes no memory, reads only loaded segments, and takes the loader's lock only where the
 * platform finds modules no other way.
 */
bool ss_symbol_find(uintptr_t address, const char **name, uintptr_t *start);

#endif
