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

static NOINLINE int overflow(int depth)
{
    volatile char room[256]; /* so that no compiler makes frames of a few bytes */

    for (size_t i = 0; i < sizeof room; i += 64)
        room[i] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + room[64 * (depth & 3)];
}

static NOINLINE void use_up_stack(void)
{
    print_stack();
    (void)overflow(0);
}

/* All blocks from one on, what lies between them, and the rest of the heap. */
static NOINLINE void damage_heap(void)
{
    char *volatile blocks[100];

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = malloc(200 + i);
    print_stack();
    for (volatile char *b = blocks[0]; b < blocks[99] + 1000; b++)
        *b = (char)0xA5;
    free(blocks[50]);
}

void exhaust_memory(void)
{
    const struct rlimit none = {1, 1};
    size_t bytes = 1 << 20;

    needs_plain_build(); /* a sanitizer's own allocations would end the process */
    (void)setrlimit(RLIMIT_AS, &none);
    while (bytes >= 16) {
        void *volatile block = malloc(bytes);

        if (!block)
            bytes /= 2;
    }
}

static NOINLINE void use_up_memory(void)
{
    print_stack();
    exhaust_memory();
    cause_fault();
}

/* The error in the slot is damaged: reading it faults again. */
static NOINLINE void damage_error(void)
{
    IRestrictedErrorInfo *error = NULL;
    void *volatile object;

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

/* The build that a way needs, and the system call that a filter answers so meanwhile. */
enum { ANY, PLAIN };

static const struct {
    const char *how;
    void (*crash)(void);
    int build, answer;
    unsigned filtered; /* 0: none */
} ways[] = {
    {"segv", cause_fault, ANY, 0, 0},
    {"bus", cause_bus_error, ANY, 0, 0},
    {"fpe", divide_by_zero, ANY, 0, 0},
    {"ill", do_illegal, ANY, 0, 0},
    {"abort", call_abort, ANY, 0, 0},
    {"sys", call_forbidden, ANY, 0, 0},
    {"overflow", use_up_stack, PLAIN, 0, 0},
    {"heap", damage_heap, PLAIN, 0, 0},
    {"memory", use_up_memory, ANY, 0, 0},
    {"error", damage_error, PLAIN, 0, 0},
    {"capture", crash_in_capture, ANY, 0, 0},
    {"lock", crash_beside_lock, ANY, 0, 0},
    {"failfast", fail_fast, ANY, 0, 0},
    {"kill", send_to_oneself, ANY, 0, 0},
    {"call", call_nothing, ANY, 0, 0},
    {"cancelled", crash_when_cancelled, ANY, 0, 0},
    {"no-timer", crash_beside_lock, ANY, REFUSE,
     SYS_timer_create}, /* nothing interrupts the report */
    {"descriptors", use_up_descriptors, ANY, 0, 0},
    {"file-size", limit_files, ANY, 0, 0},
    {"no-actions", cause_fault, PLAIN, REFUSE, SYS_rt_sigaction},
    {"pretended-actions", cause_fault, PLAIN, PRETEND, SYS_rt_sigaction},
    {"abort-no-actions", call_abort, PLAIN, REFUSE, SYS_rt_sigaction},
    {"trapped-actions", cause_fault, PLAIN, TRAP, SYS_rt_sigaction},
    {"trapped-files", cause_fault, PLAIN, TRAP, SYS_openat},
    {"trapped-timer", cause_fault, PLAIN, TRAP, SYS_timer_settime},
};

NOINLINE void crash(const char *how)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].how, how))
            continue;
        if (ways[i].build == PLAIN)
            needs_plain_build();
        if (ways[i].filtered)
            forbid(ways[i].filtered, ways[i].answer);
        ways[i].crash();
    }
    put("went on\n");
}
