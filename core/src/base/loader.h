/*
 * dl_iterate_phdr that a forked child survives.
 *
 * glibc (2.36 at least) resets most of the loader's locks in a child, but not the one of
 * dl_iterate_phdr.  If another thread was inside it during the fork, the child's next call never
 * returns.  Our calls never overlap a fork.
 */
#ifndef SS_LOADER_H
#define SS_LOADER_H

#include "base/platform.h"

#include <link.h>

#define SS_LOADER_REFUSED (-1)

/* How many milliseconds to wait for another thread's fork. */
typedef enum ss_loader_patience {
    SS_LOADER_BRIEFLY = 50, /* in captures: a signal handler may have interrupted a thread that the
                               fork waits for */
    SS_LOADER_LONG = 10000  /* elsewhere: forks of large processes take long */
} ss_loader_patience;

/*
 * Same contract as dl_iterate_phdr; BACK returns no negative value.  Returns SS_LOADER_REFUSED,
 * without calling BACK, when another thread's fork makes no progress.  Several threads can iterate
 * at once.
 */
int ss_loader_iterate(ss_loader_patience patience,
                      int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data);

#endif
