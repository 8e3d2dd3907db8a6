/*
 * Which native frames are glue: the inside of an interpreter and the calls into it, which do not
 * help a reader of reports.  Only reports hide them; a stack keeps all its frames.
 */
#ifndef SS_GLUE_H
#define SS_GLUE_H

#include "resolve/resolve.h"
#include <stacksplice/script.h>

bool ss_glue_is(const ss_frame *frame);

/* Whether all frames in the binary at PATH are glue. */
bool ss_glue_is_binary(const char *path);

/*
 * Whether FUNCTION is the inside of an interpreter, or a call into one.  So is then what the
 * compiler inlined into it.  (What was inlined into a function of std::function is the user's.)
 */
bool ss_glue_is_inside(const char *function);

/* Whether SYMBOL is of the code that calls main or a thread's function. */
bool ss_glue_is_start_up(const char *symbol);

/* What is known of LANGUAGE, or NULL. */
const stacksplice_glue *ss_glue_of(const char *language);

/* The glue at INDEX, of built-in and added ones; NULL after the last. */
const stacksplice_glue *ss_glue_at(uint32_t index);

/* Whether NAME matches one of PATTERNS, a list as in stacksplice_glue. */
bool ss_glue_matches(const char *name, const char *const *patterns);

/* Glue of interpreters whose binding may not be loaded; ends with NULL. */
extern const stacksplice_glue *const ss_known_glue[];

#endif
