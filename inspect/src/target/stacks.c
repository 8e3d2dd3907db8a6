#include "target/target.h"

#include <stdlib.h>

/* Where the stacks of threads end. */

static const ssi_machine *machine; /* of the threads that are sorted */

static uint64_t sp_of(const ssi_thread *thread)
{
    return thread->registers[machine->sp];
}

static int by_sp(const void *left, const void *right)
{
    uint64_t a = sp_of(*(ssi_thread *const *)left), b = sp_of(*(ssi_thread *const *)right);

    return a < b ? -1 : a > b;
}

/* With guard pages inside of mappings, stacks of several threads are in one: each ends before the
   pointer of the next. */
static void end_before_next(ssi_thread **sorted, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t next = sp_of(sorted[i + 1]);

        if (next > sp_of(sorted[i]) && next < sorted[i]->stack_end)
            sorted[i]->stack_end = next;
    }
}

void ssi_target_find_stacks(ssi_target *target)
{
    ssi_thread **sorted = calloc(target->thread_count + 1, sizeof *sorted);
    size_t count = 0;

    machine = target->machine;
    for (size_t i = 0; i < target->thread_count; i++) {
        ssi_thread *thread = &target->threads[i];
        const ssi_mapping *stack =
            thread->has_registers ? ssi_target_stack(target, sp_of(thread)) : NULL;

        thread->stack_end = stack ? stack->end : 0;
        if (stack && sorted)
            sorted[count++] = thread;
    }
    if (sorted) {
        qsort(sorted, count, sizeof *sorted, by_sp);
        end_before_next(sorted, count);
    }
    free(sorted);
}

/* The stack that a signal interrupted, of a thread whose handler runs on an alternate one. */

enum {
    MAX_SEARCHED = 256 << 10, /* bytes of an alternate stack */
    MAX_SIZE = 1 << 30,
    WORDS = 64,
    OVERLAP = 2 /* a stack_t has three words */
};

/* The kernel leaves a ucontext on the stack of the handler.  It names that stack itself, and says
   that what it interrupted was elsewhere: the flags are 0. */
static bool is_context(const uint64_t *stack, uint64_t sp)
{
    uint64_t low = stack[0], size = stack[2];

    return low && low <= sp && sp - low < size && size < MAX_SIZE && !(uint32_t)stack[1];
}

/* The interrupted pointer by the context whose STACK was read at AT; 0 if that is none. */
static uint64_t by_context(const ssi_target *target, uint64_t sp, uint64_t at,
                           const uint64_t *stack)
{
    uint64_t interrupted;

    return is_context(stack, sp) && ssi_read_word(at + target->machine->context_sp, &interrupted) &&
                   interrupted - stack[0] >= stack[2] && ssi_target_stack(target, interrupted)
               ? interrupted
               : 0;
}

/* The process is stopped meanwhile, so many words are read at once. */
uint64_t ssi_target_interrupted(const ssi_target *target, const ssi_thread *thread)
{
    uint64_t sp = thread->registers[target->machine->sp], words[WORDS], found = 0;
    uint64_t at = sp & ~(uint64_t)7, end = thread->stack_end;

    if (end > sp + MAX_SEARCHED)
        end = sp + MAX_SEARCHED;
    for (; !found && at + sizeof words <= end; at += sizeof words - OVERLAP * sizeof *words) {
        if (!ssi_read(at, words, sizeof words))
            break;
        for (size_t i = 0; !found && i < WORDS - OVERLAP; i++)
            found = by_context(target, sp, at + i * sizeof *words, words + i);
    }
    return found;
}
