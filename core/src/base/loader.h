/*
 * dl_iterate_phdr that a forked child survives.
 *
 * glibc (2.36 at least) gives a child most of the loader's locks back, but not the one of
 * dl_iterate_phdr: when another thread was inside it during the fork, the child's next call never
 * returns.  Calls of ours never overlap a fork.
 */
#ifndef SS_LOADER_H
#define SS_LOADER_H

#include "base/platform.h"

#include <link.h>

#define SS_LOADER_REFUSED (-1)

/* How many milliseconds a fork of another thread is waited for. */
typedef enum ss_loader_patience {
    SS_LOADER_BRIEFLY =
        50, /* in captures: a signal handler may have interrupted what a fork needs */
    SS_LOADER_LONG = 10000 /* elsewhere: forks of large processes take long */
} ss_loader_patience;

/*
 * The contract of dl_iterate_phdr, whose BACK returns no negative value; or SS_LOADER_REFUSED, with
 * BACK not called, when another thread is about to fork and does not get on with it.  Calls of
 * several threads do not wait for each other.
 */
int ss_loader_iterate(ss_loader_patience patience,
                      int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data);

#endif
