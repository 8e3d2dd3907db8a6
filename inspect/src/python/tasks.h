/*
 * The tasks of asyncio in a target: the frames of their coroutines, and who awaits whom.
 *
 * From 3.14 on the module _asyncio has a table of its offsets, unfinished tasks hang in lists, and a
 * future has those who await it.  Before, asyncio.tasks has a set of all tasks, and who awaits a
 * future is known by its callbacks: a task hangs its wake-up on the future that it waits for, and
 * gather, wait and the others hang a function there that knows the future or task behind it.  Only
 * asyncio's own callbacks are believed.
 */
#ifndef SSI_PYTHON_TASKS_H
#define SSI_PYTHON_TASKS_H

#include "base/base.h"
#include "python/frames.h"
#include "target/frame.h"

/* Offsets in bytes, of a task or future if nothing else is said. */
typedef struct ssi_task_layout {
    uint32_t state, coroutine, name; /* without a name: not known */
    uint32_t waiter;                 /* before 3.14: the future that it waits for */
    uint32_t awaited_by, awaited_by_is_set, node;
    uint32_t thread_tasks, interpreter_tasks; /* the heads of lists */
} ssi_task_layout;

/* Fill LAYOUT for the CPython of PYTHON, whose interpreters have SIZE bytes; TABLES has the addresses
   of COUNT tables of _asyncio, of which one may be its. */
void ssi_task_layout_find(ssi_task_layout *layout, const sspy_layout *python, uint64_t size,
                          const uint64_t *tables, size_t count);

/* While the interpreters of one Python are read.  All zero but the first three is a valid start. */
typedef struct ssi_tasks {
    ssi_python_frames *frames;
    const ssi_task_layout *layout;
    const ssi_map *modules; /* the dicts of asyncio.tasks, by interpreter */
    int64_t interpreter;    /* its number */
    size_t first;           /* of its tasks */
    ssi_map running; /* frames of coroutines on stacks, with threads; the innermost are smallest */
    ssi_map numbers; /* of tasks, by address */
    ssi_map stacks;  /* the first task that has a stack, by a number made of it */
    size_t foreign;  /* tasks of classes that are not asyncio's */
    bool is_cut;     /* there are more */
    size_t awaited;  /* the task whose awaiting tasks are searched */
    uint64_t *futures; /* owned; through which they may await it */
    size_t future_count, future_room;
} ssi_tasks;

/* The frame SEEN is on the stack of THREAD, inside of those that were seen later. */
void ssi_tasks_see(ssi_tasks *tasks, const ssi_seen_frame *seen, int thread);
/* Add those in the list of the thread state at THREAD. */
void ssi_tasks_collect(ssi_tasks *tasks, uint64_t thread);
/* Add the other tasks of the interpreter at ADDRESS, and read all of its, when its threads are read. */
void ssi_tasks_read(ssi_tasks *tasks, uint64_t address);
void ssi_tasks_free(ssi_tasks *tasks);

/* The innermost task that THREAD runs, or NULL. */
const ssi_task *ssi_task_of(const ssi_scripts *scripts, int thread);
/* Add to the stack of THREAD those who await the task that it runs, as reports have them. */
void ssi_tasks_put_awaiting(const ssi_scripts *scripts, int thread, ssi_frames *stack);

#endif
