/*
 * What an address meant.  After an unload the same address may hold other code, so a stack that is
 * kept has the epoch of its capture.  From the modules that lay where in which epoch follows what
 * each of its addresses stood for.
 *
 * An address whose module is gone becomes a token that has the module's number and the offset in
 * it.  The token needs no table of its own, and every reader of tokens passes it on.
 */
#ifndef SS_UNLOADED_H
#define SS_UNLOADED_H

#include "base/platform.h"
#include "splice/token.h"
#include <stacksplice/debugger.h>

/* A binary that was met.  Never freed, and changed only as marked. */
typedef struct ss_met_module {
    uintptr_t start, end;   /* (RO) */
    uint64_t since;         /* (RO) the epoch in which it was first met */
    _Atomic uint64_t until; /* (ATOMIC) the epoch in which it was missing; 0: still there */
    _Atomic uint64_t seen;  /* (ATOMIC) the last look that met it */
    uint64_t file[4];       /* (RO) without a build-id: which file it was; all 0: not known */
    const char *build_id;   /* (RO) behind PATH; empty: none */
    char path[];            /* (RO) empty: unknown */
} ss_met_module;

/* A token has the number of the module here, and the offset in it. */
enum { SS_MET_MOST = STACKSPLICE_TOKEN_MODULES };
extern _Atomic(ss_met_module *) ss_met_modules[SS_MET_MOST]; /* (ATOMIC) grows only */

/*
 * The epoch of a stack that is captured now.  Looks at the loaded modules if the loader's counters
 * have changed since the last look, else it reads some words.  Signal safe, as far as the loader
 * can be asked (base/loader.h): where it cannot, the epoch is the last one.
 */
uint64_t ss_code_epoch(void);

/*
 * Turn the addresses of FRAMES whose code is gone since EPOCH, by the last look, into tokens.
 * Returns the epoch that the frames have then.  Another thread may read FRAMES: each word is either
 * the old or the new one.  Signal safe.
 */
uint64_t ss_settle(uintptr_t *frames, uint32_t count, uint64_t epoch);

/*
 * Whether the file of the module at ADDRESS, which has no build-id, is the one that was there when
 * the module was first met.
 */
bool ss_met_file_stays(uintptr_t address);

#define SS_UNLOADED_BITS ((uintptr_t)STACKSPLICE_TOKEN_UNLOADED)
#define SS_UNLOADED_REASON "this code was unloaded"

static inline bool ss_unloaded_is(uintptr_t element)
{
    return (element & SS_UNLOADED_BITS) == SS_UNLOADED_BITS && ss_token_is(element);
}

/* The module of such a token, and the offset in it; NULL if it is not known.  Signal safe. */
const ss_met_module *ss_unloaded_module(uintptr_t token, uintptr_t *offset);

#endif
