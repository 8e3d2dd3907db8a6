/*
 * usage: torture [SECONDS] [drop|swap|line]
 *
 * The second argument falsifies one stack, which must be found: a test of this test.
 */
#include "torture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8 };

_Thread_local worker *self;
atomic_bool stopping;

static worker workers[THREADS];
static bool with_python;

static void *work(void *data)
{
    worker *w = data;

    self = w;
    lua_begin(w);
    if (with_python)
        python_begin(w);
    while (!stopping)
        path_run(w, with_python);
    if (with_python)
        python_end(w);
    lua_end(w);
    journal_end();
    self = NULL;
    return NULL;
}

static void run(unsigned seconds, uint64_t seed)
{
    pthread_t threads[THREADS], overflowing;
    struct timespec end;
    char folder[] = "/tmp/stacksplice-torture-XXXXXX";

    if (!mkdtemp(folder))
        stop("no folder for libraries");
    library_begin(folder, THREADS);
    signal_begin();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i + 1;
        workers[i].random = seed + i * UINT64_C(0x9e3779b97f4a7c15) + 1;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            stop("no thread");
    }
    if (pthread_create(&overflowing, NULL, overflow_run, NULL) != 0)
        stop("no thread");
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue; /* signals come here, too */
    stopping = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(overflowing, NULL);
    library_end();
    (void)rmdir(folder);
}

static void tell(void)
{
    worker sum = {0};
    uint64_t inside, signals = signal_end(&inside);

    for (unsigned i = 0; i < THREADS; i++) {
        sum.checks += workers[i].checks;
        sum.calls += workers[i].calls;
        sum.libraries += workers[i].libraries;
        sum.fibers += workers[i].fibers;
        sum.errors += workers[i].errors;
        sum.forks += workers[i].forks;
        sum.out_of_memory += workers[i].out_of_memory;
    }
    printf("%llu stacks right in %d threads, %llu calls, %llu libraries, %llu fibers, %llu script "
           "stacks overflowed, %llu native ones, %llu forks, %llu signals (%llu inside of a "
           "capture), %llu times out of memory%s\n",
           (unsigned long long)sum.checks, THREADS, (unsigned long long)sum.calls,
           (unsigned long long)sum.libraries, (unsigned long long)sum.fibers,
           (unsigned long long)sum.errors, (unsigned long long)overflow_count(),
           (unsigned long long)sum.forks, (unsigned long long)signals, (unsigned long long)inside,
           (unsigned long long)sum.out_of_memory, with_python ? "" : "; built without Python");
    (void)fflush(stdout);
    if (!sum.checks || !sum.libraries || !sum.fibers || !overflow_count())
        stop("something was not tried");
}

int main(int count, char **arguments)
{
    const char *wish = getenv("STACKSPLICE_TORTURE_SECONDS"), *seed = getenv("TORTURE_SEED");
    unsigned seconds = (unsigned)atoi(count > 1 ? arguments[1] : wish ? wish : "20");
    uint64_t first = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);

    memory_begin();
    if (stacksplice_set_max_frames(MAX_FRAMES) != 0)
        stop("the length of stacks could not be set");
    with_python = python_initialize();
    journal_begin(count > 2 ? arguments[2] : NULL);
    printf("%u seconds, TORTURE_SEED=%llu\n", seconds, (unsigned long long)first);
    (void)fflush(stdout);
    run(seconds, first);
    tell();
    if (with_python)
        python_finalize();
    return 0;
}
