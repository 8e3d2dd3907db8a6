/* What goes wrong meanwhile: memory fails, the process forks, signals come, stacks end. */
#include "torture.h"

#include "older_c_library.h"

#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

/* ---- Memory -----------------------------------------------------------------------------------*/

static _Thread_local bool in_handler;

static bool fails(void)
{
    if (in_handler)
        abort(); /* a handler may have interrupted malloc */
    return self && self->failing && draw(self, 3) == 0;
}

static void *allocate(size_t bytes, void *data)
{
    return fails() ? NULL : malloc(bytes);
}

static void *reallocate(void *block, size_t bytes, void *data)
{
    return fails() ? NULL : realloc(block, bytes);
}

static void release(void *block, void *data)
{
    free(block);
}

void memory_begin(void)
{
    const stacksplice_allocator allocator = {sizeof allocator, allocate, reallocate, release, NULL};

    if (stacksplice_set_allocator(&allocator) != 0)
        stop("the allocator could not be set");
}

/* ---- Forks ------------------------------------------------------------------------------------*/

static atomic_uint begun, ended; /* forks and dlcloses */

void loader_is_busy(bool now)
{
    if (now)
        begun++;
    else
        ended++;
}

unsigned loader_watch(void)
{
    return ended;
}

bool loader_was_busy(unsigned since)
{
    return begun != since && older_c_library;
}

void fork_step(worker *w)
{
    pid_t child;
    int status = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* the allocators of gcc 12's sanitizers take no lock for a fork: children hang */
#endif
    loader_is_busy(true);
    child = fork();
    if (child != 0)
        loader_is_busy(false); /* in the child for good: the loader's lock may be lost there */
    if (child == 0) {
        (void)alarm(60); /* a child that hangs is killed, and its parent says so */
        journal_check(w);
        _exit(0);
    }
    if (child < 0)
        stop("the machine lets nobody fork: %s", strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status != 0)
        stop("a forked child ended with status %#x", (unsigned)status);
    w->forks++;
}

/* ---- Signals ----------------------------------------------------------------------------------*/

enum { HANDLER_FRAMES = 2048 };

typedef struct addresses {
    uintptr_t at[HANDLER_FRAMES];
    unsigned count;
    bool complete;
} addresses;

static _Atomic uint64_t handled, empty;

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    addresses *a = data;
    int interrupted = 0;
    uintptr_t ip = (uintptr_t)_Unwind_GetIPInfo(context, &interrupted);

    if (a->count == HANDLER_FRAMES)
        return _URC_END_OF_STACK;
    if (ip)
        a->at[a->count++] = ip + (uintptr_t)interrupted;
    else
        a->complete = true;
    return _URC_NO_REASON;
}

/*
 * The same addresses as libgcc's, which has up to two of ours first.  Where modules are found by
 * asking the loader, the list may end at a new one while another thread forks or unloads one.
 */
static void compare_addresses(const uintptr_t *ours, unsigned count, const addresses *theirs,
                              bool may_end)
{
    unsigned skipped = 0;

    while (skipped < 2 && skipped < theirs->count && theirs->at[skipped] != ours[0])
        skipped++;
    if (skipped + count > theirs->count || (skipped + count < theirs->count && !may_end))
        stop("wrong stack in a signal handler: %u frames, libgcc has %u", count, theirs->count);
    for (unsigned i = 0; i < count; i++)
        if (ours[i] != theirs->at[skipped + i])
            stop("wrong stack in a signal handler: frame %u is %#lx, not %#lx", i,
                 (unsigned long)ours[i], (unsigned long)theirs->at[skipped + i]);
}

/*
 * Wherever the thread is, at its very begin and end and in the middle of a capture too.  But not
 * in the middle of swapcontext: glibc's has wrong unwind data there, with which libgcc crashes.
 */
static void on_signal(int number)
{
    static _Thread_local uintptr_t ours[HANDLER_FRAMES];
    static _Thread_local addresses theirs;
    int saved = errno;
    unsigned since = loader_watch(), count;

    if (self && self->switching)
        return;
    in_handler = true;
    theirs.count = 0;
    theirs.complete = false;
    count = RtlCaptureStackBackTrace(1, HANDLER_FRAMES, (PVOID *)ours, NULL);
    _Unwind_Backtrace(keep, &theirs);
    if (count == 0) {
        empty++; /* what was interrupted is a capture itself, which has the thread's memory */
    } else if (!(self && self->unknown) && theirs.complete) {
        compare_addresses(ours, count, &theirs, loader_was_busy(since));
    }
    in_handler = false;
    handled++;
    errno = saved;
}

static void mask_signal(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    if (pthread_sigmask(how, &set, NULL) != 0)
        stop("no signal mask");
}

void signal_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 3000}, {0, 3000}};

    if (sigaction(SIGPROF, &action, NULL) != 0 || setitimer(ITIMER_PROF, &timer, NULL) != 0)
        stop("no timer");
}

uint64_t signal_end(uint64_t *without_stack)
{
    struct itimerval never = {{0, 0}, {0, 0}};

    (void)setitimer(ITIMER_PROF, &never, NULL);
    *without_stack = empty;
    return handled;
}

/* ---- Stacks that end --------------------------------------------------------------------------*/

enum { SMALL_STACK = 1 << 18, HANDLER_STACK = 1 << 17, ROOM_OF_A_CAPTURE = 1 << 15 };

static _Thread_local sigjmp_buf *way_out;
static _Thread_local const char *lowest;
static _Thread_local bool capturing, captured_near;
static _Atomic uint64_t overflows;

static int (*volatile again)(int);

static NODE int overflow(int n)
{
    volatile char block[700];

    block[0] = (char)n;
    if (!captured_near && (const char *)__builtin_frame_address(0) < lowest + ROOM_OF_A_CAPTURE) {
        uintptr_t frames[8];
        uint32_t count = 0;

        captured_near = capturing = true;
        if (stacksplice_capture(0, 8, frames, &count, NULL) < 0 || count != 8)
            stop("no capture near the end of the stack");
        capturing = false;
    }
    return again(n + 1) + block[0];
}

static void at_guard_page(int number)
{
    uintptr_t frames[500];
    unsigned count, inside = 0;

    if (!way_out || capturing) {
        (void)signal(SIGSEGV, SIG_DFL);
        if (capturing)
            stop("a capture needs more than %d bytes of stack", ROOM_OF_A_CAPTURE);
        return;
    }
    count = RtlCaptureStackBackTrace(0, 500, (PVOID *)frames, NULL);
    for (unsigned i = 0; i < count; i++)
        inside += frames[i] - (uintptr_t)overflow < 1000;
    if (inside < 100 || count < inside + 2)
        stop("wrong stack at the guard page: %u frames, %u of the recursion", count, inside);
    overflows++;
    siglongjmp(*way_out, 1);
}

static void *overflow_once(void *handler_stack)
{
    stack_t alternate = {.ss_sp = handler_stack, .ss_size = HANDLER_STACK}, old;
    sigjmp_buf here;
    void *low;
    size_t size;
    pthread_attr_t attributes;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
        pthread_attr_getstack(&attributes, &low, &size) != 0 || sigaltstack(&alternate, &old) != 0)
        stop("no second stack");
    (void)pthread_attr_destroy(&attributes);
    lowest = low;
    mask_signal(SIG_BLOCK); /* its handler has no room at the end of a stack */
    way_out = &here;
    again = overflow;
    if (sigsetjmp(here, 1) == 0)
        (void)again(1);
    way_out = NULL;
    (void)sigaltstack(&old, NULL);
    return NULL;
}

void *overflow_run(void *unused)
{
    struct sigaction action = {.sa_handler = at_guard_page, .sa_flags = SA_ONSTACK};
    void *handler_stack = malloc(HANDLER_STACK);
    pthread_attr_t attributes;

    if (!handler_stack || sigaction(SIGSEGV, &action, NULL) != 0 ||
        pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, SMALL_STACK) != 0)
        stop("no thread with a small stack");
    while (!stopping) {
        pthread_t thread;
        int refused = pthread_create(&thread, &attributes, overflow_once, handler_stack);

        if (refused)
            stop("the machine gives nobody a thread: %s", strerror(refused));
        pthread_join(thread, NULL);
        (void)usleep(20000);
    }
    (void)pthread_attr_destroy(&attributes);
    free(handler_stack);
    return NULL;
}

uint64_t overflow_count(void)
{
    return overflows;
}
