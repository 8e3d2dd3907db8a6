/* What a dying process says before it follows any object, each of which may be damaged. */
#ifndef SS_FIRST_WORDS_H
#define SS_FIRST_WORDS_H

#include "report/facts.h"

/*
 * Write EVENT, HR and the addresses of the callers of the function with frame address ABOVE, which
 * must be exact, to stderr.  EVENT is a literal.  Allocates and locks nothing in a thread that has
 * captured before; signal safe.
 */
void ss_first_words(HRESULT hr, const char *event, const void *above);

/* The facts of an error that is known by these words alone; the event. */
const char *ss_first_words_facts(ss_facts *facts);

#endif
