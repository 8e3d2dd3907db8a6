#ifndef SSI_SERVED_H
#define SSI_SERVED_H

#include "base/base.h"
#include "target/frame.h"
#include "target/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A target that a debugger serves: it sends threads, registers and mappings, then answers reads.
 * So the program needs no rights of its own, and a process of gdbserver or of a recording is read
 * as one of this machine.
 */

typedef struct ssi_served {
    const ssi_target *target; /* NULL: no debugger asks */
    int thread;               /* whose stack alone is wanted; 0: of all */
    bool errors;              /* errors are wanted, and no stacks of threads */
    bool scripts;             /* only the stacks of threads in which scripts may run are wanted */
} ssi_served;

/* Fill SERVED and TARGET from what the debugger sends; NULL, or why that cannot be. */
const char *ssi_served_read(ssi_served *served, ssi_target *target);

/* What ssi_pages_new needs to read memory. */
size_t ssi_served_fetch(void *unused, uint64_t address, void *out, size_t size);

/* Open the core's library, which says what is glue and how a line looks; NULL, or why it cannot. */
const char *ssi_served_load(void);
/* Name the native frames of STACK, among them inlined functions, say which are glue, and write the
   line of text of each. */
void ssi_served_describe(const ssi_served *served, ssi_frames *stack);
/* Write the member "folds": of each row of STACK that brief reports count in one line where it begins and ends, and
   whose frames these are.  Nothing if no debugger asks. */
void ssi_served_write_folds(const ssi_served *served, const ssi_frames *stack, ssi_written *to);
/* The report of the error with that JSON as text, which the caller frees; NULL without memory. */
char *ssi_served_text_of(const char *json, size_t size);

#endif
