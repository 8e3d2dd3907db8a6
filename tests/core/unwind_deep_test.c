/* Lists of addresses of stacks that are deeper than any room for frames. */
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>

#include <alloca.h>
#include <sys/mman.h>

/* ThreadSanitizer's own list of calls has room for 65536 of a thread. */
#define DEEP __attribute__((noinline, no_sanitize("thread")))

enum {
    DEPTH = 200004,
    LEARNED = 7,
    HEAD = 4, /* check, check_all, end and the last of the recursion, which calls it */
    KINDS = 3,
    MOST = 65535
};
static const size_t stack_size = (size_t)1 << 30; /* of which little is touched */

static void *frames[MOST + 1], *begin[HEAD + KINDS];
static unsigned depth, bottom; /* bottom: frames of the thread's start */
static unsigned wrong_counts, wrong_frames, wrong_gaps;

static void step(unsigned left);

/* The three innermost kinds of the recursion return by turns. */
static const void *expected(unsigned frame)
{
    return begin[frame < HEAD ? frame : HEAD + (frame - HEAD) % KINDS];
}

static NOINLINE void check(uint32_t skip)
{
    unsigned all = HEAD - 1 + depth + bottom, left = skip < all ? all - skip : 0, count;

    memset(frames, 0, sizeof frames);
    count = RtlCaptureStackBackTrace(skip, UINT32_MAX, frames, NULL);
    if (depth == LEARNED) {
        memcpy(begin, frames, sizeof begin);
        bottom = count - (HEAD - 1 + LEARNED);
        return;
    }
    wrong_counts += count != (left < MOST ? left : MOST) || frames[count];
    for (unsigned i = 0; i < count && i + skip < HEAD - 1 + DEPTH; i++)
        wrong_frames += frames[i] != expected(i + skip);
}

/* A capture of all languages walks no more frames, and says so wherever it begins. */
static NOINLINE void check_capture(uint32_t skip)
{
    uintptr_t element[2] = {0, 0};
    uint32_t count = 0;

    (void)stacksplice_capture(skip, 2, element, &count, NULL);
    wrong_gaps += count != 1 || !stacksplice_is_token(element[0]);
}

static NOINLINE void check_all(void)
{
    static const uint32_t skips[] = {0,     1,      2,      1000,   65530,     65535,
                                     66000, 131072, 140000, 200000, UINT32_MAX};

    for (size_t i = 0; i < (depth == LEARNED ? 1 : sizeof skips / sizeof *skips); i++)
        check(skips[i]);
    if (depth != LEARNED) {
        check_capture(66000);
        check_capture(UINT32_MAX);
    }
    AFTER();
}

static NOINLINE void end(void)
{
    check_all();
    AFTER();
}

/* Three kinds, so that what one saves of another's registers matters. */
static DEEP void plain(unsigned left)
{
    step(left);
    AFTER();
}

static DEEP void with_frame_pointer(unsigned left)
{
    volatile char *block = alloca(16 + left % 2 * 32);

    block[0] = (char)left;
    step(left);
    block[1] = block[0];
}

static DEEP void with_registers(unsigned left)
{
    unsigned a = left * 3, b = left * 5, c = left * 7;

    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c));
    step(left);
    __asm__ volatile("" : : "r"(a), "r"(b), "r"(c) : "memory");
}

static inline __attribute__((always_inline, no_sanitize("thread"))) void step(unsigned left)
{
    if (!left)
        end();
    else if (left % KINDS == 0)
        plain(left - 1);
    else if (left % KINDS == 1)
        with_frame_pointer(left - 1);
    else
        with_registers(left - 1);
}

static NOINLINE void recurse(unsigned left)
{
    step(left);
    AFTER();
}

static void *run(void *unused)
{
    for (volatile int i = 0; i < 2; i++) { /* one call, not two */
        depth = i ? DEPTH : LEARNED;
        recurse(depth);
    }
    return unused;
}

TEST(test_many_frames_are_stored)
{
    void *stack = mmap(NULL, stack_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(stack != MAP_FAILED);
    (void)thread_run_on(stack, stack_size, run, NULL);
    assert_int_equal(wrong_counts, 0);
    assert_int_equal(wrong_frames, 0);
    assert_int_equal(wrong_gaps, 0);
    munmap(stack, stack_size);
}
