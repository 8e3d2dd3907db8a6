/*
 * Tokens: synthetic instruction pointers that stand for script frames and gaps.
 *
 * Readers find and decode descriptions without a lock.  A writer takes one lock, which fork takes
 * too.  Memory is bounded (pool.h): descriptions unused for long are dropped, and their tokens
 * report that from then on.
 */
#ifndef SS_TOKEN_H
#define SS_TOKEN_H

#include "base/platform.h"
#include <stacksplice/source.h>

#if UINTPTR_MAX > 0xffffffffu
#define SS_TOKEN_BASE ((uintptr_t)STACKSPLICE_TOKEN_BASE)
#endif

/* Enough for the strings of nearly all tokens: see ss_token_read. */
#define SS_TOKEN_ROOM 512

/* Whether ADDRESS has the form of a token (it may still be unknown). */
bool ss_token_is(uintptr_t address);

/*
 * Decode TOKEN into INFO; an unknown token gives a gap with the reason.  Strings are static or in
 * BUFFER, the language first.  One that does not fit is cut and ends in "...", or is NULL.  Returns
 * the room for all of them.  Signal safe.
 */
size_t ss_token_read(uintptr_t token, stacksplice_token_info *info, char *buffer, size_t capacity);

/* Whether ELEMENT of a stack is the token of a script frame.  Signal safe. */
bool ss_token_is_script(uintptr_t element);

/* When code of TOKEN's content was met first, or was renewed, in nanoseconds since 1970: it was loaded before.
   0: not known. */
int64_t ss_token_met_at(uintptr_t token);
/* The same of the token that was met before all others; 0: there is none. */
int64_t ss_token_first_met_at(void);

/* Map what the first token of a process needs, before a signal handler needs it. */
void ss_token_prepare(void);

/* The name scripts use for the machine code that starts at FUNCTION, or NULL.  Signal safe. */
const char *ss_function_name(uintptr_t function);

#endif
