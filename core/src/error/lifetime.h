/*
 * The two counts of an error (see stacksplice/script.h).
 *
 * While the outside count is above 0, it holds one inside reference.  The memory is freed when the
 * inside count reaches 0.  The step from 0 to 1 wakes what the error holds; the step to 0 puts it
 * to sleep.  Both steps take the registry's lock, so a node added at that moment is woken exactly
 * once.  The held objects are called after the lock is released.  So the calls of two threads may
 * cross, but they always balance.
 */
#ifndef SS_LIFETIME_H
#define SS_LIFETIME_H

#include "error/record.h"

ULONG ss_error_add_ref(ss_error *error);
ULONG ss_error_release(ss_error *error);
void ss_error_add_inside(ss_error *error);
void ss_error_release_inside(ss_error *error);

/* Free NODE, which sleeps, and all older nodes. */
void ss_nodes_free(ss_node *node);

#endif
