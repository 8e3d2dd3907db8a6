/*
 * Whether modules came and went: then the same addresses may hold other code, and nothing that was
 * learned of the old is used any more.  Modules with frames on the stack cannot go, so looking
 * once, when a walk begins, is enough.
 *
 * The C library counts modules, but reports the counters only through dl_iterate_phdr, under the
 * loader's lock: 166 instructions and 25 ns on an idle machine, where all addresses of a stack of
 * 15 frames take 51 ns, and 75 ns as soon as two threads capture.  It cannot be asked at all while
 * another thread forks.  glibc's counters are plain words of its loader, so where they can be found
 * they are read instead, in some 20 instructions.
 */
#ifndef SS_UNLOADS_H
#define SS_UNLOADS_H

#include "base/platform.h"

/*
 * A number below 2^40 that is never the same for different sets of loaded modules.  CHECK asks the
 * C library, under its lock, whether the words are the right ones, until they have followed a
 * change; a thread does it once.  Else, where there are words, no lock is taken.
 */
uint64_t ss_modules_generation(bool check);

/*
 * False for a number that was made up because nobody could be asked: it is no other's either, but
 * says nothing of what is loaded.
 */
#define SS_GENERATION_BITS 40
#define SS_MADE_UP_GENERATIONS (UINT64_C(1) << 24)
static inline bool ss_generation_is_certain(uint64_t generation)
{
    return generation < (UINT64_C(1) << SS_GENERATION_BITS) - SS_MADE_UP_GENERATIONS;
}

/* For tests: whether there are words (a first check looks for them); OFF drops them for good. */
bool ss_modules_watched(bool off);

#endif
