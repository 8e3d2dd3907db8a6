/*
 * Which native frames are glue: the inside of an interpreter and the calls into it, which say
 * nothing to someone who reads a report.  Only reports hide them; a stack keeps all it found.
 */
#ifndef SS_GLUE_H
#define SS_GLUE_H

#include "resolve/resolve.h"
#include <stacksplice/script.h>

bool ss_glue_is(const ss_frame *frame);

/* Glue INDEX of all that is known; NULL behind the last. */
const stacksplice_glue *ss_glue_at(uint32_t index);

/* Whether NAME matches one of PATTERNS, a list as in stacksplice_glue. */
bool ss_glue_matches(const char *name, const char *const *patterns);

/* What is known of interpreters whose binding may not be there: a list that ends with NULL. */
extern const stacksplice_glue *const ss_known_glue[];

#endif
