/*
 * Tokens: synthetic instruction pointers that stand for script frames and gaps.
 *
 * The table is append-only and read without a lock; a writer takes one lock, which fork takes too.
 * Nothing is ever removed, so a record lives as long as the process.
 */
#ifndef SS_TOKEN_H
#define SS_TOKEN_H

#include "base/platform.h"
#include <stacksplice/source.h>

#if UINTPTR_MAX > 0xffffffffu
#define SS_TOKEN_BASE ((uintptr_t)0x5353000000000000)
#endif

/* Whether ADDRESS has the form of a token (it may still be unknown to the table). */
bool ss_token_is(uintptr_t address);

/* The record behind TOKEN, or NULL.  Reads memory that never moves; signal safe. */
const stacksplice_token_info *ss_token_info(uintptr_t token);

/* The gap token for LANGUAGE and REASON (static strings); never fails: see stacksplice_intern. */
uintptr_t ss_token_gap(const char *language, const char *reason);

/* The name scripts use for the machine code that begins at FUNCTION, or NULL.  Signal safe. */
const char *ss_function_name(uintptr_t function);

#endif
