/* Demangles C++ names with the C++ run-time of the process, if it has one: the core brings none. */
#ifndef SS_DEMANGLE_H
#define SS_DEMANGLE_H

#include "base/platform.h"

/* __cxa_demangle: the readable form of NAME in a block from malloc, or NULL. */
typedef char *(*ss_demangler)(const char *name, char *buffer, size_t *length, int *status);

/* NULL where no C++ run-time is loaded.  Takes the loader's lock. */
ss_demangler ss_demangler_find(void);

/* The same; loads a C++ run-time where none is loaded. */
ss_demangler ss_demangler_load(void);

#endif
