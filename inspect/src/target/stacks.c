/* Where the stacks of threads end. */
#include "target/target.h"

#include <stdlib.h>

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
