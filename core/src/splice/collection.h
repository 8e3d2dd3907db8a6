/* Collects the sources' splices for one walk. */
#ifndef SS_COLLECTION_H
#define SS_COLLECTION_H

#include "splice/scratch.h"

/* Sources receive a pointer to the first member. */
typedef struct ss_collection {
    stacksplice_walk walk;
    ss_scratch *scratch;
    ss_recording *recording; /* NULL: this capture is not recorded */
    uintptr_t behind;        /* as the sink's */
    uint32_t first_splice;   /* first splice of the source that is collecting */
    uintptr_t end_token;     /* why a source ended the walk; 0: none did */
    bool may_end;            /* the source that is collecting may end the walk */
    bool no_memory;
    bool out_of_order; /* a source broke the rule of stacksplice_walk_splice */
} ss_collection;

/* Ask the first SOURCES sources; the scratch then holds their splices. */
void ss_collect(ss_collection *c, uint32_t sources);

#endif
