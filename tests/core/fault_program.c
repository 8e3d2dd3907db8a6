/*
 * fault_program HOW [WHERE]: crashes in the way HOW, in the main thread, a "thread" or a "child";
 * fault_test.py looks at what is left.  Before it crashes it prints the stack of the place.
 */
#include "fault_ways.h"

#include <stacksplice/source.h>

#include <stacksplice/crash.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

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

/* Prints how CHILD ended; its status if it ended by itself. */
static int tell_child(pid_t child)
{
    int status = 0;

    (void)waitpid(child, &status, 0);
    printf("child %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* A child that shares the memory: its report would be that of the parent. */
static void crash_in_vforked(void)
{
#if defined(__SANITIZE_THREAD__)
    exit(77); /* ThreadSanitizer makes a fork of it */
#endif
    pid_t child = vfork();

    if (child == 0)
        cause_fault();
    (void)tell_child(child);
    cause_fault();
}

static int crash_in_child(const char *how)
{
    pid_t child = fork();

    if (child == 0) {
        crash(how);
        _exit(4);
    }
    return tell_child(child);
}

/* ---- A stack that nobody has added ----------------------------------------------------------*/

enum { FIBER = 64 << 10, GUARD = 4 << 10 };

static char *fiber;
static const char *fiber_end;

static __attribute__((noinline)) void crash_on_it(void)
{
    (void)stacksplice_add_stack(fiber, fiber + FIBER);
    print_stack(); /* whole: the stack is known */
    (void)stacksplice_remove_stack(fiber);
    crash(fiber_end);
}

static void begin_fiber(void)
{
    crash_on_it();
    put("went on\n");
}

static void crash_on_fiber(const char *how)
{
#ifdef __GLIBC__
    static ucontext_t inside, outside;
    char *memory =
        mmap(NULL, FIBER + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    needs_plain_build();
    (void)mprotect(memory, GUARD, PROT_NONE);
    fiber = memory + GUARD;
    fiber_end = how;
    (void)getcontext(&inside);
    inside.uc_stack.ss_sp = fiber;
    inside.uc_stack.ss_size = FIBER;
    inside.uc_link = &outside;
    makecontext(&inside, begin_fiber, 0);
    (void)swapcontext(&outside, &inside);
#else
    fiber_end = how;
    (void)begin_fiber;
    exit(77);
#endif
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

static void install_without_file(void)
{
    install("", 0);
}

static void print_build(void)
{
    put(stacksplice_build());
    exit(0);
}

static void install_and_remove(void)
{
    install(NULL, 0);
    (void)stacksplice_remove_crash_handler();
}

static void remove_below_another(void)
{
    install(NULL, 0);
    use_handler(SIGSEGV, print_and_raise, 0);
    (void)stacksplice_remove_crash_handler();
}

static void install_after_another(void)
{
    use_handler(SIGSEGV, print_and_exit, SA_ONSTACK);
    install(NULL, 0);
}

static void install_before_another(void)
{
    install(NULL, 0);
    use_handler(SIGSEGV, print_and_raise, 0);
}

static void raise_before_the_report(void)
{
    others_first = 1;
    use_handler(SIGSEGV, print_and_raise, 0);
    install(NULL, 0);
}

static void block_signal(void)
{
    sigset_t all;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    install(NULL, 0);
}

static void ignore_signal(void)
{
    (void)signal(SIGSEGV, SIG_IGN);
    install(NULL, 0);
    (void)kill(getpid(), SIGSEGV);
    put("went on\n");
    exit(0);
}

static void fault_and_repair(void)
{
    repaired = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    use_handler(SIGSEGV, repair, 0);
    install(NULL, 0);
    repaired[0] = 1;
}

static void report_what_is_repaired(void)
{
    fault_and_repair();
    put("went on\n");
    exit(0);
}

static void let_runtime_repair(void)
{
    others_first = 1;
    fault_and_repair();
    put("repaired\n");
}

/* A sanitizer has threads of its own, and delays signals. */
static void start_some_threads(void)
{
    needs_plain_build();
    start_waiting(2, 0);
    start_waiting(1, 1);
    install(NULL, 5000);
}

/* One thread waits for the last real-time signal, as for a timer's, another for all. */
static void *wait_for_signals(void *is_for_one)
{
    sigset_t signals;

    sigfillset(&signals);
    if (is_for_one) {
        sigemptyset(&signals);
        sigaddset(&signals, SIGRTMAX);
    }
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&waiting))
        if (sigwaitinfo(&signals, NULL) > 0)
            put("taken from its own\n");
    return NULL;
}

/* Threads that wait for signals beside others. */
static void start_signal_threads(void)
{
    pthread_t thread;
    sigset_t last;

    needs_plain_build();
    sigemptyset(&last);
    sigaddset(&last, SIGRTMAX);
    (void)pthread_sigmask(SIG_BLOCK, &last, NULL); /* so that only the one who waits gets it */
    start_waiting(2, 0);
    for (int i = 0; i < 2; i++)
        (void)pthread_create(&thread, NULL, wait_for_signals, i ? &waiting : NULL);
    while (atomic_load(&waiting) < 4)
        (void)usleep(1000);
    (void)usleep(100000); /* until they wait, most likely */
    install(NULL, 5000);
}

static void start_many_threads(void)
{
    needs_plain_build();
    start_waiting(300, 0);
    install(NULL, 60000);
}

static void crash_in_a_vforked_child(void)
{
    install(NULL, 0);
    crash_in_vforked();
}

static void crash_in_two(void)
{
    install(NULL, 0);
    crash_in_two_threads("segv");
}

/* What is done before the crash, or instead of it. */
static const struct {
    const char *name;
    void (*prepare)(void);
} cases[] = {
    {"arguments", check_arguments},
    {"build", print_build},
    {"removed", install_and_remove},
    {"removed-below", remove_below_another},
    {"no-file", install_without_file},
    {"earlier", install_after_another},
    {"later", install_before_another},
    {"ignored", ignore_signal},
    {"repaired", report_what_is_repaired},
    {"runtime", let_runtime_repair},
    {"threads", start_some_threads},
    {"many", start_many_threads},
    {"vfork", crash_in_a_vforked_child},
    {"two", crash_in_two},
    {"waiters", start_signal_threads},
    {"raised", raise_before_the_report},
    {"blocked", block_signal},
};

static int run_case(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].name, name))
            cases[i].prepare();
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
    if (!strcmp(where, "bare fiber"))
        (void)sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    if (!strcmp(where, "thread"))
        crash_elsewhere(arguments[1]);
    else if (strstr(where, "fiber"))
        crash_on_fiber(arguments[1]);
    else if (!strcmp(where, "child"))
        return crash_in_child(arguments[1]);
    else
        crash(arguments[1]);
    return 4;
}
