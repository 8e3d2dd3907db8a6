/*
 * Threads that live at once.  A thread's first capture looks for memory that an ended thread left;
 * asking the kernel about each living one would make a thousand threads wait for each other.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "support.h"
#include "threads.h"

#include <stacksplice/stacksplice.h>

enum { THREADS = 300 };

static _Atomic unsigned asked;

/* Stands before the C library's function of this name. */
__attribute__((visibility("default"))) long syscall(long number, ...);

long syscall(long number, ...)
{
    static long (*_Atomic next)(long number, ...);
    long arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_tgkill)
        asked++;
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                arguments[5]);
}

static pthread_barrier_t captured;

static void *capture_once(void *data)
{
    uintptr_t frames[20];
    uint32_t count = 0;

    (void)data;
    assert_int_equal(stacksplice_capture(0, 20, frames, &count, NULL), S_OK);
    (void)pthread_barrier_wait(&captured);
    return NULL;
}

static void capture_in_all(void)
{
    pthread_t threads[THREADS];

    assert_int_equal(pthread_barrier_init(&captured, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = thread_start(capture_once, NULL);
    for (int i = 0; i < THREADS; i++)
        (void)thread_end(threads[i]);
    assert_int_equal(pthread_barrier_destroy(&captured), 0);
}

TEST(test_first_captures_ask_for_few_threads)
{
    capture_in_all();
    assert_in_range(asked, 1, 4 * THREADS);
}

/* All have ended and told so. */
TEST(test_later_threads_ask_for_none)
{
    asked = 0;
    capture_in_all();
    assert_int_equal(asked, 0);
}
