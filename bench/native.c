/*
 * Native captures against their peers, on chains of C calls.
 *
 *   bench-native [--quick] [--rows=TEXT]   the rows, as JSON lines
 *   bench-native --first METHOD|resolve    the first use in this process: nanoseconds, one number
 */
#include "bench.h"
#include "chain.h"
#include "peers.h"
#include "calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stacksplice/stacksplice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bench_method methods[16];

/* ---- One stack, of several depths -------------------------------------------------------------*/

typedef struct depth_row {
    const char *row;
    unsigned depth;
    bool framed;
} depth_row;

static NOINLINE void measure_here(void *data)
{
    const depth_row *r = data;
    peer_stack_check check = {.leaf = __builtin_return_address(0), .least = r->depth};
    size_t count = peers_fill(methods);
    unsigned frames = peers_check(methods, count, &check);

    bench_row(r->row, methods, count, frames);
    AFTER();
}

static void depths(void)
{
    static const unsigned all[] = {10, 30, 100, 500};
    char row[80];

    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        depth_row r = {.row = row, .depth = all[i / 2], .framed = i % 2};

        (void)snprintf(row, sizeof row, "native, depth %u%s", r.depth,
                       r.framed ? ", frame pointers kept" : "");
        peer_set_frame_pointer_end(r.framed ? __builtin_frame_address(0) : NULL);
        (void)(r.framed ? chain_call_framed : chain_call)(r.depth, 0, measure_here, &r);
    }
    peer_set_frame_pointer_end(NULL);
}

/* ---- Many stacks ------------------------------------------------------------------------------*/

typedef struct many_row {
    uint32_t stacks; /* that are made again and again; 0: every one is new */
    uint32_t next;
    const void *leaf;
    size_t count;
    unsigned frames;
} many_row;

static NOINLINE void visit_here(void *data)
{
    many_row *r = data;

    r->leaf = __builtin_return_address(0);
    bench_visit();
    AFTER();
}

static void check_here(void *data)
{
    many_row *r = data;
    peer_stack_check check = {.leaf = r->leaf, .least = 40};

    r->frames = peers_check(methods, r->count, &check);
}

static void visit_stacks(void *data, unsigned number)
{
    many_row *r = data;

    for (uint32_t i = 0; i < (r->stacks ? r->stacks : 50); i++)
        (void)chain_call(40, r->stacks ? i : r->next++, visit_here, r);
}

static void many(void)
{
    static const uint32_t all[] = {6, 100, 1000, 0};
    char row[80];

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        many_row r = {.stacks = all[i], .next = 1000000, .count = peers_fill(methods)};

        if (r.stacks)
            (void)snprintf(row, sizeof row, "native, %u C stacks", r.stacks);
        else
            (void)snprintf(row, sizeof row, "native, ever-new C stacks");
        bench_visit_row(row, methods, r.count, &r.frames, visit_stacks, &r, check_here);
    }
}

/* ---- The first capture ------------------------------------------------------------------------*/

typedef struct first_use {
    const bench_method *method;
    uint64_t ns;
} first_use;

static NOINLINE void first_here(void *data)
{
    first_use *f = data;
    uint64_t begin = bench_now();

    f->method->run(f->method->data);
    f->ns = bench_now() - begin;
    AFTER();
}

static void *first_in_thread(void *data)
{
    (void)chain_call(30, 0, first_here, data);
    return NULL;
}

static void threads(void)
{
    const char *row = "first capture in a thread, depth 30";
    size_t count = peers_fill(methods);
    unsigned repeats = bench_repeats(200);
    double *values = calloc(count * repeats, sizeof *values);

    if (!bench_wants(row) || bench_counts() || !values) {
        free(values);
        return;
    }
    for (size_t i = 0; i < count * repeats; i++) {
        first_use f = {.method = &methods[i % count]};
        pthread_t thread;

        if (f.method->unavailable || pthread_create(&thread, NULL, first_in_thread, &f))
            continue;
        (void)pthread_join(thread, NULL);
        values[i % count * repeats + i / count] = (double)f.ns;
    }
    for (size_t m = 0; m < count; m++) {
        if (methods[m].unavailable)
            bench_unavailable(row, methods[m].name, methods[m].unavailable);
        else
            bench_report(row, methods[m].name, "ns", values + m * repeats, repeats, 0);
    }
    free(values);
}

/* ---- Two threads ------------------------------------------------------------------------------*/

#define BURST 3000000 /* nanoseconds */

typedef struct burst {
    pthread_barrier_t begin, end;
    const bench_method *method; /* NULL: it is over */
} burst;

/* Nanoseconds a run, over one burst. */
static double run_burst(const bench_method *method)
{
    uint64_t begin = bench_now(), now = begin;
    unsigned runs = 0;

    while (now - begin < BURST) {
        for (int i = 0; i < 20; i++)
            method->run(method->data);
        runs += 20;
        now = bench_now();
    }
    return (double)(now - begin) / runs;
}

static NOINLINE void other_thread_here(void *data)
{
    burst *b = data;

    for (;;) {
        (void)pthread_barrier_wait(&b->begin);
        if (!b->method)
            break;
        (void)run_burst(b->method);
        (void)pthread_barrier_wait(&b->end);
    }
    AFTER();
}

static void *other_thread(void *data)
{
    (void)chain_call(40, 0, other_thread_here, data);
    return NULL;
}

static void two_bursts(burst *b, const bench_method *method, double *one, double *two)
{
    *one = run_burst(method);
    b->method = method;
    (void)pthread_barrier_wait(&b->begin);
    *two = run_burst(method);
    (void)pthread_barrier_wait(&b->end);
}

static NOINLINE void this_thread_here(void *data)
{
    static const char one_row[] = "one thread, depth 40", row[] = "two threads at once, depth 40",
                      ratio_row[] = "two threads, against one";
    size_t count = peers_fill(methods);
    unsigned repeats = bench_repeats(60);
    double *one = calloc(count * repeats, sizeof *one), *two = calloc(count * repeats, sizeof *two);
    double *ratio = calloc(count * repeats, sizeof *ratio);

    if (!one || !two || !ratio)
        abort();
    for (size_t i = 0; i < count * repeats; i++) {
        size_t m = i % count, at = m * repeats + i / count;

        if (methods[m].unavailable)
            continue;
        two_bursts(data, &methods[m], &one[at], &two[at]);
        ratio[at] = two[at] / one[at];
    }
    for (size_t m = 0; m < count; m++) {
        const char *name = methods[m].name, *reason = methods[m].unavailable;

        if (reason) {
            bench_unavailable(one_row, name, reason);
            bench_unavailable(row, name, reason);
            bench_unavailable(ratio_row, name, reason);
        } else {
            bench_report(one_row, name, "ns", one + m * repeats, repeats, 0);
            bench_report(row, name, "ns", two + m * repeats, repeats, 0);
            bench_report(ratio_row, name, "x", ratio + m * repeats, repeats, 0);
        }
    }
    free(one);
    free(two);
    free(ratio);
}

static void two_threads(void)
{
    burst b = {.method = NULL};
    pthread_t thread;

    if (!bench_wants("two threads") || bench_counts())
        return;
    (void)pthread_barrier_init(&b.begin, NULL, 2);
    (void)pthread_barrier_init(&b.end, NULL, 2);
    if (pthread_create(&thread, NULL, other_thread, &b))
        abort();
    (void)chain_call(40, 0, this_thread_here, &b);
    b.method = NULL;
    (void)pthread_barrier_wait(&b.begin);
    (void)pthread_join(thread, NULL);
}

/* ---- Resolve ----------------------------------------------------------------------------------*/

typedef struct addresses {
    uintptr_t frames[100];
    uint32_t count, next;
} addresses;

static int take_frame(const stacksplice_frame *frame, void *data)
{
    ++*(unsigned *)data;
    return 0;
}

static void resolve_one(void *data)
{
    addresses *a = data;
    unsigned frames = 0;

    (void)stacksplice_resolve(a->frames[a->next++ % a->count], take_frame, &frames);
}

static void dladdr_one(void *data)
{
    addresses *a = data;
    Dl_info info;

    (void)dladdr((void *)a->frames[a->next++ % a->count], &info);
}

static NOINLINE void addresses_here(void *data)
{
    addresses *a = data;

    (void)stacksplice_capture(0, 100, a->frames, &a->count, NULL);
    AFTER();
}

static void resolving(void)
{
    addresses a = {.next = 0};
    bench_method both[] = {{.name = "stacksplice_resolve", .run = resolve_one, .data = &a},
                           {.name = "dladdr", .run = dladdr_one, .data = &a}};

    (void)chain_call(30, 0, addresses_here, &a);
    for (uint32_t i = 0; i < a.count; i++)
        resolve_one(&a); /* each address was looked up before */
    bench_row("resolve, warm, an address", both, 2, 0);
}

/* ---- Command line -----------------------------------------------------------------------------*/

static int first_resolve(void)
{
    addresses a = {.next = 0};
    uint64_t begin;

    (void)chain_call(30, 0, addresses_here, &a);
    begin = bench_now();
    resolve_one(&a);
    printf("%llu\n", (unsigned long long)(bench_now() - begin));
    return 0;
}

static int first(const char *name)
{
    size_t count = peers_fill(methods);
    first_use f = {.method = NULL};

    if (!strcmp(name, "resolve"))
        return first_resolve();
    for (size_t m = 0; m < count; m++)
        if (!strcmp(methods[m].name, name))
            f.method = &methods[m];
    if (!f.method || f.method->unavailable) {
        fprintf(stderr, "%s\n", f.method ? f.method->unavailable : "no such method");
        return 2;
    }
    (void)chain_call(30, 0, first_here, &f);
    printf("%llu\n", (unsigned long long)f.ns);
    return 0;
}

int main(int argc, char **argv)
{
    bench_options(&argc, argv);
    if (argc == 3 && !strcmp(argv[1], "--first"))
        return first(argv[2]);
    if (argc != 1 || !peers_are_themselves())
        return 2;
    depths();
    many();
    threads();
    two_threads();
    resolving();
    return 0;
}
