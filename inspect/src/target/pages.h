/* Copies of a process's pages, each of which is asked for once. */
#ifndef SSI_PAGES_H
#define SSI_PAGES_H

#include "target/target.h"

typedef struct ssi_pages ssi_pages;

/* Puts bytes from ADDRESS on to OUT; how many of SIZE there were, 0 if none can be read. */
typedef size_t (*ssi_pages_fetch)(void *data, uint64_t address, void *out, size_t size);

/* NULL without memory.  DATA is for FETCH. */
ssi_pages *ssi_pages_new(ssi_pages_fetch fetch, void *data);
void ssi_pages_free(ssi_pages *pages);
/* Read all of [START, END) in few calls; what cannot be read is left out. */
void ssi_pages_take(ssi_pages *pages, uint64_t start, uint64_t end);
/* Copy what each thread of TARGET uses of its stack. */
void ssi_pages_take_stacks(ssi_pages *pages, const ssi_target *target);
/* What was read so far may have changed: it is read again. */
void ssi_pages_forget(ssi_pages *pages);
/* From now on only pages that were read before are readable: the process runs again. */
void ssi_pages_freeze(ssi_pages *pages);
ssi_memory ssi_pages_memory(ssi_pages *pages);

#endif
