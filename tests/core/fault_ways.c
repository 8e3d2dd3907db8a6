/* Ways to crash, after the stack of the place was printed. */
#include "fault_ways.h"
#include "calls.h"
#include "instruments.h"

#include <stacksplice/source.h>

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not every C library comes with the kernel's headers. */
#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#define HAVE_FILTERS
#endif

void needs_plain_build(void)
{
    if (SANITIZED)
        exit(77);
}

void put(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(3);
}

NOINLINE void print_stack(void)
{
    uintptr_t frames[64];
    uint32_t count;
    char text[32];

    (void)stacksplice_capture(1, 64, frames, &count, NULL);
    put("stack");
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text, " 0x%lx", (unsigned long)frames[i]);
        put(text);
    }
    put("\n");
}

/* Two threads may do so at once, which is no race to be told of. */
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
NOINLINE void
cause_fault(void)
{
    int *volatile nowhere = (int *)8;

    print_stack();
    *nowhere = 1;
}

static NOINLINE void call_nothing(void)
{
    void (*volatile nothing)(void) = NULL;

    print_stack();
    nothing();
    put("went on\n");
}

static NOINLINE void cause_bus_error(void)
{
    FILE *file = tmpfile();
    volatile char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);

    print_stack();
    (void)mapped[0]; /* the file is empty */
}

static NOINLINE void divide_by_zero(void)
{
    print_stack();
#if defined(__x86_64__)
    __asm__ volatile("xorl %%ecx, %%ecx\n\tmovl $1, %%eax\n\tcltd\n\tidivl %%ecx" ::
                         : "eax", "ecx", "edx");
#else
    (void)raise(SIGFPE); /* other processors have a result */
#endif
}

static NOINLINE void do_illegal(void)
{
    print_stack();
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#elif defined(__aarch64__)
    __asm__ volatile(".inst 0");
#else
    (void)raise(SIGILL);
#endif
}

static NOINLINE void call_abort(void)
{
    print_stack();
    abort();
}

/* What a filter does with a system call. */
enum { REFUSE, TRAP /* by SIGSYS */, PRETEND /* that it was done */ };

static void forbid(unsigned number, int how)
{
#ifdef HAVE_FILTERS
    static const unsigned results[] = {[REFUSE] = SECCOMP_RET_ERRNO | EPERM,
                                       [TRAP] = SECCOMP_RET_TRAP,
                                       [PRETEND] = SECCOMP_RET_ERRNO};
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, results[how]),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(77); /* an emulator */
#else
    exit(77);
#endif
}

static NOINLINE void call_forbidden(void)
{
    print_stack();
    forbid(SYS_getppid, TRAP);
    (void)syscall(SYS_getppid);
}

/* Each name of the test is a filter that the report, or the end after it, meets. */
static NOINLINE void crash_behind_filter(unsigned number, int how)
{
    needs_plain_build();
    forbid(number, how);
    cause_fault();
}

static void crash_without_actions(void)
{
    crash_behind_filter(SYS_rt_sigaction, REFUSE);
}

static void crash_with_pretended_actions(void)
{
    crash_behind_filter(SYS_rt_sigaction, PRETEND);
}

static void abort_without_actions(void)
{
    needs_plain_build();
    forbid(SYS_rt_sigaction, REFUSE);
    call_abort();
}

static void crash_with_trapped_actions(void)
{
    crash_behind_filter(SYS_rt_sigaction, TRAP);
}

static void crash_with_trapped_files(void)
{
    crash_behind_filter(SYS_openat, TRAP);
}

static void crash_with_trapped_timer(void)
{
    crash_behind_filter(SYS_timer_settime, TRAP);
}

static NOINLINE int overflow(int depth)
{
    volatile char room[256]; /* so that no compiler makes frames of a few bytes */

    for (size_t i = 0; i < sizeof room; i += 64)
        room[i] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + room[64 * (depth & 3)];
}

static NOINLINE void use_up_stack(void)
{
    needs_plain_build();
    print_stack();
    (void)overflow(0);
}

/* All blocks from one on, what lies between them, and the rest of the heap. */
static NOINLINE void damage_heap(void)
{
    char *volatile blocks[100];

    needs_plain_build();
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = malloc(200 + i);
    print_stack();
    for (volatile char *b = blocks[0]; b < blocks[99] + 1000; b++)
        *b = (char)0xA5;
    free(blocks[50]);
}

/* As much as there is: the report finds nothing left. */
static NOINLINE void use_up_memory(void)
{
    const struct rlimit none = {1, 1};
    size_t bytes = 1 << 20;

    needs_plain_build();
    print_stack();
    (void)setrlimit(RLIMIT_AS, &none);
    while (bytes >= 16) {
        void *volatile block = malloc(bytes);

        if (!block)
            bytes /= 2;
    }
    cause_fault();
}

/* The error in the slot is damaged: reading it faults again. */
static NOINLINE void damage_error(void)
{
    IRestrictedErrorInfo *error = NULL;
    void *volatile object;

    needs_plain_build();
    (void)stacksplice_peek_error(&error);
    object = error;
    memset(object, 0xA0, 64);
    cause_fault();
}

static void fault_in_capture(stacksplice_walk *walk, void *data)
{
    if (data == walk) /* never */
        return;
    cause_fault();
}

/* While another thread is in the same place and the core's locks are taken. */
static NOINLINE void crash_in_capture(void)
{
    static const stacksplice_source source = {.size = sizeof source,
                                              .version = STACKSPLICE_SOURCE_VERSION,
                                              .language = "test",
                                              .identity = &source,
                                              .collect = fault_in_capture};
    (void)stacksplice_add_source(&source);
    print_stack();
}

static atomic_int is_iterating;

static int hold_on(struct dl_phdr_info *info, size_t size, void *data)
{
    atomic_store(&is_iterating, 1);
    while (atomic_load(&is_iterating))
        (void)pause();
    return 0;
}

static void *hold_loader_lock(void *unused)
{
    (void)dl_iterate_phdr(hold_on, NULL);
    return NULL;
}

/* While another thread has a lock of the C library for good. */
static NOINLINE void crash_beside_lock(void)
{
    pthread_t thread;

    (void)pthread_create(&thread, NULL, hold_loader_lock, NULL);
    while (!atomic_load(&is_iterating))
        (void)usleep(1000);
    cause_fault();
}

/* With nothing that could interrupt the report. */
static NOINLINE void crash_beside_lock_without_timer(void)
{
    forbid(SYS_timer_create, REFUSE);
    crash_beside_lock();
}

/* A cancellation waits for the next cancellation point, such as a write. */
static NOINLINE void crash_when_cancelled(void)
{
    int *volatile nowhere = (int *)8;

    print_stack();
    (void)pthread_cancel(pthread_self());
    *nowhere = 1;
}

/* As all descriptors in use: not one more can be had. */
static NOINLINE void use_up_descriptors(void)
{
    struct rlimit limit;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 0;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    cause_fault();
}

/* The kernel raises SIGXFSZ when the report is written. */
static NOINLINE void limit_files(void)
{
    const struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_FSIZE, &none);
    cause_fault();
}

static NOINLINE void fail_fast(void)
{
    RoFailFastWithErrorContext(E_INVALIDARG);
}

static NOINLINE void send_to_oneself(void)
{
    print_stack();
    (void)kill(getpid(), SIGSEGV);
    for (;;)
        (void)pause();
}

static const struct {
    const char *how;
    void (*crash)(void);
} ways[] = {
    {"segv", cause_fault},
    {"bus", cause_bus_error},
    {"fpe", divide_by_zero},
    {"ill", do_illegal},
    {"abort", call_abort},
    {"sys", call_forbidden},
    {"overflow", use_up_stack},
    {"heap", damage_heap},
    {"memory", use_up_memory},
    {"error", damage_error},
    {"capture", crash_in_capture},
    {"lock", crash_beside_lock},
    {"failfast", fail_fast},
    {"kill", send_to_oneself},
    {"call", call_nothing},
    {"cancelled", crash_when_cancelled},
    {"no-timer", crash_beside_lock_without_timer},
    {"descriptors", use_up_descriptors},
    {"file-size", limit_files},
    {"no-actions", crash_without_actions},
    {"pretended-actions", crash_with_pretended_actions},
    {"abort-no-actions", abort_without_actions},
    {"trapped-actions", crash_with_trapped_actions},
    {"trapped-files", crash_with_trapped_files},
    {"trapped-timer", crash_with_trapped_timer},
};

NOINLINE void crash(const char *how)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!strcmp(ways[i].how, how))
            ways[i].crash();
    }
    put("went on\n");
}
