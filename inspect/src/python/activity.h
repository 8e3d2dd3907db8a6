/* What an interpreter of a target does: who holds its lock, and whether it collects garbage. */
#ifndef SSI_PYTHON_ACTIVITY_H
#define SSI_PYTHON_ACTIVITY_H

#include "python/layout.h"
#include "target/frame.h"

typedef struct ssi_python_activity {
    uint64_t interpreter; /* its address */
    int64_t number;
    uint64_t lock;                /* address of its GIL; 0: not known */
    uint64_t holder;              /* the thread state that has it, or 0 */
    bool collects;                /* garbage */
    uint64_t frame;               /* that began it; 0: not known */
    size_t collectors, collector; /* how many threads can be the one that does, and the last */
} ssi_python_activity;

/* Read what the interpreter says, whose address is there already. */
void ssi_python_activity_read(ssi_python_activity *activity, const ssi_memory *memory,
                              const ssi_python_layout *layout, uint64_t runtime);
/* Add its thread whose state is at ADDRESS, and in which that frame is if it BEGAN
   the collection. */
void ssi_python_attach(ssi_python_activity *activity, ssi_scripts *scripts, uint64_t address,
                       int thread, const char *name, bool began);
/* After all of its threads: mark the one that collects garbage, if that is certain. */
void ssi_python_mark_collector(ssi_scripts *scripts, const ssi_python_activity *activity);

#endif
