/*
 * The first output of a dying process, before it follows any object, each of which may be damaged.
 */
#ifndef SS_FIRST_WORDS_H
#define SS_FIRST_WORDS_H

#include "report/facts.h"

/*
 * Write EVENT, HR and the callers' addresses to stderr.  ABOVE is the frame address, which must be
 * exact, of the function whose callers are meant.  EVENT is a literal.  In a thread that has
 * captured before, allocates and locks nothing.  Signal safe.
 */
void ss_first_words(HRESULT hr, const char *event, const void *above);

/* Fill FACTS for an error known only by these words; returns the event. */
const char *ss_first_words_facts(ss_facts *facts);

#endif
