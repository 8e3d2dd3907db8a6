/*
 * Native frames against libgcc's at every instruction of setcontext, which leaves one stack for
 * another.  (swapcontext has no unwind data for that part of it.)
 */
#include "frames.h"
#include "steps.h"
#include "support.h"

#include <stacksplice/source.h>
#include <stacksplice/winrt/rtlsupportapi.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#define MAX 256
#define FIBER_SIZE ((size_t)1 << 18)

typedef struct addresses {
    uintptr_t at[MAX];
    unsigned count;
    bool complete;
} addresses;

static ucontext_t *inside, *outside;
static addresses theirs, first_wrong;
static uintptr_t ours[MAX];
static unsigned compared, wrong, wrong_count;

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    addresses *a = data;
    int interrupted = 0;
    uintptr_t ip = (uintptr_t)_Unwind_GetIPInfo(context, &interrupted);

    if (!ip)
        a->complete = true;
    if (!ip || a->count == MAX)
        return _URC_END_OF_STACK;
    a->at[a->count++] = ip + (uintptr_t)interrupted;
    return _URC_NO_REASON;
}

/* The first addresses are of the two calls here. */
static void handle(int number)
{
    unsigned count;

    theirs.count = 0;
    theirs.complete = false;
    _Unwind_Backtrace(keep, &theirs);
    count = RtlCaptureStackBackTrace(0, MAX, (PVOID *)ours, NULL);
    if (!theirs.complete)
        return;
    compared++;
    if (count == theirs.count && memcmp(ours + 1, theirs.at + 1, (count - 1) * sizeof *ours) == 0)
        return;
    if (wrong++ == 0) {
        first_wrong = theirs;
        wrong_count = count;
    }
}

void on_fiber(void);

void on_fiber(void)
{
    begin_steps();
}

/* Unwinders take the first address of a context for one behind a call: what lies before it is of
   the same function. */
__asm__(".pushsection .text\n"
        ".type fiber_begins, @function\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    nop\n"
        "fiber_begins:\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call on_fiber\n"
        "    addq $8, %rsp\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size fiber_begins, .-fiber_begins\n"
        ".popsection\n");
extern void fiber_begins(void);

/* Into the fiber, which is stepped through until this function is back. */
static NOINLINE void switch_by_steps(void)
{
    (void)swapcontext(outside, inside);
    end_steps();
    AFTER();
}

static NOINLINE void deeper(int depth)
{
    if (depth)
        deeper(depth - 1);
    else
        switch_by_steps();
    AFTER();
}

/* The context that is entered lies on the stack that is entered, not on that of the handler. */
TEST(test_stacks_equal_libgccs_while_they_are_switched)
{
    struct sigaction action = {.sa_handler = handle}, old;
    ucontext_t in, out;
    char *memory;

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    if (UNDER_ASAN)
        SKIP("AddressSanitizer must be told of switches");
    memory = mmap(NULL, FIBER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(stacksplice_add_stack(memory, memory + FIBER_SIZE), 0);
    handle(0); /* the memory that a thread's first capture needs */
    inside = &in;
    outside = &out;
    assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
    for (int depth = 0; depth < 3; depth++) {
        assert_int_equal(getcontext(&in), 0);
        in.uc_stack.ss_sp = memory;
        in.uc_stack.ss_size = FIBER_SIZE;
        in.uc_link = &out;
        makecontext(&in, fiber_begins, 0);
        deeper(depth);
    }
    assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
    assert_int_equal(stacksplice_remove_stack(memory), 0);
    (void)munmap(memory, FIBER_SIZE);
    if (wrong)
        fail_msg("%u of %u differ from libgcc, the first at %#lx: %u frames, libgcc has %u", wrong,
                 compared, (unsigned long)first_wrong.at[2], wrong_count, first_wrong.count);
    assert_true(compared > 50);
}
