/* The stack that a thread started with. */
#include "base/thread.h"
#include "base/valgrind.h"
#include "unwind/stack.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The main thread's stack grows downward, and its limit may be raised at any time.  The kernel maps
 * nothing else into the 128 MiB below its end.
 */
#define MAIN_STACK_ROOM ((uintptr_t)128 << 20)

static _Thread_local ss_range own; /* (THREAD) high is 0 before the first look-up */

/* glibc and its dynamic loader: the stack pointer at program start.  All frames lie below it. */
extern void *__libc_stack_end __attribute__((weak));

static uintptr_t program_end(void)
{
    return &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
}

static bool is_main_thread(void)
{
    return ss_thread_id() == (uint64_t)syscall(SYS_getpid);
}

static bool ask_library(ss_range *stack)
{
    pthread_attr_t attr;
    void *low;
    size_t size;
    bool found;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return false;
    found = pthread_attr_getstack(&attr, &low, &size) == 0;
    pthread_attr_destroy(&attr);
    if (found)
        *stack = (ss_range){(uintptr_t)low, (uintptr_t)low + size};
    return found;
}

#ifdef __GLIBC__

/*
 * glibc keeps the bounds in the thread's descriptor, but its call to read them allocates, and a
 * signal handler may be the first caller.  So the loading thread searches its own descriptor for
 * these words, by value.  In another thread they are trusted only if the descriptor itself lies in
 * the block, where glibc puts it.
 */
typedef struct block {
    uintptr_t low;   /* 0: the main thread, which has none */
    uintptr_t size;  /* main thread: the end of the program's stack */
    uintptr_t guard; /* size of the guard at the low end, never to be touched */
} block;

enum { SEARCHED = 4096 };

#define MOST_PROBED ((uintptr_t)256 << 20)

static size_t place; /* (RO) after load: offset of the block in a descriptor; 0: not found */

static bool is_block_of(const block *b, const ss_range *stack)
{
    if (!stack->low)
        return !b->low && b->size == stack->high;
    return b->low && b->low + b->guard == stack->low && b->low + b->size == stack->high;
}

static __attribute__((constructor)) void find_place(void)
{
    ss_range stack = {0, program_end()};
    uintptr_t self = (uintptr_t)pthread_self(), at = self, readable = self;

    if (!stack.high || (!is_main_thread() && !ask_library(&stack)))
        return;
    for (; at - self < SEARCHED && !place; at += sizeof at) {
        for (; readable < at + sizeof(block); readable += sizeof at)
            if ((readable == self || readable % SS_READABLE_STEP == 0) && !ss_is_readable(readable))
                return;
        if (is_block_of((const block *)at, &stack))
            place = at - self;
    }
}

static bool ask_descriptor(ss_range *stack)
{
    uintptr_t self = (uintptr_t)pthread_self(), end = program_end();
    const block *b = (const block *)(self + place);

    if (!place)
        return false;
    if (!b->low && b->size == end) {
        *stack = (ss_range){end - MAIN_STACK_ROOM, end};
        return true;
    }
    if (!b->low || self - b->low >= b->size || b->guard >= b->size)
        return false;
    *stack = (ss_range){b->low + b->guard, b->low + b->size};
    return true;
}

/*
 * Fallback without that offset: the readable memory from the descriptor, above the stack, downward.
 */
static ss_range probe(void)
{
    uintptr_t high = (uintptr_t)pthread_self(), low = high / SS_READABLE_STEP * SS_READABLE_STEP;

    while (high - low < MOST_PROBED && ss_is_readable(low - SS_READABLE_STEP))
        low -= SS_READABLE_STEP;
    return (ss_range){low, high};
}

static void ask_own(uintptr_t sp)
{
    uintptr_t end = program_end();

    if (ask_descriptor(&own))
        return;
    /* After fork in another thread, the child's main thread runs on that thread's stack. */
    if (sp < end && sp >= end - MAIN_STACK_ROOM && is_main_thread())
        own = (ss_range){end - MAIN_STACK_ROOM, end};
    else
        own = probe();
}

bool ss_own_stack_described(bool off)
{
    if (off)
        place = 0;
    return place != 0;
}

#else

static void ask_own(uintptr_t sp)
{
    int before = errno; /* musl looks for the main thread's end by calls that fail */

    (void)sp;
    (void)ask_library(&own); /* allocates nothing in this case */
    errno = before;
}

bool ss_own_stack_described(bool off)
{
    (void)off;
    return false;
}

#endif

static void forget_own(void)
{
    own = (ss_range){0, 0};
    atomic_fetch_add(&ss_stack_version, 1);
}

static __attribute__((constructor)) void watch_forks(void)
{
    static ss_fork_hook forget_in_child = {forget_own, NULL};

    ss_fork_child(&forget_in_child);
}

/* Asking again does not help when SP is below: a signal handler may run on its own stack. */
bool ss_own_stack_find(uintptr_t sp, ss_range *stack)
{
    uintptr_t end = program_end();

    if (!own.high)
        ask_own(sp);
    *stack = own;
    /* After fork in another thread, the child's main thread runs on that thread's stack. */
    if (sp < own.low && sp >= own.high - MAIN_STACK_ROOM &&
        (end ? own.low <= end && end <= own.high : is_main_thread()))
        stack->low = own.high - MAIN_STACK_ROOM;
    return sp >= stack->low && sp < own.high;
}

/* Frames larger than this reach beyond any guard page. */
#define OVERFLOW_ROOM ((uintptr_t)64 << 10)

bool ss_stack_find_overflown(uintptr_t sp, ss_range *stack)
{
    *stack = own;
    return own.high && sp < own.low && own.low - sp <= OVERFLOW_ROOM;
}

/* The kernel reads the new mask first, and then rejects the request because of its invalid HOW. */
static bool is_mask(uintptr_t address)
{
    (void)syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8);
    return errno == EINVAL;
}

/* valgrind prints a line about each mask with such a HOW, and none about this, which filters of system
   calls often refuse. */
static bool is_copied(uintptr_t address)
{
    uint64_t word;
    const struct iovec to = {&word, sizeof word}, from = {(void *)address, sizeof word};
    long copied = syscall(SYS_process_vm_readv, getpid(), &to, 1L, &from, 1L, 0L);

    return copied == (long)sizeof word ||
           (copied < 0 && (errno == EPERM || errno == ENOSYS) && is_mask(address));
}

bool ss_is_readable(uintptr_t address)
{
    int before = errno;
    bool readable =
        ss_valgrind_ask(SS_VALGRIND_RUNS, NULL, 0, 0) ? is_copied(address) : is_mask(address);

    errno = before;
    return readable;
}
