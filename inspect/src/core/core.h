/*
 * A core file: its notes and segments as a target.  It may be cut, damaged, or from another
 * machine.
 */
#ifndef SSI_CORE_H
#define SSI_CORE_H

#include "target/frame.h"
#include "target/target.h"

typedef struct ssi_core ssi_core;

/* Fill TARGET from the core file PATH, and note what it lacks.  NULL: *WHY says why it cannot be
   read, with the next step.  EXECUTABLE, or NULL, is the program's file if that is not where it
   was. */
ssi_core *ssi_core_open(const char *path, const char *executable, ssi_target *target,
                        ssi_scripts *scripts, const char **why);
void ssi_core_free(ssi_core *core);

#endif
