/*
 * Measuring: every method of a row does the same work in the same run, in turn, many times.
 *
 * A program prints one JSON object a line on standard output: {"row", "method", "p50", "p90",
 * "unit", "samples", "frames"}; a method that cannot be run has "unavailable" with the reason
 * instead.  Under callgrind nothing is timed: the instructions of each method are dumped with
 * {"row", "method", "runs"} as the dump's name, set-up and warm-up not counted.  With --ledger the
 * same runs are counted each time, and each visit of a row on many stacks by itself.
 */
#ifndef STACKSPLICE_BENCH_BENCH_H
#define STACKSPLICE_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_method {
    const char *name;
    void (*run)(void *data); /* the work, once */
    void *data;
    void (*prepare)(void *data, unsigned runs); /* before RUNS runs, not timed; may be NULL */
    const char *unavailable;                    /* why it cannot be run, else NULL */
} bench_method;

/* Reads and removes the options of the harness (--quick, --tiny, --ledger, --rows=TEXT) from ARGV. */
void bench_options(int *argc, char **argv);

/* Whether this row is asked for. */
bool bench_wants(const char *row);

/* Whether instructions are counted, not time. */
bool bench_counts(void);

/* Whether instructions of this method are counted: for the ledger ours alone are. */
bool bench_counts_method(const char *method);

/* Nanoseconds of a clock that only grows. */
uint64_t bench_now(void);

/* How often something slow is repeated: FULL times in a full run, less in a quick one. */
unsigned bench_repeats(unsigned full);

/* All methods in turn, in batches long enough for the clock.  FRAMES: of the stack, 0 for none. */
void bench_row(const char *row, const bench_method *methods, size_t count, unsigned frames);

/*
 * A row whose work is on many different stacks.  PASS(data, number) makes a set of stacks, one
 * after the other, and calls bench_visit in the innermost function of each: there the method whose
 * turn it is runs once: each visit is a sample.  FIRST (may be NULL) is called instead of a
 * method in each bench_visit of a first pass: it checks what the methods will find, and can set
 * *FRAMES, which is read at the end.
 */
typedef void (*bench_pass)(void *data, unsigned number);
void bench_visit_row(const char *row, const bench_method *methods, size_t count,
                     const unsigned *frames, bench_pass pass, void *data,
                     void (*first)(void *data));
void bench_visit(void);

/* Around work that the caller times itself, and that is RUNS runs of METHOD: count its
 * instructions.
 */
void bench_count_begin(void);
void bench_count_end(const char *row, const char *method, unsigned runs);

/* Around work that a process does once: prints its nanoseconds, or counts the instructions of all
 * threads.
 */
void bench_once_begin(void);
void bench_once_end(void);

/* One value that was measured otherwise: medians of VALUES, which are sorted. */
void bench_report(const char *row, const char *method, const char *unit, double *values,
                  size_t count, unsigned frames);
void bench_unavailable(const char *row, const char *method, const char *reason);

#endif
