/*
 * Finds living errors by their reference string, without keeping them alive; and the one lock of
 * this layer.  No call is made under the lock, so it is a leaf; fork takes it.
 */
#ifndef SS_REGISTRY_H
#define SS_REGISTRY_H

#include "error/record.h"
#include "error/view.h"

void ss_registry_lock(void);
void ss_registry_unlock(void);

/* Assign ERROR the number that its reference is made from, and enter it. */
void ss_registry_add(ss_error *error);
void ss_registry_remove(ss_error *error);

/* ERROR's reference, with a NUL. */
void ss_registry_reference(const ss_error *error, WCHAR out[SS_REFERENCE_UNITS]);

/*
 * The error with REFERENCE and an outside count above 0, with a new reference; or NULL.  Returns
 * STATIC_ERROR for the reference of an error without a number.
 */
ss_error *ss_registry_find(const WCHAR *reference, ss_error *static_error);

#endif
