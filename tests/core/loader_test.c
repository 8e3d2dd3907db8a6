/*
 * Looking at the loader's list while another thread forks: a fork may wait for the very thread that
 * wants to look, and goes on before that does.
 */
#include "base/loader.h"
#include "forks.h"
#include "support.h"
#include "waiting_fork.h"

static int answer;

static int stop(struct dl_phdr_info *info, size_t size, void *data)
{
    return 1;
}

static void *look_when_wanted(void *unused)
{
    while (sem_wait(&forking) != 0)
        ;
    answer = ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL);
    sem_post(&enough);
    return unused;
}

TEST(test_a_fork_may_wait_for_who_looks)
{
    pthread_t thread;
    pid_t child;

    begin_waiting_forks();
    thread = thread_start(look_when_wanted, NULL);
    child = fork();
    forks_wait = false;
    if (child == 0)
        _exit(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL) == 1 ? 0 : 1);
    child_check(child);
    (void)thread_end(thread);
    assert_int_equal(answer, SS_LOADER_REFUSED);
    assert_int_equal(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL), 1);
    stop_waiting_forks();
}
