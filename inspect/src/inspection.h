/*
 * One target's threads, interpreters and errors, from what is found in its binaries to the document
 * on standard output.
 */
#ifndef SSI_INSPECTION_H
#define SSI_INSPECTION_H

#include "errors/errors.h"
#include "lua/lua.h"
#include "python/python.h"
#include "served/served.h"

/* All zero is a valid start. */
typedef struct ssi_inspection {
    ssi_pythons pythons;
    ssi_luas luas;
    ssi_scripts scripts;
    ssi_blocks blocks;
    ssi_errors errors;
    bool has_token; /* only the element TOKEN of a stack is asked for */
    uint64_t token;
    ssi_frame named;
    ssi_served served; /* by a debugger */
} ssi_inspection;

/* Find the interpreters and stacksplice itself by what binaries say; it takes time. */
void ssi_inspection_find(ssi_inspection *i, const ssi_target *target);
/* Whether any thread's stack is needed, by what was found. */
bool ssi_inspection_wants_stacks(const ssi_inspection *i);
/* Read what they run.  The target may not run meanwhile. */
void ssi_inspection_read(ssi_inspection *i, const ssi_target *target);
/* Unwind and write all that was read, or only the asked element of a stack; false if standard
   output takes no more. */
bool ssi_inspection_write(ssi_inspection *i, const ssi_target *target);
void ssi_inspection_free(ssi_inspection *i);

#endif
