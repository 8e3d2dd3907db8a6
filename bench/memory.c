/*
 * What errors leave behind: the bytes that a kept error takes, and whether memory grows.
 *
 *   bench-memory [--quick]
 */
#include "bench.h"
#include "chain.h"

#include <malloc.h>
#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEPTH 40
#define KEPT 4000

/* ---- What is allocated ------------------------------------------------------------------------*/

static size_t live;

static void *counted_alloc(size_t bytes, void *data)
{
    void *block = malloc(bytes);

    live += block ? malloc_usable_size(block) : 0;
    return block;
}

static void counted_free(void *block, void *data)
{
    live -= block ? malloc_usable_size(block) : 0;
    free(block);
}

static void *counted_realloc(void *block, size_t bytes, void *data)
{
    size_t before = block ? malloc_usable_size(block) : 0;
    void *other = realloc(block, bytes);

    if (other)
        live += malloc_usable_size(other) - before;
    return other;
}

/* Kibibytes of memory in use by the process. */
static double resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, pages = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* ---- Errors -----------------------------------------------------------------------------------*/

typedef struct origination {
    IRestrictedErrorInfo *error;
    size_t frames;
} origination;

static void originate_here(void *data)
{
    origination *o = data;
    uint32_t frames = 0;

    (void)RoOriginateErrorW(E_FAIL, 0, u"no such order");
    if (GetRestrictedErrorInfo(&o->error) != S_OK)
        exit(2);
    (void)stacksplice_error_stack((IUnknown *)o->error, 0, NULL, &frames);
    o->frames += frames;
}

static void drop(void *context, void *data, void *value)
{
}

static stacksplice_owner *owner;

/* As a binding does: a language exception with the stack, then its error. */
static void originate_of_language(void *data)
{
    origination *o = data;
    uintptr_t frames[500];
    stacksplice_exception_parts parts = {.size = sizeof parts, .hresult = E_FAIL, .frames = frames};
    stacksplice_exception *x;

    (void)stacksplice_capture(0, 500, frames, &parts.frame_count, NULL);
    x = stacksplice_exception_new(owner, &parts);
    if (!x || stacksplice_originate(E_FAIL, "no such order", 13, stacksplice_exception_unknown(x),
                                    &o->error) != S_OK)
        exit(2);
    stacksplice_exception_unref(x);
    RoClearError();
    o->frames += parts.frame_count;
}

/* One error, on a stack of that number. */
static IRestrictedErrorInfo *originate(uint32_t path, size_t *frames)
{
    origination o = {.frames = 0};

    (void)chain_call(DEPTH, path, originate_here, &o);
    if (frames)
        *frames += o.frames;
    return o.error;
}

static void originate_and_release(uint32_t path)
{
    IRestrictedErrorInfo *error = originate(path, NULL);

    error->lpVtbl->Release(error);
}

static void kept(void)
{
    static IRestrictedErrorInfo *errors[KEPT];
    size_t frames = 0, before;
    double value, raw;

    for (uint32_t i = 0; i < KEPT; i++)
        originate_and_release(i);
    before = live;
    for (uint32_t i = 0; i < KEPT; i++)
        errors[i] = originate(i, &frames);
    value = (double)(live - before) / KEPT;
    raw = (double)(frames * sizeof(void *)) / KEPT;
    for (uint32_t i = 0; i < KEPT; i++)
        errors[i]->lpVtbl->Release(errors[i]);
    bench_report("memory, an error that is kept, each of another stack", "native errors", "bytes",
                 &value, 1, (unsigned)(frames / KEPT));
    bench_report("memory, an error that is kept, each of another stack",
                 "the addresses of its stack", "bytes", &raw, 1, (unsigned)(frames / KEPT));
}

/* Bytes that one more frame of each kept stack takes. */
static double frame_bytes(chain_leaf leaf)
{
    enum { ERRORS = 500, SHALLOW = 40, DEEP = 140 };
    static IRestrictedErrorInfo *errors[ERRORS];
    double bytes[2], frames[2];

    for (int i = 0; i < 2; i++) {
        origination o = {.frames = 0};
        size_t before = live;

        for (uint32_t n = 0; n < ERRORS; n++) {
            (void)chain_call(i ? DEEP : SHALLOW, n, leaf, &o);
            errors[n] = o.error;
        }
        bytes[i] = (double)(live - before);
        frames[i] = (double)o.frames;
        for (uint32_t n = 0; n < ERRORS; n++)
            errors[n]->lpVtbl->Release(errors[n]);
    }
    return (bytes[1] - bytes[0]) / (frames[1] - frames[0]);
}

static void kept_frames(void)
{
    static const stacksplice_language language = {
        .size = sizeof language, .name = "bench", .drop = drop};
    const char *row = "memory, a frame of a stack that is kept";
    double native, of_language, address = sizeof(void *);

    owner = stacksplice_owner_new(&language, &owner);
    if (!owner)
        exit(2);
    (void)frame_bytes(originate_of_language); /* what the library allocates once */
    native = frame_bytes(originate_here);
    of_language = frame_bytes(originate_of_language);
    bench_report(row, "native errors", "bytes", &native, 1, 1);
    bench_report(row, "errors of a language", "bytes", &of_language, 1, 1);
    bench_report(row, "its address", "bytes", &address, 1, 1);
    stacksplice_owner_close(owner);
}

static void growth(const char *name, uint32_t errors, uint32_t stacks)
{
    double value, before;
    char row[100];

    (void)snprintf(row, sizeof row, "memory, growth over %u errors of %s", errors, name);
    for (uint32_t i = 0; i < errors / 10 || i < 2 * stacks; i++)
        originate_and_release(i % stacks);
    before = resident();
    for (uint32_t i = 0; i < errors; i++)
        originate_and_release(i % stacks);
    value = resident() - before;
    bench_report(row, "native errors", "KiB", &value, 1, 0);
}

int main(int argc, char **argv)
{
    static const stacksplice_allocator counted = {.size = sizeof counted,
                                                  .alloc = counted_alloc,
                                                  .realloc = counted_realloc,
                                                  .free = counted_free};
    uint32_t errors;

    bench_options(&argc, argv);
    if (argc != 1 || stacksplice_set_allocator(&counted) < 0)
        return 2;
    kept();
    kept_frames();
    errors = bench_repeats(10000000);
    growth("one stack", errors, 1);
    growth("1000 stacks", errors, 1000);
    return 0;
}
