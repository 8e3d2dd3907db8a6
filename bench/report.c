/*
 * Reports of native errors, 50 frames with files and lines, beside libraries for C++.
 *
 *   bench-report [--quick] [--rows=TEXT]   the rows of addresses that were resolved before
 *   bench-report --first METHOD            the first report of this process: nanoseconds
 */
#include "bench.h"
#include "chain.h"
#include "calls.h"
#include "peer_reports.h"

#include <dlfcn.h>
#include <stacksplice/dedup.h>
#include <stacksplice/stacksplice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 50, MOST = 128 };

typedef struct report {
    uintptr_t frames[MOST];
    uint32_t count;
    IRestrictedErrorInfo *error;
    size_t length; /* of the last text */
} report;

/* ---- The methods ------------------------------------------------------------------------------*/

static int count_bytes(const char *bytes, size_t length, void *data)
{
    (void)bytes;
    *(size_t *)data += length;
    return 0;
}

static void run_stacksplice(void *data)
{
    report *r = data;

    r->length = 0;
    (void)stacksplice_format((IUnknown *)(void *)r->error, STACKSPLICE_FORMAT_TEXT, NULL,
                             count_bytes, &r->length);
}

static stacksplice_dedup *dedup;

static void run_counted(void *data)
{
    if (stacksplice_dedup_add(dedup, (IUnknown *)(void *)((report *)data)->error) != S_FALSE)
        abort();
}

static report *shared; /* of the peers, whose functions are found by name */
static size_t (*boost_report)(const uintptr_t *, size_t);
static size_t (*cpptrace_report)(const uintptr_t *, size_t);

static void run_boost(void *data)
{
    shared->length = boost_report(shared->frames, shared->count);
}

static void run_cpptrace(void *data)
{
    shared->length = cpptrace_report(shared->frames, shared->count);
}

static bool load(const char *file, size_t (**function)(const uintptr_t *, size_t))
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (library)
        *function = (size_t(*)(const uintptr_t *, size_t))dlsym(library, "peer_report");
    return *function != NULL;
}

static bench_method methods[] = {{.name = "stacksplice_format", .run = run_stacksplice},
                                 {.name = "boost stacktrace", .run = run_boost},
                                 {.name = "cpptrace", .run = run_cpptrace}};
enum { METHODS = sizeof methods / sizeof *methods };

static bench_method counted[] = {{.name = "stacksplice_dedup_add", .run = run_counted}};

static NOINLINE void originate_here(void *data)
{
    report *r = data;

    (void)stacksplice_capture(0, MOST, r->frames, &r->count, NULL);
    (void)RoOriginateErrorW(E_FAIL, 0, NULL);
    AFTER();
}

static void prepare(report *r)
{
    (void)chain_call(DEPTH, 0, originate_here, r);
    if (GetRestrictedErrorInfo(&r->error) != S_OK || r->count < DEPTH)
        abort();
    shared = r;
    for (size_t m = 0; m < METHODS; m++)
        methods[m].data = r;
    if (!load(PEER_BOOST_REPORT, &boost_report))
        methods[1].unavailable = "built without boost.stacktrace";
    if (!load(PEER_CPPTRACE_REPORT, &cpptrace_report))
        methods[2].unavailable = "built without cpptrace";
}

/* Each finds the lines of the chain. */
static int first(report *r, const char *name)
{
    for (size_t m = 0; m < METHODS; m++) {
        if (strcmp(methods[m].name, name) != 0)
            continue;
        if (methods[m].unavailable) {
            fprintf(stderr, "%s\n", methods[m].unavailable);
            return 2;
        }
        bench_once_begin();
        methods[m].run(r);
        bench_once_end();
        return r->length > DEPTH * strlen("chain.c:10") ? 0 : 2;
    }
    return 2;
}

static void count_many(report *r)
{
    const stacksplice_dedup_options options = {.size = sizeof options, .window = UINT32_MAX};

    if (FAILED(stacksplice_dedup_new(&options, &dedup)))
        abort();
    counted[0].data = r;
    (void)stacksplice_dedup_add(dedup, (IUnknown *)(void *)r->error); /* the one that is new */
    bench_row("C, an error of 50 frames that is counted", counted, 1, DEPTH);
    stacksplice_dedup_free(dedup);
}

int main(int argc, char **argv)
{
    static report r;

    bench_options(&argc, argv);
    prepare(&r);
    if (argc == 3 && !strcmp(argv[1], "--first"))
        return first(&r, argv[2]);
    bench_row("C, a report of 50 frames", methods, METHODS, DEPTH);
    count_many(&r);
    r.error->lpVtbl->Release(r.error);
    return 0;
}
