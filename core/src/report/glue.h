/*
 * Which native frames are glue: the inside of an interpreter and the calls into it, which say
 * nothing to someone who reads a report.  Only reports hide them; a stack keeps all it found.
 */
#ifndef SS_GLUE_H
#define SS_GLUE_H

#include "resolve/resolve.h"
#include <stacksplice/source.h>

bool ss_glue_is(const ss_frame *frame);

#endif
