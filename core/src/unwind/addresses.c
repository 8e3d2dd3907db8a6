/*
 * Collects only the return addresses of a stack, where the table knows all of them: all that a
 * recurring capture needs.
 */
#include "unwind/follow.h"
#include "unwind/unloads.h"

#define MOST_SKIPPED 32

static bool begin(ss_trail *t, ss_table *table, const void *above)
{
    uintptr_t record = (uintptr_t)above;
    ss_range stack;

    if (!table || !table->has_record || ss_modules_generation(false) != table->generation ||
        ss_unwind_epoch() != table->epoch || !ss_stack_find_cached(&table->stack, record, &stack))
        return false;
    t->table = table;
    t->ip = *(const uintptr_t *)(record + SS_WORD);
    t->sp = record + 2 * SS_WORD;
    t->saved = record;
    t->high = stack.high;
    return true;
}

static SS_NOINLINE SS_NO_SANITIZE ss_stop follow_addresses(ss_trail *t, uintptr_t *to, uint32_t max)
{
    t->address = to;
    t->end = to + max;
    return ss_follow(t, false);
}

bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count)
{
    uintptr_t skipped[MOST_SKIPPED];
    ss_stop why = SS_STOP_LIMIT;
    ss_trail t;

    *count = 0;
    if (skip > MOST_SKIPPED || !begin(&t, walk->table, above))
        return false;
    if (SS_UNLIKELY(skip))
        why = follow_addresses(&t, skipped, skip);
    if (why == SS_STOP_LIMIT) {
        why = follow_addresses(&t, addresses, max);
        *count = (uint32_t)(t.address - addresses);
    }
    return why == SS_STOP_LIMIT || why == SS_STOP_END;
}

/*
 * ss_unwind_recurring starts right after the frame record of the function at ABOVE.  The walk has a
 * frame there only if that function keeps a frame pointer.
 */
void ss_unwind_recurs(ss_unwind *walk, const void *above)
{
    const stacksplice_native_frame *caller = &walk->frames[walk->hidden];

    walk->table->has_record =
        SS_RECORD_IS_TOP && walk->hidden && walk->hidden < walk->count &&
        caller->sp == (uintptr_t)above + 2 * SS_WORD &&
        ss_rule_kind_of(walk->table->rules[caller[-1].rule].cfa) == SS_RULE_FRAME;
}

bool ss_unwind_continue(ss_unwind *walk, uint32_t max)
{
    ss_entry_registers entry;
    uint32_t frame = walk->count - 1;

    if (!walk->bytes_left)
        return false;
    while (frame && walk->frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL)
        frame--;
    if (!frame)
        return false;
    entry.ip = walk->frames[frame].ip;
    entry.sp = walk->frames[frame].sp;
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (!ss_any_register(walk, frame, ss_saved_registers[i], &entry.saved[i]))
            entry.saved[i] = 0; /* no frame is at 0, so a rule that needs it ends the walk */
    return ss_walk_from(walk, &entry, NULL, max);
}
