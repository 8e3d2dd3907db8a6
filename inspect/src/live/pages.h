/* The pages of a living process that were read while it was stopped. */
#ifndef SSI_PAGES_H
#define SSI_PAGES_H

#include "base/memory.h"

typedef struct ssi_pages ssi_pages;

/* NULL without memory. */
ssi_pages *ssi_pages_new(int process);
void ssi_pages_free(ssi_pages *pages);
/* Read all of [START, END) in few calls; what cannot be read is left out. */
void ssi_pages_take(ssi_pages *pages, uint64_t start, uint64_t end);
/* From now on only pages that were read before are readable: the process runs again. */
void ssi_pages_freeze(ssi_pages *pages);
ssi_memory ssi_pages_memory(ssi_pages *pages);

#endif
