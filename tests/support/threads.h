/* Threads and children of a cmocka test; whatever goes wrong with one fails the test. */
#ifndef STACKSPLICE_TEST_THREADS_H
#define STACKSPLICE_TEST_THREADS_H

#include "support.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static inline pthread_t thread_start(void *(*function)(void *), void *data)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, function, data), 0);
    return thread;
}

/* Wait for its end; what its function returned. */
static inline void *thread_end(pthread_t thread)
{
    void *result;

    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static inline void *thread_run(void *(*function)(void *), void *data)
{
    return thread_end(thread_start(function, data));
}

/* The same with a stack of SIZE bytes: at LOW, or NULL for any. */
static inline void *thread_run_on(void *low, size_t size, void *(*function)(void *), void *data)
{
    pthread_attr_t attributes;
    pthread_t thread;

    assert_int_equal(pthread_attr_init(&attributes), 0);
    if (low)
        assert_int_equal(pthread_attr_setstack(&attributes, low, size), 0);
    else
        assert_int_equal(pthread_attr_setstacksize(&attributes, size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, function, data), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
    return thread_end(thread);
}

/* Wait for CHILD, what fork returned to its parent; the status of waitpid. */
static inline int child_status(pid_t child)
{
    int status = 0;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* It must end with _exit(0). */
static inline void child_check(pid_t child)
{
    assert_int_equal(child_status(child), 0);
}

/* The same, but the test is skipped if the child ended with _exit(CHILD_SKIPS), which says WHY. */
enum { CHILD_SKIPS = 77 };
static inline void child_check_unless(pid_t child, const char *why)
{
    int status = child_status(child);

    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        SKIP(why);
    assert_int_equal(status, 0);
}
#define NO_LIMITS "nothing holds this process to its limit of address space"

/*
 * The end of a child.  By another program, so that leak checkers do not look at the memory of
 * threads that the child does not have.
 */
static inline void child_end(bool good)
{
    if (good)
        execlp("true", "true", (char *)NULL);
    _exit(1);
}

#endif
