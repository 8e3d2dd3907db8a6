/*
 * Which file a mapping of this process is of.
 */
#ifndef SS_MAPPED_PATH_H
#define SS_MAPPED_PATH_H

#include "base/platform.h"

/* The file that is mapped at ADDRESS into PATH (room for SS_BINARY_PATH_MAX); empty: none, or
   unknown.  Neither allocates nor locks; may be called in a signal handler. */
void ss_mapped_path(uintptr_t address, char *path);

#endif
