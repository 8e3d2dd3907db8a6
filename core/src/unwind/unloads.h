/*
 * Detects that modules were loaded or unloaded.  Then the same addresses may hold other code, and
 * no cached fact about the old code may be used.  Modules with frames on the stack cannot be
 * unloaded, so one check at the start of a walk is enough.
 *
 * The C library counts modules, but reports the counters only through dl_iterate_phdr, under the
 * loader's lock.  That costs 166 instructions and 25 ns on an idle machine, and 75 ns as soon as
 * two threads capture.  All addresses of a stack of 15 frames take 51 ns.  While another thread
 * forks, the loader cannot be asked at all.  glibc's counters are plain words of its loader; where
 * they can be found, we read them directly in some 20 instructions.
 */
#ifndef SS_UNLOADS_H
#define SS_UNLOADS_H

#include "base/platform.h"

/*
 * A number below 2^40, never the same for different sets of loaded modules.
 *
 * Without words, each call asks the C library under its lock.  With words, a call asks only if they
 * disagree, or if CHECK is set and they have not followed a change yet.  A thread sets CHECK once.
 */
uint64_t ss_modules_generation(bool check);

/*
 * False for a made-up number, given when the loader could not be asked.  It equals no other number,
 * but says nothing about what is loaded.
 */
#define SS_GENERATION_BITS 40
#define SS_MADE_UP_GENERATIONS (UINT64_C(1) << 24)
static inline bool ss_generation_is_certain(uint64_t generation)
{
    return generation < (UINT64_C(1) << SS_GENERATION_BITS) - SS_MADE_UP_GENERATIONS;
}

/* Its low bits are how many modules there are; 0 where the word for that was not found. */
#define SS_GENERATION_LOADED_BITS 12

/* Whether it changes with every unload: else it may only change with the load after that. */
static inline bool ss_generation_tells_unloads(uint64_t generation)
{
    return ss_generation_is_certain(generation) &&
           generation % (UINT64_C(1) << SS_GENERATION_LOADED_BITS) != 0;
}

/* For tests: whether there are words (the first check looks for them); OFF drops them for good. */
bool ss_modules_watched(bool off);

#endif
