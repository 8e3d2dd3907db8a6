/*
 * A thousand threads that live at once, each 30 calls deep and capturing once: what the first
 * capture of a thread costs, and what a thread keeps.
 *
 *   bench-many-threads time|memory METHOD    nanoseconds, or bytes, a thread
 */
#include "bench.h"
#include "chain.h"
#include "peers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 1000, DEPTH = 30, STACK = 256 << 10 };

static const bench_method *method;
static pthread_barrier_t ready, captured, over;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint64_t spent;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

/* Bytes of memory in use by the process. */
static size_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, pages = 0;

    if (!file || fscanf(file, "%lu %lu", &all, &pages) != 2)
        give_up("/proc/self/statm cannot be read");
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* One after the other: the time is that of a capture, not that of waiting for a processor. */
static void capture_here(void *data)
{
    uint64_t begin;

    (void)data;
    (void)pthread_barrier_wait(&ready);
    (void)pthread_mutex_lock(&turn);
    begin = bench_now();
    method->run(method->data);
    spent += bench_now() - begin;
    (void)pthread_mutex_unlock(&turn);
    (void)pthread_barrier_wait(&captured);
    (void)pthread_barrier_wait(&over);
}

static void *thread(void *data)
{
    (void)chain_call(DEPTH, 0, capture_here, data);
    return NULL;
}

static void start_threads(pthread_t *threads)
{
    pthread_attr_t attributes;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &attributes, thread, NULL))
            give_up("a thread cannot be started");
    (void)pthread_attr_destroy(&attributes);
}

static const bench_method *find_method(const char *name)
{
    static bench_method methods[16];
    size_t count = peers_fill(methods);

    for (size_t m = 0; m < count; m++)
        if (!strcmp(methods[m].name, name)) {
            if (methods[m].unavailable)
                give_up(methods[m].unavailable);
            return &methods[m];
        }
    give_up("no such method");
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS];
    size_t before;

    if (argc != 3)
        return 2;
    method = find_method(argv[2]);
    (void)pthread_barrier_init(&ready, NULL, THREADS + 1);
    (void)pthread_barrier_init(&captured, NULL, THREADS + 1);
    (void)pthread_barrier_init(&over, NULL, THREADS + 1);
    start_threads(threads);
    (void)usleep(100000); /* until most of them stand at the barrier, their stacks in use */
    before = resident();
    (void)pthread_barrier_wait(&ready);
    (void)pthread_barrier_wait(&captured);
    if (!strcmp(argv[1], "memory"))
        printf("%zu\n", (resident() - before) / THREADS);
    else
        printf("%llu\n", (unsigned long long)(spent / THREADS));
    (void)pthread_barrier_wait(&over);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}
