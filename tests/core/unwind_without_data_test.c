/* Walks through code that has no unwind data. */
#include "machine.h"
#include "unwind_without_data_code.h"
#include "frames.h"
#include "support.h"

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>

#define MAX 128

typedef struct stack {
    uintptr_t frames[MAX];
    uint32_t count;
} stack;

static stack captured;
static void *addresses[MAX]; /* of the same stack */
static uint32_t address_count;

/* How much of the call is still to be done keeps it from being the last thing a function does. */
static volatile int after;

static NOINLINE void leaf(void)
{
    assert_int_equal(stacksplice_capture(0, MAX, captured.frames, &captured.count, NULL), S_OK);
    address_count = RtlCaptureStackBackTrace(0, MAX, addresses, NULL);
    after++;
}

typedef struct wanted_gap {
    stacksplice_trust trust;
    const char *reason;
    bool found;
} wanted_gap;

static int compare_gap(const stacksplice_frame *frame, void *data)
{
    wanted_gap *wanted = data;

    wanted->found = frame->kind == STACKSPLICE_FRAME_GAP && frame->trust == wanted->trust &&
                    strstr(frame->reason, wanted->reason);
    return 1;
}

/* Whether ELEMENT is a gap of that trust whose reason contains REASON. */
static bool is_gap(uintptr_t element, stacksplice_trust trust, const char *reason)
{
    wanted_gap wanted = {trust, reason, false};

    (void)stacksplice_resolve(element, compare_gap, &wanted);
    return wanted.found;
}

/* From one place, so that the stack further out is the same each time. */
static NOINLINE void run(int (*function)(void (*)(void)))
{
    if (function)
        assert_int_equal(function(leaf), 1);
    else
        leaf();
    after++;
}

/* The frames of WHOLE that lie further out than run(), against those of captured from FIRST on. */
static void check_outside(const stack *whole, uint32_t first)
{
    assert_int_equal(captured.count - first, whole->count - 2);
    for (uint32_t i = 0; i + 2 < whole->count; i++)
        assert_true(captured.frames[first + i] == whole->frames[2 + i]);
}

TEST(test_unwind_goes_on_by_frame_pointers_and_says_so)
{
    stack whole = {.count = 0};

    for (volatile int i = 0; i < 2; i++) { /* one call, not two */
        run(i ? with_frame_pointer : NULL);
        if (!i)
            whole = captured;
    }
    assert_true(whole.count > 4);
    /* leaf, with_frame_pointer, the gap, run, and all that called it */
    assert_true(is_gap(captured.frames[2], STACKSPLICE_TRUST_INFERRED, "frame pointers"));
    check_outside(&whole, 4);
}

/* It has no gap to say that the others were guessed. */
TEST(test_unwind_lists_no_address_that_was_guessed)
{
    run(with_frame_pointer);
    assert_true(captured.count > 4);
    assert_int_equal(address_count, 2);
    assert_ptr_equal(addresses[1], captured.frames[1]);
}

#define NO_DATA "callers unknown: this code has no unwind data"

TEST(test_unwind_never_guesses_without_frame_pointers)
{
    stack whole = {.count = 0};
    uint32_t last;

    for (volatile int i = 0; i < 2; i++) { /* one call, not two */
        run(i ? without_frame_pointer : NULL);
        if (!i)
            whole = captured;
    }
    last = captured.count - 1;
    /* The frame pointer may still be that of a function further out: then it says inferred. */
    if (is_gap(captured.frames[2], STACKSPLICE_TRUST_EXACT, NO_DATA))
        assert_int_equal(last, 2);
    else
        assert_true(is_gap(captured.frames[2], STACKSPLICE_TRUST_INFERRED, "frame pointers"));
    assert_true(captured.count <= whole.count + 2);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KEEPS_FRAME_POINTERS = 1 };
#else
enum { KEEPS_FRAME_POINTERS = 0 };
#endif

/* Of the function alone it is known that it was called, by the call before its return address. */
TEST(test_unwind_leaves_exported_functions_by_their_call)
{
    stack whole = {.count = 0};

    for (volatile int i = 0; i < 2; i++) { /* one place further out, not two */
        if (i) {
            assert_int_equal(exported_without_data(leaf), 1);
        } else {
            leaf();
            whole = captured;
        }
        after++;
    }
    assert_true(whole.count > 4);
#if defined(__x86_64__)
    uint32_t skipped = whole.count + 2 - captured.count;

    assert_true(is_gap(captured.frames[2], STACKSPLICE_TRUST_INFERRED, "or calls"));
    /* This function, at its other call, and all that called it.  Where functions keep frame pointers, as with
       sanitizers, the register still holds this function's, and leads to its caller. */
    assert_true(skipped <= KEEPS_FRAME_POINTERS);
    for (uint32_t i = 2; i < whole.count; i++)
        assert_true(captured.frames[2 + i - skipped] == whole.frames[i]);
#else
    assert_true(is_gap(captured.frames[2], STACKSPLICE_TRUST_EXACT, NO_DATA) ||
                is_gap(captured.frames[2], STACKSPLICE_TRUST_INFERRED, "frame pointers"));
#endif
}

/* Puts nothing on the stack, and ends in the handler below. */
void traps_without_data(void);

__asm__(".pushsection .text\n"
        ".globl traps_without_data\n"
        ".type traps_without_data, %function\n"
        "traps_without_data:\n"
#if defined(__x86_64__)
        "nop\n"
        "int3\n"
#else
        "nop\n"
        "brk #0\n"
#endif
        "ret\n"
        ".size traps_without_data, .-traps_without_data\n"
        ".popsection\n");

static void in_leaf(int number, siginfo_t *info, void *context)
{
    assert_int_equal(stacksplice_capture(0, MAX, captured.frames, &captured.count, NULL), S_OK);
#if defined(__aarch64__)
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
#endif
}

/* A function that cannot be there has faulted: what called it is the caller that a user looks for. */
TEST(test_unwind_leaves_a_leaf_that_a_signal_interrupted)
{
    struct sigaction action = {.sa_sigaction = in_leaf, .sa_flags = SA_SIGINFO}, before;
    stack whole = {.count = 0};
    uint32_t leaf_at = 0;

    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    for (volatile int i = 0; i < 2; i++) { /* one place further out, not two */
        if (i) {
            traps_without_data();
        } else {
            leaf();
            whole = captured;
        }
        after++;
    }
    assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
    while (leaf_at < captured.count &&
           captured.frames[leaf_at] - (uintptr_t)traps_without_data > 16)
        leaf_at++;
    assert_true(leaf_at + 2 < captured.count);
    assert_true(is_gap(captured.frames[leaf_at + 1], STACKSPLICE_TRUST_INFERRED, "or calls"));
    /* this function, at its other call, and all that called it */
    assert_int_equal(captured.count - (leaf_at + 2), whole.count - 1);
    for (uint32_t i = 2; i < whole.count; i++)
        assert_true(captured.frames[leaf_at + 1 + i] == whole.frames[i]);
}

/* SIZE bytes of CODE at the end of a page that can be executed, with *PAGE to be unmapped. */
static void *made_at_run_time(const uint8_t *code, size_t size, void **page)
{
    char *at;

    *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*page != MAP_FAILED);
    at = (char *)*page + 4096 - (size + 15) / 16 * 16;
    memcpy(at, code, size);
    __builtin___clear_cache(at, at + size);
    assert_int_equal(mprotect(*page, 4096, PROT_READ | PROT_EXEC), 0);
    return at;
}

TEST(test_unwind_ends_at_code_made_at_run_time)
{
    void *page,
        *at = made_at_run_time(machine_calls_argument, sizeof machine_calls_argument, &page);
    int (*made)(void (*)(void));

    memcpy(&made, &at, sizeof made);
    run(made);
    assert_true(captured.frames[1] - (uintptr_t)at < sizeof machine_calls_argument);
    assert_true(is_gap(captured.frames[2], STACKSPLICE_TRUST_EXACT, NO_DATA) ||
                is_gap(captured.frames[2], STACKSPLICE_TRUST_INFERRED, "frame pointers"));
    munmap(page, 4096);
}

/* ---- Forwarders ------------------------------------------------------------------------------*/

enum { DEEP = 20 };

typedef int (*forwarded)(uintptr_t depth, void *data, uintptr_t nothing);
typedef int (*forwarder)(uintptr_t depth, void *data, uintptr_t nothing, forwarded function);

/* Call itself DEPTH times by the forwarder DATA, or directly without one. */
static NOINLINE int go_down(uintptr_t depth, void *data, uintptr_t nothing)
{
    forwarder forward;
    int result;

    memcpy(&forward, &data, sizeof forward);
    if (!depth)
        leaf();
    else if (forward)
        result = forward(depth - 1, data, nothing, go_down);
    else
        result = go_down(depth - 1, data, nothing);
    result = after++;
    return result;
}

/* One call for all: the stack further out is the same each time. */
static void descend(void *const *ways, stack *results, uint32_t count)
{
    for (volatile uint32_t i = 0; i < count; i++) {
        (void)go_down(DEEP, ways[i], 0);
        results[i] = captured;
    }
}

static void assert_same_functions(const stack *one, const stack *other)
{
    assert_int_equal(one->count, other->count);
    for (uint32_t i = 0; i < one->count; i++)
        assert_true(one->frames[i] - other->frames[i] + 256 < 512); /* of other calls of go_down */
}

/* The frames in front of the first gap: a C library without unwind data has one at the outer end. */
static uint32_t exact_count(const stack *s)
{
    uint32_t count = 0;

    while (count < s->count && !stacksplice_is_token(s->frames[count]))
        count++;
    return count;
}

/* Their frames are none of the stack: nobody wrote them, and they do nothing. */
TEST(test_unwind_passes_forwarders)
{
    for (size_t i = 0; i < COUNT_OF(machine_forwarders); i++) {
        void *page, *ways[] = {NULL, made_at_run_time(machine_forwarders[i].code,
                                                      machine_forwarders[i].size, &page)};
        static stack results[2];

        descend(ways, results, 2);
        assert_true(results[0].count > DEEP + 3);
        assert_same_functions(&results[1], &results[0]);
        assert_int_equal(address_count, exact_count(&results[0]) + DEEP); /* which hides nothing */
        munmap(page, 4096);
    }
}

/* What has one other byte is other code. */
TEST(test_unwind_knows_forwarders_by_all_their_bytes)
{
    static const uint8_t ret = 0xc3;
    uint8_t code[sizeof machine_forwarders[0].code + 1];
    void *page, *ways[1];
    static stack result;
    size_t size = machine_forwarders[0].size;

    if (machine_forwarders[0].code[size - 1] != ret)
        SKIP("no shorter instruction to put in");
    memcpy(code, machine_forwarders[0].code, size);
    code[size - 1] = 0x90; /* nop */
    code[size] = ret;
    ways[0] = made_at_run_time(code, size + 1, &page);
    descend(ways, &result, 1);
    assert_true(is_gap(result.frames[3], STACKSPLICE_TRUST_EXACT, NO_DATA) ||
                is_gap(result.frames[3], STACKSPLICE_TRUST_INFERRED, "frame pointers"));
    munmap(page, 4096);
}

/* ---- The first code of a fiber's stack -------------------------------------------------------*/

/* Calls FUNCTION on the stack that ends at TOP; without unwind data, as what switches fibers is. */
void call_on_stack(void *top, void (*function)(void));

__asm__(".pushsection .text\n"
        ".globl call_on_stack\n"
        ".type call_on_stack, %function\n"
        "call_on_stack:\n"
#if defined(__x86_64__)
        "push %rbx\n"
        "mov %rsp, %rbx\n"
        "mov %rdi, %rsp\n"
        "call *%rsi\n"
        "mov %rbx, %rsp\n"
        "pop %rbx\n"
#else
        "stp x29, x30, [sp, #-32]!\n"
        "str x19, [sp, #16]\n"
        "mov x19, sp\n"
        "mov sp, x0\n"
        "blr x1\n"
        "mov sp, x19\n"
        "ldr x19, [sp, #16]\n"
        "ldp x29, x30, [sp], #32\n"
#endif
        "ret\n"
        ".size call_on_stack, .-call_on_stack\n"
        ".popsection\n");

enum { FIBER_BYTES = 1 << 18, RECORD_WORDS = 32 };

/* Whether a capture on that stack, with WORDS words above its first frame, ends in a gap. */
static bool ends_in_gap(char *low, uint32_t words)
{
    after = 0;
    call_on_stack(low + FIBER_BYTES - words * sizeof(uintptr_t), leaf);
    assert_int_equal(after, 1);
    assert_true(captured.count >= 1); /* a gap alone where the bounds of a stack are unknown */
    return stacksplice_is_token(captured.frames[captured.count - 1]);
}

TEST(test_unwind_ends_at_the_first_code_of_an_added_stack)
{
    char *low = mmap(NULL, FIBER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t *record = (uintptr_t *)(void *)(low + FIBER_BYTES) - RECORD_WORDS;

    assert_true(low != MAP_FAILED);
    assert_true(ends_in_gap(low, 0)); /* nobody added it */
    assert_int_equal(stacksplice_add_stack(low, low + FIBER_BYTES), S_OK);
    assert_false(ends_in_gap(low, 0));
    assert_int_equal(captured.count, 2);
    for (uint32_t i = 0; i < RECORD_WORDS; i++) /* what a library of fibers keeps there */
        record[i] = i % 2 ? (uintptr_t)record : i;
    assert_false(ends_in_gap(low, RECORD_WORDS));
    /* With a return address there, it may have been called. */
    record[3] = captured.frames[0];
    assert_true(ends_in_gap(low, RECORD_WORDS));
    /* Too far from the end to be the first. */
    assert_true(ends_in_gap(low, 1024));
    assert_int_equal(stacksplice_remove_stack(low), S_OK);
    munmap(low, FIBER_BYTES);
}

#if defined __x86_64__
/* Pushes 0 where its unwind data, which is right at its end, has the return address. */
void misdescribed(void);
__asm__(".pushsection .text\n"
        ".globl misdescribed\n"
        ".type misdescribed, @function\n"
        "misdescribed:\n"
        ".cfi_startproc\n"
        "pushq $0\n"
        "int3\n"
        "addq $8, %rsp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size misdescribed, .-misdescribed\n"
        ".popsection");

/* Has 0 for its return address, and the one that it returns to in a register. */
void first_of_stack(void);
__asm__(".pushsection .text\n"
        ".globl first_of_stack\n"
        ".type first_of_stack, @function\n"
        "first_of_stack:\n"
        ".cfi_startproc\n"
        "popq %rax\n"
        "pushq $0\n"
        "int3\n"
        "addq $8, %rsp\n"
        "jmp *%rax\n"
        ".cfi_endproc\n"
        ".size first_of_stack, .-first_of_stack\n"
        ".popsection");

static void on_trap(int number)
{
    (void)number;
    leaf();
}

static void interrupted_by_trap(void (*function)(void), char *stack_end)
{
    struct sigaction action = {.sa_handler = on_trap}, former;

    assert_int_equal(sigaction(SIGTRAP, &action, &former), 0);
    if (stack_end)
        call_on_stack(stack_end, function);
    else
        function();
    assert_int_equal(sigaction(SIGTRAP, &former, NULL), 0);
    assert_true(captured.count > 2);
}

TEST(test_unwind_takes_no_word_of_interrupted_code_for_the_end)
{
    interrupted_by_trap(misdescribed, NULL);
    assert_true(is_gap(captured.frames[captured.count - 1], STACKSPLICE_TRUST_EXACT,
                       "unwind data of this code is damaged"));
}

TEST(test_unwind_ends_at_the_interrupted_first_code_of_an_added_stack)
{
    char *low = mmap(NULL, FIBER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(low != MAP_FAILED);
    assert_int_equal(stacksplice_add_stack(low, low + FIBER_BYTES), S_OK);
    interrupted_by_trap(first_of_stack, low + FIBER_BYTES);
    assert_false(stacksplice_is_token(captured.frames[captured.count - 1]));
    interrupted_by_trap(misdescribed, low + FIBER_BYTES); /* with callers */
    assert_true(stacksplice_is_token(captured.frames[captured.count - 1]));
    assert_int_equal(stacksplice_remove_stack(low), S_OK);
    munmap(low, FIBER_BYTES);
}
#endif
