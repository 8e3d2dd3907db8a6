/*
 * fault_program HOW [WHERE]: crashes in the way HOW, in the main thread, a "thread" or a "child";
 * fault_test.py looks at what is left.  Before it crashes it prints the stack of the place.
 */
#include <stacksplice/source.h>

#include <stacksplice/crash.h>

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not every C library comes with the kernel's headers. */
#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#define HAVE_FILTERS
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_INSTRUMENTED = 1 };
#else
enum { IS_INSTRUMENTED = 0 };
#endif

#define NOINLINE __attribute__((noinline))

/* A test that this build cannot do. */
static void needs_plain_build(void)
{
    if (IS_INSTRUMENTED)
        exit(77);
}

static void put(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(3);
}

/* ---- Ways to crash ---------------------------------------------------------------------------*/

static NOINLINE void print_stack(void)
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
static NOINLINE void
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

/* getppid is trapped. */
static NOINLINE void call_forbidden(void)
{
#ifdef HAVE_FILTERS
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    print_stack();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(77); /* an emulator */
    (void)syscall(SYS_getppid);
#else
    exit(77);
#endif
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
    {"segv", cause_fault},      {"bus", cause_bus_error},      {"fpe", divide_by_zero},
    {"ill", do_illegal},        {"abort", call_abort},         {"sys", call_forbidden},
    {"overflow", use_up_stack}, {"heap", damage_heap},         {"memory", use_up_memory},
    {"error", damage_error},    {"capture", crash_in_capture}, {"lock", crash_beside_lock},
    {"failfast", fail_fast},    {"kill", send_to_oneself},     {"call", call_nothing},
};

static NOINLINE void crash(const char *how)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!strcmp(ways[i].how, how))
            ways[i].crash();
    }
    put("went on\n");
}

/* ---- Places ----------------------------------------------------------------------------------*/

static void *crash_in_thread(void *how)
{
    (void)stacksplice_crash_thread();
    (void)RoOriginateError(E_BOUNDS, NULL);
    crash(how);
    return NULL;
}

static void crash_elsewhere(const char *how)
{
    pthread_t thread;

    (void)pthread_create(&thread, NULL, crash_in_thread, (void *)(uintptr_t)how);
    (void)pthread_join(thread, NULL);
}

/* A child that shares the memory: its report would be that of the parent. */
static int crash_in_vforked(void)
{
#if defined(__SANITIZE_THREAD__)
    exit(77); /* ThreadSanitizer makes a fork of it */
#endif
    int status = 0;
    pid_t child = vfork();

    if (child == 0)
        cause_fault();
    (void)waitpid(child, &status, 0);
    printf("child %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    cause_fault();
    return 4;
}

static int crash_in_child(const char *how)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        crash(how);
        _exit(4);
    }
    (void)waitpid(child, &status, 0);
    printf("child %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* ---- Other threads ---------------------------------------------------------------------------*/

static atomic_int waiting;

static void *wait_forever(void *is_deaf)
{
    sigset_t all;

    sigfillset(&all);
    if (is_deaf)
        (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&waiting))
        (void)pause();
    return NULL;
}

static void start_waiting(int count, int is_deaf)
{
    static pthread_t threads[400];
    int before = atomic_load(&waiting);

    for (int i = 0; i < count; i++) {
        pthread_attr_t small;

        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 << 10);
        (void)pthread_create(&threads[i], &small, wait_forever, is_deaf ? &threads[i] : NULL);
    }
    while (atomic_load(&waiting) < before + count)
        (void)usleep(1000);
}

static pthread_barrier_t both;

static void *crash_together(void *how)
{
    (void)pthread_barrier_wait(&both);
    crash(how);
    return NULL;
}

static void crash_in_two_threads(const char *how)
{
    pthread_t threads[2];

    (void)pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++)
        (void)pthread_create(&threads[i], NULL, crash_together, (void *)(uintptr_t)how);
    (void)pthread_join(threads[0], NULL);
}

/* ---- Handlers of others ----------------------------------------------------------------------*/

static void print_signal(int number, siginfo_t *info, void *context)
{
    char text[64];

    (void)context;
    (void)snprintf(text, sizeof text, "handler %d at %p\n", number, info->si_addr);
    put(text);
}

/* A handler that ends the process itself. */
static void print_and_exit(int number, siginfo_t *info, void *context)
{
    print_signal(number, info, context);
    _exit(5);
}

static struct sigaction found;

/* As faulthandler does: puts back what it found, and raises the signal again. */
static void print_and_raise(int number, siginfo_t *info, void *context)
{
    print_signal(number, info, context);
    (void)sigaction(number, &found, NULL);
    (void)raise(number);
}

static void use_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | flags;
    (void)sigaction(number, &action, &found);
}

/* A handler that repairs what was wrong, as those of some runtimes do. */
static volatile char *repaired;

static void repair(int number, siginfo_t *info, void *context)
{
    print_signal(number, info, context);
    if ((uintptr_t)info->si_addr / 4096 != (uintptr_t)repaired / 4096)
        (void)signal(number, SIG_DFL); /* not ours */
    (void)mprotect((void *)(uintptr_t)repaired, 4096, PROT_READ | PROT_WRITE);
}

/* ---- Cases -----------------------------------------------------------------------------------*/

static uint32_t others_first;

static void install(const char *directory, uint32_t timeout)
{
    const stacksplice_crash_options options = {sizeof options, directory, timeout, others_first};

    if (stacksplice_install_crash_handler(&options) != S_OK)
        exit(3);
}

static void check(int holds, const char *what)
{
    if (holds)
        return;
    put(what);
    exit(3);
}

static void check_arguments(void)
{
    stacksplice_crash_options options = {sizeof options, NULL, 0, 0};
    static char directory[5000];
    struct sigaction now;

    check(stacksplice_remove_crash_handler() == S_FALSE, "remove first");
    options.size--;
    check(stacksplice_install_crash_handler(&options) == E_INVALIDARG, "size");
    options.size++;
    memset(directory, 'x', sizeof directory - 1);
    options.directory = directory;
    check(stacksplice_install_crash_handler(&options) == E_INVALIDARG, "directory");
    check(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "no handler yet");
    check(stacksplice_install_crash_handler(NULL) == S_OK, "install");
    check(stacksplice_install_crash_handler(NULL) == S_FALSE, "install again");
    check(stacksplice_remove_crash_handler() == S_OK, "remove");
    check(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "no handler any more");
    check(stacksplice_crash_thread() == S_FALSE, "it has an alternate stack");
    put("checked\n");
    exit(0);
}

static int run_case(const char *name)
{
    if (!strcmp(name, "arguments"))
        check_arguments();
    if (!strcmp(name, "build")) {
        put(stacksplice_build());
        exit(0);
    }
    if (!strcmp(name, "removed")) {
        install(NULL, 0);
        (void)stacksplice_remove_crash_handler();
    }
    if (!strcmp(name, "removed-below")) {
        install(NULL, 0);
        use_handler(SIGSEGV, print_and_raise, 0);
        (void)stacksplice_remove_crash_handler();
    }
    if (!strcmp(name, "no-file"))
        install("", 0);
    if (!strcmp(name, "earlier")) {
        use_handler(SIGSEGV, print_and_exit, SA_ONSTACK);
        install(NULL, 0);
    }
    if (!strcmp(name, "later")) {
        install(NULL, 0);
        use_handler(SIGSEGV, print_and_raise, 0);
    }
    if (!strcmp(name, "ignored")) {
        (void)signal(SIGSEGV, SIG_IGN);
        install(NULL, 0);
        (void)kill(getpid(), SIGSEGV);
        put("went on\n");
        return 0;
    }
    if (!strcmp(name, "repaired")) {
        repaired = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        use_handler(SIGSEGV, repair, 0);
        install(NULL, 0);
        repaired[0] = 1;
        put("went on\n");
        return 0;
    }
    if (!strcmp(name, "runtime")) {
        others_first = 1;
        repaired = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        use_handler(SIGSEGV, repair, 0);
        install(NULL, 0);
        repaired[0] = 1;
        put("repaired\n");
    }
    if (!strcmp(name, "threads") || !strcmp(name, "many"))
        needs_plain_build(); /* a sanitizer has threads of its own, and delays signals */
    if (!strcmp(name, "threads")) {
        start_waiting(2, 0);
        start_waiting(1, 1);
        install(NULL, 5000);
    }
    if (!strcmp(name, "many")) {
        start_waiting(300, 0);
        install(NULL, 60000);
    }
    if (!strcmp(name, "vfork")) {
        install(NULL, 0);
        return crash_in_vforked();
    }
    if (!strcmp(name, "two")) {
        install(NULL, 0);
        crash_in_two_threads("segv");
    }
    crash("segv");
    return 4;
}

int main(int count, char **arguments)
{
    const char *where = count > 2 ? arguments[2] : "main";

    setvbuf(stdout, NULL, _IONBF, 0);
    (void)RoOriginateError(E_INVALIDARG, NULL);
    if (!strcmp(where, "case"))
        return run_case(arguments[1]);
    install(NULL, 0);
    if (!strcmp(where, "thread"))
        crash_elsewhere(arguments[1]);
    else if (!strcmp(where, "child"))
        return crash_in_child(arguments[1]);
    else
        crash(arguments[1]);
    return 4;
}
