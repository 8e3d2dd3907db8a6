#include "resolve/resolve.h"

#include "base/stack_call.h"
#include "base/thread.h"
#include "unwind/stack.h"

#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

/*
 * For a line table libdw needs 160 KB of stack; libstdc++'s demangler needs 350 KB for a name of
 * 1000 characters.
 *
 * Do not map near the stack: memcheck takes a small jump of the stack pointer for a large frame,
 * and then discards its state of the memory in between.
 */
#define NEEDED ((size_t)512 << 10)
#define MAPPED ((size_t)1 << 20)
#define APART ((size_t)2 << 20)

/* Instrumented code takes several times the stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOR_ERROR ((size_t)64 << 10)
#else
#define FOR_ERROR ((size_t)7 << 10)
#endif

/*
 * The main thread's stack may not grow beyond a limit.  The kernel also counts arguments and
 * environment, at most a quarter, which we ignore.  Other stacks may be larger; for them this may
 * refuse needlessly.
 */
static bool has_room(size_t needed, bool unless_known)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct rlimit limit;
    ss_range stack;

    if (!ss_stack_find(here, &stack))
        return unless_known;
    return here - stack.low >= needed && !getrlimit(RLIMIT_STACK, &limit) &&
           (limit.rlim_cur == RLIM_INFINITY ||
            stack.high - here + needed <= limit.rlim_cur / 4 * 3);
}

bool ss_stack_suffices_for_error(void)
{
    return has_room(FOR_ERROR, true);
}

/* ---- A stack of our own ----------------------------------------------------------------------*/

typedef struct call {
    void (*f)(void *);
    void *data;
    char *low;
    /* The state that sanitizers keep of the stack we left. */
    void *left;
    const void *left_low;
    size_t left_size;
} call;

/*
 * Tell the sanitizers about the switch.  These functions run on both stacks, so they are not
 * instrumented.
 */
#if defined(__SANITIZE_ADDRESS__)
#define UNINSTRUMENTED __attribute__((no_sanitize("address"), noinline))

UNINSTRUMENTED static void run(void *data)
{
    call *c = data;

    __sanitizer_finish_switch_fiber(NULL, &c->left_low, &c->left_size);
    c->f(c->data);
    __sanitizer_start_switch_fiber(NULL, c->left_low, c->left_size);
}

UNINSTRUMENTED static bool enter(call *c)
{
    bool called;

    __sanitizer_start_switch_fiber(&c->left, c->low, MAPPED);
    called = ss_stack_call(c->low + MAPPED, run, c);
    __sanitizer_finish_switch_fiber(c->left, NULL, NULL);
    return called;
}
#elif defined(__SANITIZE_THREAD__)
#define UNINSTRUMENTED __attribute__((no_sanitize("thread"), noinline))

UNINSTRUMENTED static void run(void *data)
{
    call *c = data;
    void *fiber = __tsan_create_fiber(0);

    c->left = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber, 0);
    c->f(c->data);
    __tsan_switch_to_fiber(c->left, 0);
    __tsan_destroy_fiber(fiber);
}

static bool enter(call *c)
{
    return ss_stack_call(c->low + MAPPED, run, c);
}
#else
static bool enter(call *c)
{
    return ss_stack_call(c->low + MAPPED, c->f, c->data);
}
#endif

static bool call_on_mapped(call *c)
{
    const size_t size = APART + MAPPED + APART;
    char *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool called = false;
    sigset_t before;

    if (memory == MAP_FAILED)
        return false;
    c->low = memory + APART;
    if (!mprotect(c->low, MAPPED, PROT_READ | PROT_WRITE)) {
        ss_signals_block(&before);
        called = enter(c);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)munmap(memory, size);
    return called;
}

bool ss_large_stack_call(void (*f)(void *), void *data)
{
    call c = {.f = f, .data = data};
    bool called = true;
    int cancel;

    /*
     * Opening files is a cancellation point; cancelled there, the thread would never release its
     * lock.
     */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (has_room(NEEDED, false))
        f(data);
    else
        called = call_on_mapped(&c);
    (void)pthread_setcancelstate(cancel, NULL);
    return called;
}
