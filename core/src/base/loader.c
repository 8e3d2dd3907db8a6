#include "base/loader.h"

#include <pthread.h>

/* Readers iterate; fork writes.  Readers come first, so that one may iterate inside another. */
static pthread_rwlock_t forking = PTHREAD_RWLOCK_INITIALIZER;

static void before_fork(void)
{
    pthread_rwlock_wrlock(&forking);
}

static void after_fork_in_parent(void)
{
    pthread_rwlock_unlock(&forking);
}

/* The lock names its owner by a thread id, which the child's only thread has not kept. */
static void after_fork_in_child(void)
{
    pthread_rwlock_init(&forking, NULL);
}

/*
 * Before other constructors: handlers run in reverse order, and a thread that holds a lock of
 * another part of the core may iterate.
 */
__attribute__((constructor(101))) static void guard_fork(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int ss_loader_iterate(int (*back)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int result;

    pthread_rwlock_rdlock(&forking);
    result = dl_iterate_phdr(back, data);
    pthread_rwlock_unlock(&forking);
    return result;
}
