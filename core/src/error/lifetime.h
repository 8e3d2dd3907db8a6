/*
 * The two counts of an error (see stacksplice/script.h).
 *
 * The outside count holds one inside reference while it is above 0; the memory goes when the inside
 * count is 0.  Going from 0 to 1 wakes what the error holds, going to 0 lets it sleep.  Both steps
 * take the registry's lock, so that a node added at that moment is woken exactly once; what they
 * hold is called after it, so the calls of two threads may cross, but they always balance.
 */
#ifndef SS_LIFETIME_H
#define SS_LIFETIME_H

#include "error/record.h"

ULONG ss_error_add_ref(ss_error *error);
ULONG ss_error_release(ss_error *error);
void ss_error_add_inside(ss_error *error);
void ss_error_release_inside(ss_error *error);

/* Free NODE, which sleeps, and all older ones. */
void ss_nodes_free(ss_node *node);

#endif
