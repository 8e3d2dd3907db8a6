/*
 * What sources see of a stack, compared with libgcc's walk of the same stack: address, stack
 * pointer, function and the callee-saved registers of every frame; and the plain list of addresses.
 */
#ifndef UNWIND_PROBE_H
#define UNWIND_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before the first comparison. */
void probe_begin(void);

/*
 * Capture here and compare; the number of frames.  A difference is counted and the first is kept.
 * Does not allocate after the first call of a thread.
 */
uint32_t probe_compare(void);

/*
 * Falsify one value of libgcc's walk in this thread's next comparison, which then must differ:
 * COLUMN is "ip", "sp", "function", "register" or "count".  False when it is none of these.
 */
bool probe_falsify(const char *column);

/*
 * From now on survive crashes of libgcc's walk, which reads what false unwind data leads it to (an
 * instruction of libcrypto's elliptic curves has such data).  A comparison that crashed counts as
 * none.  False with errno set.
 */
bool probe_survive(void);
uint32_t probe_crashes(void);

/*
 * From now on, a register that only libgcc finds is no difference behind an interrupted frame; the
 * number of those so far is returned by the second.  Unwind data is wrong at single instructions:
 * in epilogues of gcc that realign the stack, it still counts from the frame pointer when that has
 * been popped.  libgcc reads whatever memory that names, a walk of ours only the stack.
 */
void probe_expect_wrong_data(void);
uint32_t probe_unknown(void);

/* Differences of all threads so far; *FIRST says what the first was, or is NULL. */
uint32_t probe_differences(const char **first);

/* Frames compared, frames marked as interrupted by a signal, and captures, of all threads. */
uint64_t probe_frames(void);
uint64_t probe_signals(void);

#endif
