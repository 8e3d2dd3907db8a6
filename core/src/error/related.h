/* The error that an error was made from, the length of that chain, and its notes. */
#ifndef SS_RELATED_H
#define SS_RELATED_H

#include "error/error.h"

typedef struct ss_related {
    ss_held previous; /* awake, or nothing */
    stacksplice_relation relation;
    uint32_t causes_left_out;
    uint8_t depth;
} ss_related;

/* Collect them from ORIGIN's language exception. */
void ss_related_take(ss_related *related, const ss_origin *origin);

/* Release them, for an error that was not made. */
void ss_related_drop(ss_related *related);

#endif
