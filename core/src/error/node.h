/* Propagation: the languages and threads that received an error after its origin. */
#ifndef SS_NODE_H
#define SS_NODE_H

#include "error/record.h"

/* The parts of a new node, all borrowed. */
typedef struct ss_arrival {
    IUnknown *language_exception; /* the receiver's, or NULL */
    const char *receiver;         /* the language; NULL: the exception's language, or "native" */
    const void *above;            /* SS_HERE() of the public function */
} ss_arrival;

/* Add a node with this thread's stack to ERROR; S_OK also when it has too many already. */
HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival);

#endif
