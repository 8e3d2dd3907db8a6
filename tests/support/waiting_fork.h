/*
 * A fork that waits for a thread, as one waits for the C library's allocator: after the library's
 * own handler has the fork announced.  Included by one file of a program.
 */
#ifndef STACKSPLICE_TEST_WAITING_FORK_H
#define STACKSPLICE_TEST_WAITING_FORK_H

#include "threads.h"

#include <semaphore.h>

/* Nothing here waits: who is still there after so many seconds waits for itself. */
enum { PATIENCE = 60 };

static bool handler_is_first, forks_wait;
static sem_t forking, enough; /* a fork began; it may go on */

static void wait_in_fork(void)
{
    if (!forks_wait)
        return;
    sem_post(&forking);
    while (sem_wait(&enough) != 0)
        ;
}

/* Handlers run in reverse order, so the first to be there runs last. */
static void add_fork_handler(void)
{
    handler_is_first = pthread_atfork(wait_in_fork, NULL, NULL) == 0;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first_of_all)(void) = add_fork_handler;

/* From now on, until stop_waiting_forks. */
static inline void begin_waiting_forks(void)
{
#ifndef __GLIBC__
    if (!handler_is_first)
        SKIP("musl runs nothing before the constructors of libraries");
#endif
    assert_true(handler_is_first);
    assert_int_equal(sem_init(&forking, 0, 0), 0);
    assert_int_equal(sem_init(&enough, 0, 0), 0);
    (void)alarm(PATIENCE);
    forks_wait = true;
}

static inline void stop_waiting_forks(void)
{
    forks_wait = false;
    (void)alarm(0);
}

static inline void *fork_once(void *unused)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    child_check(child);
    return unused;
}

/* A thread whose fork has begun, and waits until ENOUGH is posted. */
static inline pthread_t start_waiting_fork(void)
{
    pthread_t thread;

    begin_waiting_forks();
    thread = thread_start(fork_once, NULL);
    while (sem_wait(&forking) != 0)
        ;
    return thread;
}

#endif
