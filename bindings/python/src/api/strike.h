/* How the exception of a late block is raised, and taken back. */
#ifndef SSPY_STRIKE_H
#define SSPY_STRIKE_H

#include "api/deadline.h"

/* Raise in THREAD what one of the blocks has for it: a thread has one place for exceptions, so that
   of another block may have taken it. */
void sspy_strike_again(const sspy_interp *interp, unsigned long thread);

/* BLOCK is not late any more: take its exception back. */
void sspy_strike_end(sspy_block *block);

/*
 * Wait, with the lock released, until the thread that strikes has cleared what it marked and, if no
 * block is late any more, is gone: before 3.13, whoever runs code in another interpreter takes the
 * thread state that was made last.
 */
void sspy_strike_wait(const sspy_interp *interp);

#endif
