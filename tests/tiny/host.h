/* Interpreters of tiny whose memory is counted and can fail, and what tests of its binding share.
 */
#ifndef TINY_HOST_H
#define TINY_HOST_H

#include <stdbool.h>

#include <stacksplice/tiny.h>

#include "calls.h"
#include "frames.h"
#include "support.h"

typedef struct host {
    tiny *t;
    int blocks, left; /* allocations until one fails, once; negative: none */
    char text[2000];  /* what the test wants to keep */
} host;

extern int binding_left; /* the same for the binding itself */

host *open_host(const char *source);
void close_host(host *h); /* all memory has to be back */

/* Calls the function NAME. */
HRESULT run(host *h, const char *name);

IRestrictedErrorInfo *take_error(void);
void check_slot_is_empty(void);

/* "function:line " of scripts, "name " of the native functions at_..., "[reason] " of gaps. */
void write_frames(char *out, const uintptr_t *frames, uint32_t count);
void write_error_stack(char *out, void *error);

/* Functions that scripts call.  Those named at_... are seen in stacks. */
#define EXPORTED NOINLINE __attribute__((visibility("default")))
EXPORTED tiny_native at_capture; /* the stack is written to DATA */
EXPORTED tiny_native at_other;   /* runs main of the host DATA, whose error is thrown here */
tiny_native made;                /* its argument goes to *DATA */
tiny_native raise_native;        /* throws DATA, an error for E_BOUNDS */

#endif
