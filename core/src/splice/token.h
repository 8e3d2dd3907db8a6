/*
 * Tokens: synthetic instruction pointers that stand for script frames and gaps.
 *
 * Descriptions are found and read without a lock; a writer takes one lock, which fork takes too.
 * What they take is bounded (pool.h): the ones that nobody met for long are dropped then, and a
 * token of theirs says so for ever.
 */
#ifndef SS_TOKEN_H
#define SS_TOKEN_H

#include "base/platform.h"
#include <stacksplice/source.h>

#if UINTPTR_MAX > 0xffffffffu
#define SS_TOKEN_BASE ((uintptr_t)0x5353000000000000)
#endif

/* Room for the strings of nearly all tokens: see ss_token_read. */
#define SS_TOKEN_ROOM 512

/* Whether ADDRESS has the form of a token (it may still be unknown). */
bool ss_token_is(uintptr_t address);

/*
 * What TOKEN stands for, into INFO; a gap that says why where it is not known.  Strings are static
 * or put into BUFFER: the language first; what does not fit is cut and ends in "...", or is NULL.
 * Returns the room that all of them take.  Signal safe.
 */
size_t ss_token_read(uintptr_t token, stacksplice_token_info *info, char *buffer, size_t capacity);

/* Whether ELEMENT of a stack is the token of a script frame.  Signal safe. */
bool ss_token_is_script(uintptr_t element);

/*
 * The gap token for LANGUAGE and REASON; never fails: see stacksplice_intern.  Signal safe for one
 * of SS_UNWIND_REASONS.
 */
uintptr_t ss_token_gap(const char *language, const char *reason);

/* The name scripts use for the machine code that begins at FUNCTION, or NULL.  Signal safe. */
const char *ss_function_name(uintptr_t function);

#endif
