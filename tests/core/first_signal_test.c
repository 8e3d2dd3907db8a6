/*
 * First captures in signal handlers: whatever the thread was at, nothing of malloc and no lock that
 * a fork may hold.  With MANY_KEYS in the environment the program has more thread-specific keys
 * than glibc keeps without memory.
 */
#include "frames.h"
#include "instruments.h"
#include "support.h"
#include "waiting_fork.h"

#include <stacksplice/stacksplice.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

/* ThreadSanitizer keeps a megabyte of its own on the stack of each thread. */
#if UNDER_TSAN
enum { STACK = 4 << 20 };
#else
enum { STACK = 1 << 17 };
#endif
enum { FRAMES = 64, KEYS = 40 };

static _Thread_local bool in_handler;
static _Thread_local unsigned allocations; /* in handlers */

#if defined(__GLIBC__) && !SANITIZED
#define SEEN __attribute__((visibility("default"))) /* by the libraries, too */
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

SEEN void *malloc(size_t size)
{
    allocations += in_handler;
    return __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size)
{
    allocations += in_handler;
    return __libc_calloc(count, size);
}

SEEN void *realloc(void *block, size_t size)
{
    allocations += in_handler;
    return __libc_realloc(block, size);
}

SEEN void free(void *block)
{
    allocations += in_handler;
    __libc_free(block);
}
#endif

/* ---- Before the library is there --------------------------------------------------------------*/

static void begin(int count, char **arguments, char **environment)
{
    pthread_key_t key;

    for (; environment && *environment; environment++)
        for (int i = 0; strcmp(*environment, "MANY_KEYS=1") == 0 && i < KEYS; i++)
            (void)pthread_key_create(&key, NULL);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
                                                                            char **) = begin;

/* ---- Captures ---------------------------------------------------------------------------------*/

typedef struct seen {
    void *addresses[FRAMES];
    uintptr_t elements[FRAMES];
    uint32_t address_count, count;
    stacksplice_hresult hr;
    unsigned allocations;
} seen;

static _Thread_local seen *now;

static void handle(int number)
{
    in_handler = true;
    allocations = 0;
    now->address_count = RtlCaptureStackBackTrace(0, FRAMES, now->addresses, NULL);
    now->hr = stacksplice_capture(0, FRAMES, now->elements, &now->count, NULL);
    now->allocations = allocations;
    in_handler = false;
}

/* The first two captures of this thread, from one place. */
typedef struct twice {
    seen of[2];
    stack_t alternate; /* for the handler; NULL: none */
    bool by_context;   /* on a stack whose bounds nobody gave */
    bool on_alternate; /* the handler ran on one, which sanitizers give each thread */
} twice;

static NOINLINE void capture_twice(twice *t)
{
    for (volatile int i = 0; i < 2; i++) {
        now = &t->of[i];
        (void)raise(SIGUSR1);
    }
}

#ifdef __GLIBC__
static _Thread_local twice *for_context;

static void on_context(void)
{
    capture_twice(for_context);
}

static void capture_on_context(twice *t)
{
    ucontext_t inside, outside;
    void *memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || getcontext(&inside) != 0)
        abort();
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    for_context = t;
    makecontext(&inside, on_context, 0);
    (void)swapcontext(&outside, &inside);
    munmap(memory, STACK);
}
#else
static void capture_on_context(twice *t)
{
}
#endif

static void *run(void *data)
{
    twice *t = data;

    stack_t given;

    if (t->alternate.ss_sp && sigaltstack(&t->alternate, NULL) != 0)
        abort();
    if (sigaltstack(NULL, &given) != 0)
        abort();
    t->on_alternate = !(given.ss_flags & SS_DISABLE);
    if (t->by_context)
        capture_on_context(t);
    else
        capture_twice(t);
    t->alternate.ss_flags = SS_DISABLE;
    if (t->alternate.ss_sp)
        (void)sigaltstack(&t->alternate, NULL);
    return NULL;
}

static void check(const twice *t)
{
    const seen *one = &t->of[0], *two = &t->of[1];

    assert_int_equal(one->allocations, 0);
    assert_int_equal(one->hr, S_OK);
    assert_true(one->count > 3);
#ifdef __GLIBC__ /* elsewhere raise() has no unwind data: what called it is not among the addresses */
    assert_true(one->address_count > 3);
#endif
    assert_int_equal(one->address_count, two->address_count);
    assert_memory_equal(one->addresses, two->addresses,
                        one->address_count * sizeof *one->addresses);
    assert_int_equal(one->count, two->count);
    assert_memory_equal(one->elements, two->elements, one->count * sizeof *one->elements);
    for (uint32_t i = 0; i < one->count; i++)
        assert_false(is_token(one->elements[i]));
}

static void run_in_thread(twice *t, void *stack)
{
    if (stack)
        (void)thread_run_on(stack, STACK, run, t);
    else
        (void)thread_run(run, t);
}

/* ---- Tests ------------------------------------------------------------------------------------*/

/* The process's first, too. */
TEST(test_in_the_main_thread)
{
    twice t = {.by_context = false};

    (void)run(&t);
    check(&t);
}

/* As a fork waits for the allocator that the thread was in when its signal came. */
TEST(test_while_a_fork_waits_for_the_thread)
{
    twice t = {.by_context = false};
    pthread_t thread = start_waiting_fork();

    run_in_thread(&t, NULL);
    sem_post(&enough);
    (void)thread_end(thread);
    stop_waiting_forks();
    check(&t);
}

TEST(test_in_fresh_threads)
{
    static _Alignas(4096) char stack[STACK], alternate[STACK];

    for (int kind = 0; kind < 4; kind++) {
        twice t = {.by_context = false};

        if (kind & 1)
            t.alternate = (stack_t){.ss_sp = alternate, .ss_size = STACK};
        run_in_thread(&t, kind & 2 ? stack : NULL);
        check(&t);
    }
}

/* What cannot be known is said by a gap, which nobody has told before. */
TEST(test_a_gap_that_is_new)
{
    twice t = {.by_context = true};

#ifndef __GLIBC__
    SKIP("this C library has no makecontext");
#endif
    run_in_thread(&t, NULL);
    assert_int_equal(t.of[0].hr, S_OK);
    /* From another stack the interrupted one is read as far as it can be. */
    assert_true(t.of[0].count > 0);
    assert_int_equal(is_token(t.of[0].elements[t.of[0].count - 1]), !t.on_alternate);
    assert_int_equal(t.of[0].allocations, 0);
}

static long mapped_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    (void)fclose(file);
    return pages;
}

static void *do_nothing(void *data)
{
    return data;
}

/* What 200 threads leave behind that capture nothing: some emulators keep something of each. */
static long pages_of_idle_threads(void)
{
    long before = mapped_pages();

    for (int i = 0; i < 200; i++)
        (void)thread_run(do_nothing, NULL);
    return mapped_pages() - before;
}

/* What 200 threads leave behind that capture twice, after 100 others. */
static long pages_of_threads(void)
{
    long before = 0;

    for (int i = 0; i < 300; i++) {
        twice t = {.by_context = false};

        if (i == 100)
            before = mapped_pages();
        run_in_thread(&t, NULL);
    }
    return mapped_pages() - before;
}

/* A thread's memory goes with it, or serves another one: each maps 100 pages.  The C library, or an
   emulator, may reserve an arena at any time, but not three times in a row. */
TEST(test_threads_that_ended_keep_no_memory)
{
    const long most = pages_of_idle_threads() + 200 * 100 / 4;
    int rounds = 1;

    while (pages_of_threads() >= most)
        assert_true(rounds++ < 3);
}

int main(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_ONSTACK;
    if (sigaction(SIGUSR1, &action, NULL) != 0)
        return 1;
    return run_all_tests();
}
