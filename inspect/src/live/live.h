/*
 * A living process: find what is mapped, stop it, read its registers and stacks, let it go.
 */
#ifndef SSI_LIVE_H
#define SSI_LIVE_H

#include "target/target.h"

/* Write why PROCESS cannot be read, with the next step, to OUT; ERROR is that of the kernel. */
void ssi_explain_refusal(int process, int error, char *out, size_t size);

/* Fill the mappings and the name of TARGET; 0 or an errno. */
int ssi_live_maps(ssi_target *target);

/* Whether PROCESS still runs the program of which ssi_live_maps told. */
bool ssi_live_is_same(const ssi_target *target);

/*
 * Stop all threads of TARGET and read their registers and names; a thread that cannot be stopped
 * says why.  0, or an errno when no thread can be traced.  ssi_live_release lets them go again and
 * measures how long they were stopped.  A tracer that dies lets them go, too.
 */
int ssi_live_stop(ssi_target *target);
void ssi_live_release(ssi_target *target);
/* Set who the process is, by the number under which the kernel shows it: while it is stopped, for
   it can begin a program that is another user's. */
void ssi_live_read_user(ssi_target *target, int number);
/* What ssi_pages_new needs to read the process of TARGET. */
size_t ssi_live_fetch(void *target, uint64_t address, void *out, size_t size);

#endif
