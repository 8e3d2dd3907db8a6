#include "bench.h"
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

#define MAX_SAMPLES 32768
#define MAX_METHODS 16
/* Before and while instructions are counted: 3 to COUNT_RUNS runs, in about this time. */
#define COUNT_RUNS 100
#define COUNT_NS 500000000
/*
 * For the ledger, by no clock: what is fast repeats until the debts of plans are paid that rows before it
 * left, or its count would depend on them.  FAST_NS lies in a gap of our methods: none takes between
 * 170,000 and 550,000 instructions, which valgrind runs in less than 2 ms and in 5 ms.
 */
#define FAST_NS 3000000
#define LEDGER_WARM 1000
#define LEDGER_RUNS 200
#define LEDGER_SLOW 8
#define WARM_PASSES 8  /* over many stacks; what learns them may take its time */
#define BATCH_NS 20000 /* what the clock's own 40 ns do not show in */

static struct {
    uint64_t row_ns; /* time to spend on one row */
    unsigned least;  /* samples of each method */
    unsigned divide; /* what slow repetitions are divided by */
    bool ledger;     /* count ours alone, and each time the same runs */
    const char *rows;
} options = {.row_ns = 1500000000, .least = 25, .divide = 1};

/* ---- Options and time -------------------------------------------------------------------------*/

void bench_options(int *argc, char **argv)
{
    int kept = 1;

    for (int i = 1; i < *argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            options.row_ns = 300000000;
            options.least = 11;
            options.divide = 4;
        } else if (!strcmp(argv[i], "--tiny")) {
            options.row_ns = 1000000;
            options.least = 3;
            options.divide = 100;
        } else if (!strcmp(argv[i], "--ledger")) {
            options.ledger = true;
        } else if (!strncmp(argv[i], "--rows=", 7)) {
            options.rows = argv[i] + 7;
        } else {
            argv[kept++] = argv[i];
        }
    }
    argv[kept] = NULL;
    *argc = kept;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
}

bool bench_wants(const char *row)
{
    return !options.rows || strstr(row, options.rows);
}

bool bench_counts(void)
{
    return RUNNING_ON_VALGRIND;
}

bool bench_counts_method(const char *method)
{
    return bench_counts() && (!options.ledger || !strncmp(method, "stacksplice", 11) ||
                              !strncmp(method, "install()", 9));
}

uint64_t bench_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

unsigned bench_repeats(unsigned full)
{
    return full / options.divide > 3 ? full / options.divide : 3;
}

/* ---- Output -----------------------------------------------------------------------------------*/

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void bench_report(const char *row, const char *method, const char *unit, double *values,
                  size_t count, unsigned frames)
{
    if (!count)
        return;
    qsort(values, count, sizeof *values, compare);
    printf("{\"row\": \"%s\", \"method\": \"%s\", \"p50\": %.3f, \"p90\": %.3f, \"unit\": \"%s\", "
           "\"samples\": %zu, \"frames\": %u}\n",
           row, method, values[count / 2], values[count * 9 / 10], unit, count, frames);
}

void bench_unavailable(const char *row, const char *method, const char *reason)
{
    printf("{\"row\": \"%s\", \"method\": \"%s\", \"unavailable\": \"%s\"}\n", row, method, reason);
}

/* ---- Samples ----------------------------------------------------------------------------------*/

typedef struct series {
    unsigned batch;
    size_t count, taken;
    double values[MAX_SAMPLES];
} series;

static series *series_new(size_t count)
{
    series *all = calloc(count, sizeof *all);

    if (!all || count > MAX_METHODS)
        abort();
    return all;
}

static void sample(series *s, double value)
{
    s->values[s->taken++ % MAX_SAMPLES] = value; /* when full: the latest ones */
    if (s->count < MAX_SAMPLES)
        s->count++;
}

static void report_series(const char *row, const bench_method *methods, size_t count, series *all,
                          unsigned frames)
{
    for (size_t m = 0; m < count; m++) {
        if (methods[m].unavailable)
            bench_unavailable(row, methods[m].name, methods[m].unavailable);
        else
            bench_report(row, methods[m].name, "ns", all[m].values, all[m].count, frames);
    }
}

static void dump_count(const char *row, const bench_method *method, unsigned runs, unsigned frames)
{
    char name[300];

    (void)snprintf(name, sizeof name,
                   "{\"row\": \"%s\", \"method\": \"%s\", \"runs\": %u, \"frames\": %u}", row,
                   method->name, runs, frames);
    CALLGRIND_DUMP_STATS_AT(name);
}

void bench_count_begin(void)
{
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
}

void bench_count_end(const char *row, const char *method, unsigned runs)
{
    const bench_method counted = {.name = method};

    CALLGRIND_TOGGLE_COLLECT;
    dump_count(row, &counted, runs, 0);
}

static uint64_t once_began;

void bench_once_begin(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    once_began = bench_now();
}

void bench_once_end(void)
{
    uint64_t end = bench_now();

    CALLGRIND_STOP_INSTRUMENTATION;
    if (bench_counts())
        CALLGRIND_DUMP_STATS_AT("{\"runs\": 1, \"frames\": 0}");
    else
        printf("%llu\n", (unsigned long long)(end - once_began));
}

/* ---- Rows on one stack ------------------------------------------------------------------------*/

static void prepare(const bench_method *method, unsigned runs)
{
    if (method->prepare)
        method->prepare(method->data, runs);
}

/* Batches and counts go through this one place: every method is called from the same site. */
static NOINLINE void run(const bench_method *method, unsigned runs)
{
    for (unsigned i = 0; i < runs; i++) {
        method->run(method->data);
        AFTER();
    }
}

static uint64_t timed(const bench_method *method, unsigned runs)
{
    uint64_t begin;

    prepare(method, runs);
    begin = bench_now();
    run(method, runs);
    return bench_now() - begin;
}

/* Of several, as one that was interrupted looks long and would make every batch too short. */
static uint64_t shortest(const bench_method *method, unsigned runs)
{
    uint64_t best = timed(method, runs);

    for (int i = 0; i < 4; i++) {
        uint64_t time = timed(method, runs);

        best = time < best ? time : best;
    }
    return best;
}

/* Warms up, and finds how many runs make a batch. */
static unsigned find_batch(const bench_method *method)
{
    unsigned batch = 1;
    uint64_t end = bench_now() + options.row_ns / 100;

    do
        (void)timed(method, 8);
    while (bench_now() < end);
    while (batch < 100000 && shortest(method, batch) < BATCH_NS)
        batch *= 2;
    return batch;
}

/* How often METHOD is run to be counted. */
static unsigned runs_to_count(const bench_method *method)
{
    uint64_t time = shortest(method, 1), runs;

    if (options.ledger)
        return time < FAST_NS ? LEDGER_RUNS : LEDGER_SLOW;
    runs = COUNT_NS / options.divide / (time + 1);
    return runs < 3 ? 3 : runs < COUNT_RUNS ? (unsigned)runs : COUNT_RUNS;
}

/*
 * After it the instructions are those of the runs that it returns.  Those before them, which warm up, are
 * called from the same place: from another one the stack would be new, and be learnt among those counted.
 */
static unsigned run_to_count(const bench_method *method)
{
    unsigned runs = runs_to_count(method), warm = runs;

    if (options.ledger && runs == LEDGER_RUNS)
        warm = LEDGER_WARM;
    for (unsigned i = 0; i < warm + runs; i++) {
        if (i == warm)
            CALLGRIND_ZERO_STATS;
        prepare(method, 1);
        CALLGRIND_TOGGLE_COLLECT;
        run(method, 1);
        CALLGRIND_TOGGLE_COLLECT;
    }
    return runs;
}

static void count_row(const char *row, const bench_method *methods, size_t count, unsigned frames)
{
    for (size_t m = 0; m < count; m++) {
        if (methods[m].unavailable || !bench_counts_method(methods[m].name))
            continue;
        dump_count(row, &methods[m], run_to_count(&methods[m]), frames);
    }
}

void bench_row(const char *row, const bench_method *methods, size_t count, unsigned frames)
{
    uint64_t end = bench_now() + options.row_ns;
    series *all;

    if (!bench_wants(row))
        return;
    if (bench_counts()) {
        count_row(row, methods, count, frames);
        return;
    }
    all = series_new(count);
    for (size_t m = 0; m < count; m++)
        if (!methods[m].unavailable)
            all[m].batch = find_batch(&methods[m]);
    for (unsigned round = 0; round < options.least || bench_now() < end; round++) {
        for (size_t i = 0; i < count; i++) {
            size_t m = (i + round) % count; /* nobody always runs after the same one */

            if (!methods[m].unavailable)
                sample(&all[m], (double)timed(&methods[m], all[m].batch) / all[m].batch);
        }
    }
    report_series(row, methods, count, all, frames);
    free(all);
}

/* ---- Rows on many stacks ----------------------------------------------------------------------*/

static struct {
    const bench_method *method; /* whose turn it is; NULL in the first pass */
    void (*first)(void *data);
    void *data;
    bool collect;
    const char *each; /* the row, where each visit is a count of its own; else NULL */
    unsigned frames;
    double clock_ns; /* what two looks at the clock cost */
    series *samples; /* NULL while warming up */
    unsigned visits;
} visiting;

static double clock_cost(void)
{
    double values[1001];

    for (int i = 0; i < 1001; i++) {
        uint64_t begin = bench_now();

        values[i] = (double)(bench_now() - begin);
    }
    qsort(values, 1001, sizeof *values, compare);
    return values[500];
}

void bench_visit(void)
{
    uint64_t begin, end;

    visiting.visits++;
    if (!visiting.method) {
        if (visiting.first)
            visiting.first(visiting.data);
        return;
    }
    if (visiting.collect)
        CALLGRIND_TOGGLE_COLLECT;
    begin = bench_now();
    run(visiting.method, 1);
    end = bench_now();
    if (visiting.collect)
        CALLGRIND_TOGGLE_COLLECT;
    if (visiting.collect && visiting.each)
        dump_count(visiting.each, visiting.method, 1, visiting.frames);
    if (visiting.samples)
        sample(visiting.samples, (double)(end - begin) - visiting.clock_ns);
}

static void visit_all(const bench_method *method, bench_pass pass, void *data, unsigned number,
                      series *samples)
{
    visiting.method = method;
    visiting.samples = samples;
    visiting.visits = 0;
    pass(data, number);
}

static void count_visits(const char *row, const bench_method *methods, size_t count,
                         unsigned frames, bench_pass pass, void *data)
{
    unsigned number = 1, wanted = options.ledger ? LEDGER_RUNS : 1;

    visiting.each = options.ledger ? row : NULL;
    visiting.frames = frames;
    for (size_t m = 0; m < count; m++) {
        if (methods[m].unavailable || !bench_counts_method(methods[m].name))
            continue;
        /* From one place, as in run_to_count. */
        for (unsigned pass_number = 0, seen = 0; seen < wanted; pass_number++) {
            if (pass_number == WARM_PASSES) {
                CALLGRIND_ZERO_STATS;
                visiting.collect = true;
            }
            visit_all(&methods[m], pass, data, number++, NULL);
            seen += visiting.collect ? visiting.visits : 0;
        }
        visiting.collect = false;
        if (!visiting.each)
            dump_count(row, &methods[m], visiting.visits, frames);
    }
}

void bench_visit_row(const char *row, const bench_method *methods, size_t count,
                     const unsigned *frames, bench_pass pass, void *data, void (*first)(void *data))
{
    unsigned number = 0;
    uint64_t end;
    series *all;

    if (!bench_wants(row))
        return;
    visiting.first = first;
    visiting.data = data;
    visiting.clock_ns = clock_cost();
    visit_all(NULL, pass, data, number++, NULL);
    if (bench_counts()) {
        count_visits(row, methods, count, *frames, pass, data);
        return;
    }
    all = series_new(count);
    for (size_t m = 0; m < WARM_PASSES * count; m++)
        if (!methods[m % count].unavailable)
            visit_all(&methods[m % count], pass, data, number++, NULL);
    end = bench_now() + options.row_ns;
    for (unsigned round = 0; round < options.least || bench_now() < end; round++) {
        for (size_t i = 0; i < count; i++) {
            size_t m = (i + round) % count;

            if (!methods[m].unavailable)
                visit_all(&methods[m], pass, data, number++, &all[m]);
        }
    }
    report_series(row, methods, count, all, *frames);
    free(all);
}

/* Lua seeds the hashes of strings by it, so tables would have another order in each process, and what searches
   them another count. */
__attribute__((visibility("default"))) time_t time(time_t *out)
{
    if (out)
        *out = 0;
    return 0;
}
