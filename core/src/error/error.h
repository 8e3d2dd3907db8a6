/* Making errors. */
#ifndef SS_ERROR_H
#define SS_ERROR_H

#include "error/record.h"

/* The parts of a new error, all borrowed. */
typedef struct ss_origin {
    HRESULT hr;
    const WCHAR *message; /* without NULs; NULL: the text of the HRESULT */
    uint32_t length;
    IUnknown *language_exception; /* or NULL */
    ss_error *previous;           /* the error it replaces; NULL: ask the exception for one */
    const void *above;            /* SS_HERE() of the public function */
} ss_origin;

/* A new error with one outside reference, or NULL.  Runs code of the language exception. */
ss_error *ss_error_new(const ss_origin *origin);

/* interfaces.c: set up ERROR, which is all zero, to answer COM's calls. */
void ss_error_init(ss_error *error, HRESULT hr);

/* The static error object for E_OUTOFMEMORY. */
ss_error *ss_error_out_of_memory(void);

/* ---- Node ------------------------------------------------------------------------------------*/

/* Propagation: the languages and threads that received an error after its origin. */

/* The parts of a new node, all borrowed. */
typedef struct ss_arrival {
    IUnknown *language_exception; /* the receiver's, or NULL */
    const char *receiver;         /* the language; NULL: the exception's language, or "native" */
    const void *above;            /* SS_HERE() of the public function */
} ss_arrival;

/* Add a node with this thread's stack to ERROR; S_OK also when it has too many already. */
HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival);

#endif
