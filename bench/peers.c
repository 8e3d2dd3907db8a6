#include "peers.h"

#include "peer_boost.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stacksplice/stacksplice.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

/* A module that is loaded at run time has few bytes for each thread, and these are many. */
#ifndef PEER_THREAD
#define PEER_THREAD _Thread_local
#endif
static PEER_THREAD peer_stack result, copy;
static _Thread_local const void *frame_pointer_end;

static struct {
    int (*unw_backtrace)(void **buffer, int size);
    size_t (*boost_stacktrace)(void **frames, size_t max);
    size_t (*boost_dump)(void **frames, size_t max);
    void *(*boost_unwinder)(void);
    bool loaded;
} library;

peer_stack *peer_result(void)
{
    return &result;
}

void peer_set_frame_pointer_end(const void *end)
{
    frame_pointer_end = end;
}

/* ---- The methods ------------------------------------------------------------------------------*/

static void run_native(void *data)
{
    result.count = RtlCaptureStackBackTrace(0, PEER_MAX_FRAMES, result.frames, NULL);
}

static void run_combined(void *data)
{
    uint32_t count = 0;

    (void)stacksplice_capture(0, PEER_MAX_FRAMES, (uintptr_t *)result.frames, &count, NULL);
    result.count = count;
}

static void run_libunwind(void *data)
{
    result.count = (size_t)library.unw_backtrace(result.frames, PEER_MAX_FRAMES);
}

static void run_glibc(void *data)
{
    result.count = (size_t)backtrace(result.frames, PEER_MAX_FRAMES);
}

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    peer_stack *stack = data;

    if (stack->count == PEER_MAX_FRAMES)
        return _URC_END_OF_STACK;
    stack->frames[stack->count++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static void run_libgcc(void *data)
{
    result.count = 0;
    (void)_Unwind_Backtrace(keep, &result);
}

static void run_boost_object(void *data)
{
    result.count = library.boost_stacktrace(result.frames, PEER_MAX_FRAMES);
}

static void run_boost_dump(void *data)
{
    result.count = library.boost_dump(result.frames, PEER_MAX_FRAMES);
}

/* Always compiled with a frame pointer, so that it finds its caller's. */
static void run_frame_pointers(void *data)
{
    void **frame = __builtin_frame_address(0);
    size_t count = 0;

    while (frame && (const void *)frame < frame_pointer_end && count < PEER_MAX_FRAMES) {
        result.frames[count++] = frame[1];
        frame = frame[0];
    }
    result.count = count;
}

static void run_copy(void *data)
{
    memcpy(result.frames, copy.frames, copy.count * sizeof *copy.frames);
    result.count = copy.count;
}

/* ---- Which libraries --------------------------------------------------------------------------*/

/* libunwind exports backtrace and _Unwind_Backtrace too: it must not be seen by anybody else. */
static void load(void)
{
    void *unwind = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void *boost = dlopen(PEER_BOOST, RTLD_NOW | RTLD_LOCAL);

    library.loaded = true;
    if (unwind)
        library.unw_backtrace = (int (*)(void **, int))dlsym(unwind, "unw_backtrace");
    if (boost) {
        library.boost_stacktrace =
            (size_t(*)(void **, size_t))dlsym(boost, "peer_boost_stacktrace");
        library.boost_dump = (size_t(*)(void **, size_t))dlsym(boost, "peer_boost_dump");
        library.boost_unwinder = (void *(*)(void))dlsym(boost, "peer_boost_unwinder");
    }
}

static bool is_in(const char *name, const void *function, const char *file)
{
    Dl_info info;

    if (dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, file))
        return true;
    fprintf(stderr, "%s is not that of %s\n", name, file);
    return false;
}

bool peers_are_themselves(void)
{
    bool good = is_in("backtrace", (const void *)&backtrace, "libc.so");

    if (!library.loaded)
        load();
    good &= is_in("_Unwind_Backtrace", (const void *)&_Unwind_Backtrace, "libgcc_s.so");
    good &= is_in("stacksplice_capture", (const void *)&stacksplice_capture, "libstacksplice.so");
    if (library.unw_backtrace)
        good &= is_in("unw_backtrace", (const void *)library.unw_backtrace, "libunwind.so");
    if (library.boost_unwinder)
        good &= is_in("boost's _Unwind_Backtrace", library.boost_unwinder(), "libgcc_s.so");
    return good;
}

size_t peers_fill(bench_method *methods)
{
    size_t count = 0;

    if (!library.loaded)
        load();
    methods[count++] = (bench_method){.name = "stacksplice native", .run = run_native};
    methods[count++] = (bench_method){.name = "stacksplice combined", .run = run_combined};
    methods[count++] = (bench_method){
        .name = "unw_backtrace",
        .run = run_libunwind,
        .unavailable = library.unw_backtrace ? NULL : "libunwind.so.8 cannot be loaded"};
    methods[count++] = (bench_method){.name = "backtrace", .run = run_glibc};
    methods[count++] = (bench_method){.name = "_Unwind_Backtrace", .run = run_libgcc};
    methods[count++] =
        (bench_method){.name = "boost safe_dump_to",
                       .run = run_boost_dump,
                       .unavailable = library.boost_dump ? NULL : "built without boost.stacktrace"};
    methods[count++] = (bench_method){
        .name = "boost stacktrace",
        .run = run_boost_object,
        .unavailable = library.boost_stacktrace ? NULL : "built without boost.stacktrace"};
    if (frame_pointer_end)
        methods[count++] = (bench_method){.name = "frame pointers", .run = run_frame_pointers};
    methods[count++] = (bench_method){.name = "memcpy", .run = run_copy};
    return count;
}

/* ---- The check --------------------------------------------------------------------------------*/

/* The index of LEAF; the outermost address of libgcc is 0 and does not count. */
static size_t find_leaf(peer_stack *stack, const void *leaf)
{
    size_t i = 0;

    while (stack->count && !stack->frames[stack->count - 1])
        stack->count--;
    while (i < stack->count && stack->frames[i] != leaf)
        i++;
    return i;
}

/*
 * libunwind leaves out a frame in which it finds no more than an end, so one less is the same.  A
 * walk by frame pointers ends where they do.
 */
static bool is_right(const bench_method *method, const peer_stack *truth, size_t truth_leaf,
                     const peer_stack_check *check)
{
    size_t leaf = find_leaf(&result, check->leaf);
    size_t want = truth->count - truth_leaf, got = result.count - leaf;

    if (got < check->least)
        return false;
    if (method->run == run_combined && check->scripts)
        return true;
    if (got > want || (got + 1 < want && method->run != run_frame_pointers))
        return false;
    return !memcmp(truth->frames + truth_leaf, result.frames + leaf, got * sizeof *result.frames);
}

unsigned peers_check(bench_method *methods, size_t count, const peer_stack_check *check)
{
    static PEER_THREAD peer_stack truth;
    size_t truth_leaf;

    run_libgcc(NULL);
    truth_leaf = find_leaf(&result, check->leaf);
    truth = copy = result;
    for (size_t m = 0; m < count; m++) {
        if (methods[m].unavailable)
            continue;
        result.count = 0;
        methods[m].run(methods[m].data);
        if (!is_right(&methods[m], &truth, truth_leaf, check))
            methods[m].unavailable = "does not find the frames that libgcc finds";
    }
    return (unsigned)(truth.count - truth_leaf);
}
