/*
 * dl_iterate_phdr that a forked child and a signal handler survive.
 *
 * glibc (2.36 at least) resets most of the loader's locks in a child, but not the one of
 * dl_iterate_phdr.  If another thread held it during the fork, the child's next call never returns.
 * Our calls never overlap a fork, and a child of a fork that overlapped another thread's dlopen or
 * dlclose makes none.
 *
 * dlclose frees memory under that lock.  If a signal handler interrupted the allocator, it would
 * wait for a thread that waits for it.  So captures ask nothing while a library is being unloaded.
 * A thread can still begin to unload in the few instructions between that question and the lock.
 */
#ifndef SS_LOADER_H
#define SS_LOADER_H

#include "base/platform.h"

#include <link.h>

#define SS_LOADER_REFUSED (-1)

/* How many milliseconds to wait for another thread's fork, and in captures for its dlclose. */
typedef enum ss_loader_patience {
    SS_LOADER_BRIEFLY = 50, /* in captures: a signal handler may have interrupted a thread that the
                               other one waits for */
    SS_LOADER_LONG = 10000  /* elsewhere: forks of large processes take long */
} ss_loader_patience;

/*
 * Same contract as dl_iterate_phdr; BACK returns no negative value.  Returns SS_LOADER_REFUSED,
 * without calling BACK, when the other thread makes no progress or the lock may be lost.  Several
 * threads can iterate at once.
 */
int ss_loader_iterate(ss_loader_patience patience,
                      int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data);

#endif
