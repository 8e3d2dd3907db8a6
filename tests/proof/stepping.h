/* Comparisons at single instructions, by the processor's trap flag. */
#ifndef STEPPING_H
#define STEPPING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * In this process, from now on: each time the timer for processor time expires, this thread runs
 * COUNT instructions one by one, and compares where it has not compared yet.  0 ends that.  False
 * with errno set; ENOTSUP where the processor has no trap flag.
 */
bool stepping_begin(unsigned count);

/* Instructions so far, and how many of their addresses were compared. */
uint64_t stepping_steps(void);
uint64_t stepping_places(void);

#endif
