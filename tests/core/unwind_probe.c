#include "unwind_probe.h"

#include "machine.h"
#include "frames.h"

#include <stacksplice/source.h>

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unwind.h>

#define MAX_FRAMES 1024
#define REGISTERS (sizeof registers / sizeof *registers)

static const uint32_t registers[] = {MACHINE_SAVED};

typedef struct truth {
    uintptr_t ip, sp, function;
    uintptr_t value[REGISTERS];
    int interrupted;
} truth;

typedef struct probe {
    truth frames[MAX_FRAMES];
    uint32_t count;
    uint32_t compared;
    bool complete; /* libgcc came to the end of the stack */
    bool cut;      /* ours did not */
    bool crashed;  /* libgcc */
} probe;

static _Thread_local probe *active;
static _Thread_local sigjmp_buf *volatile survivor; /* during libgcc's walk */
static atomic_bool survives;
static atomic_uint crashes;
static atomic_bool expects_wrong_data;
static atomic_uint unknown;
static _Thread_local int falsified; /* one of the columns below, plus 1 */
static const char *const columns[] = {"ip", "sp", "function", "register", "count"};
static atomic_uint differences;
static atomic_flag told = ATOMIC_FLAG_INIT;
static char first_difference[1000];
static uintptr_t cut_at[2]; /* the last elements of the first stack that was cut short: see told */
static _Atomic uint64_t frames, signals;

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    probe *p = data;
    truth *t = &p->frames[p->count];

    if (p->count == MAX_FRAMES)
        return _URC_END_OF_STACK;
    t->ip = (uintptr_t)_Unwind_GetIPInfo(context, &t->interrupted);
    if (!t->ip) {
        p->complete = true; /* libgcc's mark behind the outermost frame */
        return _URC_NO_REASON;
    }
    t->ip += (uintptr_t)t->interrupted; /* as return addresses are: behind the instruction */
    t->sp = (uintptr_t)_Unwind_GetCFA(context); /* its own, at its call */
#if defined(__aarch64__)
    if (t->interrupted) /* there it gives the address of the registers that the kernel left */
        t->sp = (uintptr_t)_Unwind_GetGR(context, MACHINE_SP);
#endif
    t->function = (uintptr_t)_Unwind_GetRegionStart(context);
    for (size_t i = 0; i < REGISTERS; i++)
        t->value[i] = (uintptr_t)_Unwind_GetGR(context, (int)registers[i]);
    p->count++;
    return _URC_NO_REASON;
}

/* One wrong value in the middle of what libgcc said. */
static void falsify(probe *p, uint32_t start)
{
    truth *t = &p->frames[start + (p->count - start) / 2];

    switch (falsified - 1) {
    case 0:
        t->ip++;
        break;
    case 1:
        t->sp += sizeof(void *);
        break;
    case 2:
        t->function--;
        break;
    case 3:
        t->value[REGISTERS - 1] ^= 1;
        break;
    case 4:
        p->count--;
        break;
    default:
        break;
    }
    falsified = 0;
}

static void differ(uint32_t frame, const char *what, uintptr_t ours, uintptr_t theirs)
{
    atomic_fetch_add(&differences, 1);
    if (!atomic_flag_test_and_set(&told))
        (void)snprintf(first_difference, sizeof first_difference, "frame %u: %s is %#lx, not %#lx",
                       frame, what, (unsigned long)ours, (unsigned long)theirs);
}

/* Where the code that a signal handler returns to has no unwind data, libgcc still has the function
   of the frame before. */
static bool is_left_over(const stacksplice_walk *walk, uint32_t i, const truth *t)
{
    return i > 0 && !walk->frames[i].function && t[-1].function == t->function &&
           i + 1 < walk->frame_count && (walk->frames[i + 1].flags & STACKSPLICE_NATIVE_SIGNAL);
}

static bool is_behind_signal(const stacksplice_walk *walk, uint32_t i)
{
    while (i > 0 && !(walk->frames[i - 1].flags & STACKSPLICE_NATIVE_SIGNAL))
        i--;
    return i > 0;
}

static void miss(const stacksplice_walk *walk, uint32_t i, const char *what, uintptr_t ours,
                 uintptr_t theirs)
{
    if (atomic_load(&expects_wrong_data) && is_behind_signal(walk, i))
        atomic_fetch_add(&unknown, 1);
    else
        differ(i, what, ours, theirs);
}

/* Asked for two at a time, registers have the same values. */
static void compare_pairs(const stacksplice_walk *walk, uint32_t i, const truth *t)
{
    for (size_t r = 0; r + 1 < REGISTERS; r++) {
        const uint32_t two[2] = {registers[r], registers[r + 1]};
        uintptr_t values[2];

        if (!stacksplice_walk_registers(walk, i, two, 2, values))
            miss(walk, i, "two registers are unknown", two[0], two[1]);
        else if (values[0] != t->value[r] || values[1] != t->value[r + 1])
            differ(i, "two registers", values[0], t->value[r]);
    }
}

static void compare_frame(const stacksplice_walk *walk, uint32_t i, const truth *t)
{
    const stacksplice_native_frame *f = &walk->frames[i];
    int interrupted = (f->flags & STACKSPLICE_NATIVE_SIGNAL) != 0;

    if (f->ip != t->ip)
        differ(i, "ip", f->ip, t->ip);
    if (f->sp != t->sp)
        differ(i, "sp", f->sp, t->sp);
    if (t->function && f->function != t->function && !is_left_over(walk, i, t))
        differ(i, "function", f->function, t->function);
    if (interrupted != t->interrupted)
        differ(i, "interrupted", (uintptr_t)interrupted, (uintptr_t)t->interrupted);
    signals += (uint64_t)interrupted;
    for (size_t r = 0; r < REGISTERS; r++) {
        uintptr_t value = 0;

        if (!stacksplice_walk_register(walk, i, registers[r], &value))
            miss(walk, i, "a register is unknown", registers[r], t->value[r]);
        else if (value != t->value[r])
            differ(i, "a register", value, t->value[r]);
    }
    compare_pairs(walk, i, t);
}

/* Whether the outermost function is of a C library without unwind data: libgcc does not know that it is
   the outermost. */
static bool ends_without_data(const stacksplice_walk *walk)
{
#ifdef __GLIBC__
    (void)walk;
    return false;
#else
    return !walk->frames[walk->frame_count - 1].function;
#endif
}

/*
 * Both end at one frame.  Where libgcc found no unwind data, which is in its last frame, ours may
 * go on by frame pointers, and say so of the first that it finds.
 */
static void check_end(const stacksplice_walk *walk, probe *p, uint32_t start)
{
    uint32_t theirs = p->count - start;

    p->cut = p->complete && walk->truncated;
    if (p->cut)
        differ(walk->frame_count, "truncated", 1, 0);
    if (!p->complete && !walk->truncated && walk->frame_count == theirs && !ends_without_data(walk))
        differ(walk->frame_count, "truncated", 0, 1);
    if (walk->frame_count != theirs && (p->complete || walk->frame_count < theirs))
        differ(walk->frame_count, "the number of frames", walk->frame_count, theirs);
    if (theirs < walk->frame_count && !(walk->frames[theirs].flags & STACKSPLICE_NATIVE_INFERRED))
        differ(theirs, "not said to be inferred", walk->frames[theirs].ip, 0);
    if (!p->complete && p->count)
        p->frames[p->count - 1].function = 0; /* libgcc still has the one before */
}

static void on_crash(int number)
{
    if (survivor)
        siglongjmp(*survivor, 1);
    (void)signal(number, SIG_DFL); /* it happens again */
}

bool probe_survive(void)
{
    struct sigaction action = {.sa_handler = on_crash};

    atomic_store(&survives, true);
    return sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

/* libgcc's walk.  It holds nothing that a jump out of it could leave behind. */
static void walk_by_libgcc(probe *p)
{
    sigjmp_buf here;

    p->count = 0;
    p->complete = p->crashed = false;
    if (!atomic_load(&survives)) {
        _Unwind_Backtrace(keep, p);
        return;
    }
    survivor = &here;
    if (sigsetjmp(here, 1) == 0) {
        _Unwind_Backtrace(keep, p);
    } else {
        p->crashed = true;
        atomic_fetch_add(&crashes, 1);
    }
    survivor = NULL;
}

/* Inside a capture, so that both walks see one stack. */
static void collect(stacksplice_walk *walk, void *data)
{
    probe *p = active;
    uint32_t start = 0;

    if (!p)
        return;
    p->compared = walk->frame_count;
    walk_by_libgcc(p);
    if (p->crashed)
        return;
    while (start < p->count && p->frames[start].sp != walk->frames[0].sp)
        start++;
    falsify(p, start);
    check_end(walk, p, start);
    for (uint32_t i = 0; i < walk->frame_count && start + i < p->count; i++)
        compare_frame(walk, i, &p->frames[start + i]);
}

/* The plain list of addresses, taken by a call from probe_compare, against the walk's. */
static __attribute__((noinline)) void compare_addresses(const probe *p)
{
    static _Thread_local PVOID addresses[MAX_FRAMES];
    uint32_t count = RtlCaptureStackBackTrace(0, MAX_FRAMES, addresses, NULL), comparer = 0;

    while (comparer < p->count && p->frames[comparer].function != (uintptr_t)probe_compare)
        comparer++;
    if (p->complete ? comparer + count != p->count + 1 : comparer + count < p->count + 1) {
        differ(count, "the number of addresses", count, p->count + 1 - comparer);
        return;
    }
    for (uint32_t i = 1; comparer + i < p->count; i++)
        if ((uintptr_t)addresses[i + 1] != p->frames[comparer + i].ip)
            differ(i, "an address", (uintptr_t)addresses[i + 1], p->frames[comparer + i].ip);
}

/* The same stack once more: its last element is the gap that says why the walk ended. */
static __attribute__((noinline)) void keep_end(void)
{
    static _Thread_local uintptr_t stack[MAX_FRAMES];
    static atomic_flag kept = ATOMIC_FLAG_INIT;
    uint32_t captured = 0;

    if (!atomic_flag_test_and_set(&kept) &&
        stacksplice_capture(0, MAX_FRAMES, stack, &captured, NULL) >= 0 && captured > 1)
        memcpy(cut_at, &stack[captured - 2], sizeof cut_at);
}

bool probe_falsify(const char *column)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strcmp(column, columns[i]) == 0) {
            falsified = (int)i + 1;
            return true;
        }
    return false;
}

void probe_begin(void)
{
    static const stacksplice_source source = {SOURCE, .language = "probe", .identity = &source,
                                              .collect = collect};

    if (stacksplice_add_source(&source) < 0)
        abort();
}

uint32_t probe_compare(void)
{
    static _Thread_local probe mine;
    uint32_t captured;

    mine.compared = 0;
    mine.cut = mine.crashed = false;
    active = &mine;
    if (stacksplice_capture(0, 0, NULL, &captured, NULL) < 0)
        differ(0, "the capture failed", 1, 0);
    active = NULL;
    if (mine.cut)
        keep_end();
    if (!mine.compared)
        differ(0, "nothing was compared", 0, 1);
    if (mine.crashed)
        return 0;
    compare_addresses(&mine);
    frames += mine.compared;
    return mine.compared;
}

static int tell_frame(const stacksplice_frame *frame, void *data)
{
    size_t used = strlen(first_difference);
    char *out = first_difference + used;

    if (frame->reason)
        (void)snprintf(out, sizeof first_difference - used, ": %s", frame->reason);
    else
        (void)snprintf(out, sizeof first_difference - used, "; the last are %s+%#lx in %s+%#lx",
                       frame->function ? frame->function : "?",
                       (unsigned long)frame->function_offset, frame->module ? frame->module : "?",
                       (unsigned long)frame->module_offset);
    return 1;
}

/* Not in the comparison, which may be in a signal handler. */
static void tell_end(void)
{
    for (size_t i = 0; i < 2 && cut_at[1]; i++)
        (void)stacksplice_resolve(cut_at[i], tell_frame, NULL);
    memset(cut_at, 0, sizeof cut_at);
}

uint32_t probe_differences(const char **first)
{
    uint32_t count = atomic_load(&differences);

    tell_end();
    *first = count ? first_difference : NULL;
    return count;
}

uint32_t probe_crashes(void)
{
    return atomic_load(&crashes);
}

void probe_expect_wrong_data(void)
{
    atomic_store(&expects_wrong_data, true);
}

uint32_t probe_unknown(void)
{
    return atomic_load(&unknown);
}

uint64_t probe_frames(void)
{
    return frames;
}

uint64_t probe_signals(void)
{
    return signals;
}
