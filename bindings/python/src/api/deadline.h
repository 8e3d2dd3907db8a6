/*
 * Deadlines of Python's blocks: the type (deadline.c), the block (block.c), the exception
 * (deadline_exceeded.c), and how it is raised in the thread that is late (strike.c), if that runs
 * the block (deadline_frames.c).
 */
#ifndef SSPY_DEADLINE_H
#define SSPY_DEADLINE_H

#include "life/life.h"

#include <stacksplice/deadline.h>

/* A block whose deadline interrupts it. */
typedef struct sspy_block {
    sspy_interp *interp;              /* (RO) counted */
    struct sspy_block *outer, *inner; /* (GIL) those that began before and after, of any thread */
    PyFrameObject *frame;          /* (GIL) counted, as are the next two; it is around this one */
    PyObject *exception;           /* (GIL) the class */
    PyObject *text;                /* (GIL) its argument */
    uint64_t thread;               /* (RO) the identity of the thread state that began it */
    unsigned long struck;          /* (GIL) where the exception is to be raised, 0: nowhere */
    atomic_int late;               /* (ATOMIC) the process in which it is late, 0: in none */
    uint64_t next_look;            /* (GIL) the moment in which it is struck, or struck again */
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

/* A deadline that a host in C has begun: an object of MODULE, the extension; and its end, which
   takes the object. */
PyObject *sspy_deadline_begin(PyObject *module, uint32_t milliseconds, uint32_t flags,
                              const char *name);
void sspy_deadline_end(PyObject *deadline);

/* What stacksplice_deadline_options wants, with the block as its data: has the exception raised. */
void sspy_block_missed(const char *report_file, void *block);

/* After the end of its deadline: no exception comes any more. */
void sspy_block_end(sspy_block *block);

#endif
