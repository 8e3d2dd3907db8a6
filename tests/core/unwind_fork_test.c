/*
 * A capture that meets a module for the first time while another thread forks.  Where modules are
 * found by asking the loader nobody can be asked then: what is not known is left out, and where the
 * list can say so it does.  Nothing is guessed.
 */
#include "forks.h"
#include "frames.h"
#include "libraries.h"
#include "older_c_library.h"
#include "support.h"
#include "waiting_fork.h"

#include <stacksplice/stacksplice.h>

enum { FRAMES = 64 };

/* The same stack, as a list of addresses and as elements. */
static struct {
    void *addresses[FRAMES];
    uintptr_t elements[FRAMES];
    uint32_t count, element_count;
} seen;

/* How much of a call is still to be done keeps it from being the last thing a function does. */
static volatile int after;

static NOINLINE void leaf(void)
{
    seen.count = RtlCaptureStackBackTrace(0, FRAMES, seen.addresses, NULL);
    assert_int_equal(stacksplice_capture(0, FRAMES, seen.elements, &seen.element_count, NULL),
                     S_OK);
    after++;
}

/* With a frame pointer, which a guess would take for the library's. */
static NOINLINE void host(int (*turn)(void (*)(void)), volatile char *room)
{
    volatile char block[room[0] + 1];

    block[0] = room[0];
    (void)turn(leaf);
    after += block[0];
}

static int keep_frame(const stacksplice_frame *frame, void *data)
{
    *(const char **)data = frame->kind == STACKSPLICE_FRAME_GAP ? frame->reason : NULL;
    return 1;
}

/* The two rounds of its loop are one call of host, with one return address. */
#ifdef __clang__
#define KEEP_LOOPS __attribute__((optnone, noinline))
#else
#define KEEP_LOOPS
#endif

static KEEP_LOOPS void test_a_new_module_while_another_thread_forks(void **state);
TEST(test_a_new_module_while_another_thread_forks)
{
    void *library = open_library(TURN_LIBRARY);
    void *addresses[FRAMES];
    int (*turn)(void (*)(void));
    const char *reason = NULL;
    uint32_t count = 0;
    uintptr_t last = 0;
    volatile char room = 20;
    pthread_t thread;

    (void)find_in(library, "turn", &turn);
    thread = start_waiting_fork();
    for (volatile int i = 0; i < 2; i++) { /* one call, not two */
        host(turn, &room);
        if (i)
            break;
        memcpy(addresses, seen.addresses, sizeof addresses);
        count = seen.count;
        last = seen.elements[seen.element_count - 1];
        sem_post(&enough);
        (void)thread_end(thread);
        forks_wait = false;
    }
    stop_waiting_forks();
    (void)stacksplice_resolve(last, keep_frame, (void *)&reason);
    assert_true(seen.count > 4 && count <= seen.count);
    assert_memory_equal(addresses, seen.addresses, count * sizeof *addresses);
    if (older_c_library) {
        assert_int_equal(count, 2); /* leaf, and the library that nobody had met */
        assert_string_equal(reason, "list of loaded binaries unavailable: "
                                    "another thread was forking or unloading");
    } else {
        assert_int_equal(count, seen.count);
        assert_null(reason);
    }
}

int main(void)
{
    void *frames[FRAMES];

    (void)RtlCaptureStackBackTrace(0, FRAMES, frames, NULL); /* the other modules are known */
    return run_all_tests();
}
