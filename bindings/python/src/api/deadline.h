/*
 * Deadlines of Python's blocks: the type (deadline.c), the exception (deadline_exceeded.c), and how
 * it is raised in the thread that is late (strike.c), if that runs the block (deadline_frames.c).
 */
#ifndef SSPY_DEADLINE_H
#define SSPY_DEADLINE_H

#include "life/life.h"

#include <stacksplice/deadline.h>

/*
 * A block whose deadline interrupts it.  It has two owners: the object, and the thread that
 * strikes. The objects of Python are gone once the block has ended.
 */
typedef struct sspy_block {
    atomic_uint refs;         /* (ATOMIC) */
    atomic_bool ended;        /* (ATOMIC) set with the lock held */
    atomic_int striker;       /* (ATOMIC) the process in which a thread strikes, 0: none does */
    sspy_interp *interp;      /* (RO) counted */
    struct sspy_block *outer; /* (GIL) the one that began before, of any thread */
    PyFrameObject *frame;     /* (GIL) counted, as are the next two; the one that it is around */
    PyObject *exception;      /* (GIL) the class */
    PyObject *text;           /* (GIL) its argument */
    uint64_t thread;          /* (RO) the identity of the thread state that began it */
    unsigned long struck;     /* (GIL) the thread in which the exception is to be raised, 0: none */
    stacksplice_deadline deadline; /* (GIL) */
} sspy_block;

/* The frame for which a block is entered now, or NULL.  Those that have only entered it are left
   out: one that is suspended, or was, does not know who ran it. */
PyFrameObject *sspy_entering_frame(void);

/* The thread that runs the block, or NULL.  If every frame around its begin has returned, then it
   is the thread that began it. */
PyThreadState *sspy_running_thread(const sspy_block *block);

/* A new block of the frame that calls; NULL with an exception. */
sspy_block *sspy_block_begin(PyObject *exception, PyObject *text);

/* What stacksplice_deadline_options wants, with the block as its data: raises the exception there.
 */
void sspy_block_missed(const char *report_file, void *block);

/* After the end of its deadline: no exception comes any more. */
void sspy_block_end(sspy_block *block);

#endif
