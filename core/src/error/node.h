/* Propagation: the languages and threads that received an error after its origin. */
#ifndef SS_NODE_H
#define SS_NODE_H

#include "error/record.h"

/* What a node is made of.  All is borrowed. */
typedef struct ss_arrival {
    IUnknown *language_exception; /* the receiver's, or NULL */
    const char *receiver;         /* the language; NULL: that of the exception, or "native" */
    const void *above;            /* SS_HERE() of the public function */
} ss_arrival;

/* Add a node with the stack of this thread to ERROR; S_OK also when there are too many. */
HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival);

#endif
