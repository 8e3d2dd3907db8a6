/*
 * Looking at the loader's list while another thread forks: a fork may wait for the very thread that
 * wants to look, and goes on before that does.
 */
#include "base/loader.h"
#include "forks.h"
#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nothing here waits: who is still there after so many seconds waits for itself. */
enum { PATIENCE = 60 };

static bool registered, waits;
static sem_t wanted, done;
static int answer;

static int stop(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    (void)data;
    return 1;
}

static void *look_when_wanted(void *unused)
{
    while (sem_wait(&wanted) != 0)
        ;
    answer = ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL);
    sem_post(&done);
    return unused;
}

/* As the C library does for the locks of its allocator: after the library's own handler. */
static void wait_for_the_other(void)
{
    if (!waits)
        return;
    sem_post(&wanted);
    while (sem_wait(&done) != 0)
        ;
}

/* Handlers run in reverse order, so the first to be there runs last. */
static void register_first(void)
{
    registered = pthread_atfork(wait_for_the_other, NULL, NULL) == 0;
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = register_first;

TEST(test_a_fork_may_wait_for_who_looks)
{
    int status = 0;
    pthread_t thread;
    pid_t child;

#ifndef __GLIBC__
    if (!registered)
        skip(); /* musl runs nothing before the constructors of libraries */
#endif
    assert_true(registered);
    assert_int_equal(sem_init(&wanted, 0, 0), 0);
    assert_int_equal(sem_init(&done, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_when_wanted, NULL), 0);
    alarm(PATIENCE);
    waits = true;
    child = fork();
    waits = false;
    assert_true(child >= 0);
    if (child == 0)
        _exit(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL) == 1 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(answer, SS_LOADER_REFUSED);
    assert_int_equal(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL), 1);
    alarm(0);
}
