/* The stowed-exception records of a process that fails fast; static storage, see stowed.h. */
#ifndef SS_STOWED_H
#define SS_STOWED_H

#include "report/facts.h"

/* Fill the public array from the error in FACTS, whose memory lives as long as the process. */
void ss_stow(const ss_facts *facts);

#endif
