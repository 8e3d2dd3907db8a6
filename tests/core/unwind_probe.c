#include "unwind_probe.h"

#include <stacksplice/source.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#define MAX_FRAMES 1024
#define REGISTERS 6

static const uint32_t registers[REGISTERS] = {3, 6, 12, 13, 14, 15};

typedef struct truth {
    uintptr_t ip, sp, function;
    uintptr_t value[REGISTERS];
    int interrupted;
} truth;

typedef struct probe {
    truth frames[MAX_FRAMES];
    uint32_t count;
    uint32_t compared;
} probe;

static _Thread_local probe *active;
static atomic_uint differences;
static atomic_flag told = ATOMIC_FLAG_INIT;
static char first_difference[200];
static _Atomic uint64_t frames, signals;

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    probe *p = data;
    truth *t = &p->frames[p->count];

    if (p->count == MAX_FRAMES)
        return _URC_END_OF_STACK;
    t->ip = (uintptr_t)_Unwind_GetIPInfo(context, &t->interrupted);
    if (!t->ip)
        return _URC_NO_REASON;                  /* libgcc's mark behind the outermost frame */
    t->ip += (uintptr_t)t->interrupted; /* as return addresses are: behind the instruction */
    t->sp = (uintptr_t)_Unwind_GetCFA(context); /* its own, at its call */
    t->function = (uintptr_t)_Unwind_GetRegionStart(context);
    for (int i = 0; i < REGISTERS; i++)
        t->value[i] = (uintptr_t)_Unwind_GetGR(context, (int)registers[i]);
    p->count++;
    return _URC_NO_REASON;
}

static void differ(uint32_t frame, const char *what, uintptr_t ours, uintptr_t theirs)
{
    atomic_fetch_add(&differences, 1);
    if (!atomic_flag_test_and_set(&told))
        (void)snprintf(first_difference, sizeof first_difference, "frame %u: %s is %#lx, not %#lx",
                       frame, what, (unsigned long)ours, (unsigned long)theirs);
}

static void compare_frame(const stacksplice_walk *walk, uint32_t i, const truth *t)
{
    const stacksplice_native_frame *f = &walk->frames[i];
    int interrupted = (f->flags & STACKSPLICE_NATIVE_SIGNAL) != 0;

    if (f->ip != t->ip)
        differ(i, "ip", f->ip, t->ip);
    if (f->sp != t->sp)
        differ(i, "sp", f->sp, t->sp);
    if (f->function != t->function)
        differ(i, "function", f->function, t->function);
    if (interrupted != t->interrupted)
        differ(i, "interrupted", (uintptr_t)interrupted, (uintptr_t)t->interrupted);
    signals += (uint64_t)interrupted;
    for (int r = 0; r < REGISTERS; r++) {
        uintptr_t value = 0;

        if (!stacksplice_walk_register(walk, i, registers[r], &value))
            differ(i, "a register is unknown", registers[r], t->value[r]);
        else if (value != t->value[r])
            differ(i, "a register", value, t->value[r]);
    }
}

/* Inside a capture, so that both walks see one stack. */
static void collect(stacksplice_walk *walk, void *data)
{
    probe *p = active;
    uint32_t start = 0;

    (void)data;
    if (!p)
        return;
    p->count = 0;
    _Unwind_Backtrace(keep, p);
    while (start < p->count && p->frames[start].sp != walk->frames[0].sp)
        start++;
    if (walk->truncated)
        differ(walk->frame_count, "truncated", 1, 0);
    if (walk->frame_count != p->count - start)
        differ(walk->frame_count, "the number of frames", walk->frame_count, p->count - start);
    for (uint32_t i = 0; i < walk->frame_count && start + i < p->count; i++)
        compare_frame(walk, i, &p->frames[start + i]);
    p->compared = walk->frame_count;
}

void probe_begin(void)
{
    static const stacksplice_source source = {
        sizeof source, STACKSPLICE_SOURCE_VERSION, "probe", &source, collect, NULL, NULL};

    if (stacksplice_add_source(&source) < 0)
        abort();
}

uint32_t probe_compare(void)
{
    static _Thread_local probe mine;
    uint32_t captured;

    mine.compared = 0;
    active = &mine;
    if (stacksplice_capture(0, 0, NULL, &captured, NULL) < 0)
        differ(0, "the capture failed", 1, 0);
    active = NULL;
    if (!mine.compared)
        differ(0, "nothing was compared", 0, 1);
    frames += mine.compared;
    return mine.compared;
}

uint32_t probe_differences(const char **first)
{
    uint32_t count = atomic_load(&differences);

    *first = count ? first_difference : NULL;
    return count;
}

uint64_t probe_frames(void)
{
    return frames;
}

uint64_t probe_signals(void)
{
    return signals;
}
