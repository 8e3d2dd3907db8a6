#include "unwind/stack.h"
#include "unwind/unloads.h"
#include "unwind/walk.h"

#include <string.h>

#define KEPT_FRAMES 2048

#define NAME_OF(name, text) name,
#define TEXT_OF(name, text) [name] = (text),
enum { SS_UNWIND_REASONS(NAME_OF) REASONS };
static const char *const reasons[REASONS] = {SS_UNWIND_REASONS(TEXT_OF)};

/* ---- The hot part: from frame to frame, for as long as the table alone suffices ---------------*/

/*
 *      CFA = sp + cfa                 rules of kind SS_RULE_SP
 *      CFA = saved frame pointer + k  rules that count from it
 *      ip' = *(CFA - 8 * slot), sp' = CFA
 *
 * One compare per frame keeps the walk on the stack: the rules followed here find the return
 * address between the stack pointer and the CFA.
 */

/* The state of a walk: the next frame to take and where to store it. */
typedef struct trail {
    ss_unwind *walk;
    ss_table *table;
    uintptr_t ip; /* of the next frame, as in ss_known */
    uintptr_t sp;
    uintptr_t saved;    /* where its frame pointer is; no place of a word: only ss_step can tell */
    uintptr_t high;     /* no frame of this stack starts beyond */
    uintptr_t *address; /* in a walk for addresses alone */
    stacksplice_native_frame *frame;
    uint32_t *marked;
    const void *end; /* of addresses or frames */
} trail;

typedef enum stop {
    STOP_END,     /* there is no caller */
    STOP_UNKNOWN, /* the table lacks the next frame's ip */
    STOP_SPECIAL, /* only ss_step can find the last frame's caller */
    STOP_OFF_STACK,
    STOP_LIMIT
} stop;

#define INLINED inline __attribute__((always_inline))

#define NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

/* The CFA by a rule that counts from the frame pointer; 0 when that is not enough. */
static INLINED NO_SANITIZE uintptr_t saved_cfa(uint32_t rule, uintptr_t sp, uintptr_t saved)
{
    uintptr_t cfa;

    if (SS_RETURN_SAVED >= 0 || ss_rule_kind_of(rule) > SS_RULE_SAVED ||
        ss_rule_base(rule) != SS_SAVED_FP || !saved || saved % SS_WORD)
        return 0;
    cfa = *(const uintptr_t *)saved + ss_rule_offset(rule);
    return SS_LIKELY(cfa > sp && cfa % SS_WORD == 0) ? cfa : 0;
}

_Static_assert(sizeof(stacksplice_native_frame) ==
                   offsetof(stacksplice_native_frame, function) + sizeof(ss_frame_facts),
               "the one ends with the other");

/* Store the next frame. */
static INLINED void put_frame(trail *t, const ss_frame_facts *facts)
{
    stacksplice_native_frame *frame = t->frame++;

    frame->ip = t->ip;
    frame->sp = t->sp;
    memcpy(&frame->function, facts, sizeof *facts);
    *t->marked = (uint32_t)(uintptr_t)frame; /* enough bits to tell it from the others */
    t->marked += facts->flags >> 31;
}

/* Follow what the table knows, and store FRAMES or addresses. */
static INLINED NO_SANITIZE stop follow(trail *from, bool frames)
{
    trail t = *from; /* in registers */
    ss_known *table = t.table->known;
    uintptr_t mask = t.table->mask, to_facts = t.table->to_facts, next;
    stop why;

    for (;;) {
        const ss_known *known = ss_table_find(table, mask, t.ip);
        bool ends = (frames ? (const void *)t.frame : t.address) == t.end;
        uint32_t slot;

        if (SS_UNLIKELY(!known || ends)) {
            why = !t.ip ? STOP_END : ends ? STOP_LIMIT : STOP_UNKNOWN;
            break;
        }
        if (frames)
            put_frame(&t, (const ss_frame_facts *)((uintptr_t)known + to_facts));
        else
            *t.address++ = t.ip;
        if (SS_LIKELY(!(known->cfa & SS_RULE_KIND_MASK))) {
            next = t.sp + known->cfa;
        } else {
            __asm__("" : "+r"(known)); /* keeps the compiler from carrying the rule here */
            next = saved_cfa(known->cfa, t.sp, t.saved);
            if (SS_UNLIKELY(!next)) {
                why = ss_rule_kind_of(known->cfa) == SS_RULE_END ? STOP_END : STOP_SPECIAL;
                break;
            }
        }
        if (SS_UNLIKELY(next > t.high)) {
            why = STOP_OFF_STACK;
            break;
        }
        if (SS_RETURN_SAVED < 0 && known->fp_below != SS_BELOW_UNCHANGED)
            t.saved = next - known->fp_below;
        slot = SS_RETURN_SAVED < 0 ? (uint32_t)SS_RETURN_SLOT : known->slot;
        t.sp = next;
        t.ip = ss_arch_code(*(const uintptr_t *)(next - SS_WORD * slot));
    }
    *from = t;
    return why;
}

/* ---- Marks ------------------------------------------------------------------------------------*/

typedef uint32_t (*classifier)(uintptr_t ip, uintptr_t function);

static _Atomic(classifier) classify; /* (ATOMIC) */
atomic_uint ss_walk_epoch;           /* (ATOMIC) */

void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function))
{
    atomic_store(&classify, flags);
    atomic_fetch_add(&ss_walk_epoch, 1);
}

uint32_t ss_unwind_epoch(void)
{
    return atomic_load_explicit(&ss_walk_epoch, memory_order_acquire);
}

static uint32_t ask(uintptr_t ip, uintptr_t function)
{
    classifier flags = atomic_load(&classify);

    return flags ? flags(ip, function) : 0;
}

/* Take the next frame, whose code FOUND no description. */
static SS_COLD void take_undescribed(trail *t, ss_verdict found)
{
    ss_frame_facts facts = {.flags = ask(t->ip, 0)};

    if (found == SS_STEP_NO_DATA)
        facts.rule = (uint32_t)ss_arch_forwarder((const uint8_t *)t->ip);
    if (facts.rule) {
        facts.flags |= SS_UNWIND_FORWARDER;
        t->walk->forwards = true;
    }
    put_frame(t, &facts);
}

/* Add the next frame's ip to the table; where nothing describes its code, take the frame. */
static SS_COLD ss_verdict learn(trail *t)
{
    uintptr_t pc = t->ip - 1;
    ss_rule rule;
    ss_verdict found = ss_find_rule(pc, t->table->generation, &rule);

    if (found == SS_STEP_ON)
        return ss_table_add(t->table, t->ip, &rule,
                            ask(t->ip, rule.start == UINT32_MAX ? 0 : pc - rule.start))
                   ? SS_STEP_ON
                   : SS_STEP_NO_ROOM;
    if (found == SS_STEP_NO_DATA && ss_ends_stack(t->ip))
        found = SS_STEP_END;
    take_undescribed(t, found);
    return found;
}

/* Whether the caller lies further out on the same stack, or on another known stack. */
static bool accept_stack(trail *t, const ss_caller *next)
{
    ss_unwind *walk = t->walk;
    ss_range other;

    if (next->sp % SS_WORD)
        return false;
    if (next->sp + next->may_stay > t->frame[-1].sp && next->sp <= t->high)
        return true;
    if (!next->may_jump || walk->stack_count == SS_UNWIND_MAX_STACKS ||
        !(ss_stack_find(next->sp, &other) || ss_stack_find_overflown(next->sp, &other) ||
          (next->flags & STACKSPLICE_NATIVE_SIGNAL && ss_stack_find_readable(next->sp, &other))))
        return false;
    if (other.low < next->sp - SS_RED_ZONE)
        other.low = next->sp - SS_RED_ZONE;
    walk->stacks[walk->stack_count++] = other;
    t->high = other.high;
    return true;
}

/* Find the next frame by a step that the hot part cannot do. */
static ss_verdict step_on(trail *t, ss_verdict found, uint32_t *flags)
{
    ss_unwind *walk = t->walk;
    ss_caller next;

    walk->count = (uint32_t)(t->frame - walk->frames);
    if (found == SS_STEP_ON)
        found = ss_step(walk, &t->table->rules[t->frame[-1].rule], &next);
    if (found == SS_STEP_NO_DATA) {
        found = ss_step_without_data(walk, &next);
        if (found != SS_STEP_ON && walk->count > 1 &&
            ss_begins_added_stack(walk, t->frame[-1].sp, t->high))
            found = SS_STEP_END;
    }
    if (found != SS_STEP_ON)
        return found;
    if (next.ip && !accept_stack(t, &next))
        return SS_STEP_OFF_STACK;
    t->ip = next.ip;
    t->sp = next.sp;
    t->saved = 0;
    *flags = next.flags;
    walk->inferred |= next.flags & STACKSPLICE_NATIVE_INFERRED;
    return SS_STEP_ON;
}

static SS_NOINLINE NO_SANITIZE stop follow_frames(trail *t)
{
    return follow(t, true);
}

/* Take the next frame and those that the hot part can follow; then step_on may help. */
static ss_verdict take_frames(trail *t)
{
    ss_verdict found = SS_STEP_ON;

    while (found == SS_STEP_ON) {
        switch (follow_frames(t)) {
        case STOP_END:
            return SS_STEP_END;
        case STOP_SPECIAL:
            return SS_STEP_ON;
        case STOP_OFF_STACK:
            return SS_STEP_OFF_STACK;
        case STOP_LIMIT:
            t->walk->has_more = true;
            return SS_STEP_LIMIT;
        default:
            found = learn(t);
        }
    }
    return found;
}

static const char *reason_of(ss_verdict found)
{
    static const uint8_t of[] = {[SS_STEP_NO_DATA] = NO_DATA,
                                 [SS_STEP_UNASKED] = UNASKED,
                                 [SS_STEP_BROKEN] = BROKEN,
                                 [SS_STEP_OFF_STACK] = OFF_STACK,
                                 [SS_STEP_NO_ROOM] = NO_ROOM};

    return reasons[of[found]];
}

/* Whether the walk met a return address of 0, by which some stacks end, in code that a signal interrupted.
   Only at calls is unwind data sure to be right: assembly that moves the stack pointer in between may not
   say so, and its word is then another one, unless that lies where a stack begins. */
static SS_COLD bool ends_in_doubt(const trail *t)
{
    return !t->ip && t->frame > t->walk->frames && t->frame[-1].flags & STACKSPLICE_NATIVE_SIGNAL &&
           !ss_begins_added_stack(t->walk, t->sp, t->high);
}

static ss_verdict walk_on(trail *t)
{
    ss_unwind *walk = t->walk;
    uint32_t flags = 0;
    ss_verdict found;

    do {
        stacksplice_native_frame *first = t->frame;

        found = take_frames(t);
        if (t->frame > first)
            first->flags |= flags;
        if (found == SS_STEP_END && ends_in_doubt(t))
            found = SS_STEP_BROKEN;
        if (found == SS_STEP_ON || found == SS_STEP_NO_DATA)
            found = step_on(t, found, &flags);
    } while (found == SS_STEP_ON);
    walk->count = (uint32_t)(t->frame - walk->frames);
    if (found == SS_STEP_END)
        walk->end_reason = NULL;
    else if (found != SS_STEP_LIMIT && !walk->end_reason)
        /* With unknown stack bounds every walk fails sooner or later; keep that reason. */
        walk->end_reason = reason_of(found);
    return found;
}

/* Switch to an empty table with more room; false when there is no memory. */
static SS_COLD bool enlarge(ss_unwind *walk, ss_table_size more)
{
    ss_table *was = walk->table, *table = ss_table_new(was ? was->size | more : SS_TABLE_SMALL);

    if (!table)
        return false;
    if (was) {
        table->generation = was->generation;
        table->epoch = was->epoch;
        table->stack = was->stack;
    }
    ss_table_free(was);
    walk->table = table;
    walk->frames = table->frames;
    walk->marked = table->marked;
    return true;
}

/* What is known is valid only while the modules and the classifier stay the same. */
static void refresh(ss_table *table)
{
    uint64_t generation = ss_modules_generation(!ss_table_count(table));
    uint32_t epoch = ss_unwind_epoch();

    if (SS_UNLIKELY(generation != table->generation || epoch != table->epoch))
        ss_table_forget(table);
    table->generation = generation;
    table->epoch = epoch;
}

/* Set how far the stack may be read. */
static void begin_stack(ss_unwind *walk, uintptr_t sp, const void *above)
{
    ss_range *stack = &walk->stacks[0];
    const uintptr_t *back = (const uintptr_t *)above + 1; /* from ABOVE: of a signal handler? */

    walk->end_reason = NULL;
    walk->inferred = walk->forwards = walk->has_more = false;
    if (!ss_stack_find_cached(&walk->table->stack, sp, stack) &&
        !(ss_is_sigreturn(*back) && ss_stack_find_readable(sp, stack))) {
        stack->high = (uintptr_t)above + 2 * SS_WORD; /* a frame pointer and a return address */
        walk->end_reason = reasons[UNKNOWN_STACK];
    }
    stack->low = sp;
    walk->stack_count = 1;
}

/* Hide our own frames, and renumber the marked ones. */
static void end_walk(ss_unwind *walk, uintptr_t above, const uint32_t *marked)
{
    uint32_t hidden = 0, kept = 0;

    while (hidden < walk->count && walk->frames[hidden].sp <= above)
        hidden++;
    for (uint32_t *at = walk->marked; at < marked; at++) {
        uint32_t frame = (*at - (uint32_t)(uintptr_t)walk->frames) / sizeof *walk->frames;

        if (frame >= hidden)
            walk->marked[kept++] = frame - hidden;
    }
    walk->hidden = hidden;
    walk->marked_count = kept;
}

static void begin_trail(trail *t, ss_unwind *walk, const ss_entry_registers *entry, uint32_t max)
{
    ss_table *table = walk->table;

    table->file_count = 0;
    memcpy(table->entry, entry->saved, sizeof entry->saved);
    *t = (trail){.walk = walk,
                 .table = table,
                 .ip = entry->ip,
                 .sp = entry->sp,
                 .saved = (uintptr_t)&table->entry[SS_SAVED_FP],
                 .high = walk->stacks[0].high,
                 .frame = walk->frames,
                 .marked = walk->marked,
                 .end = walk->frames + (max < table->room.frames ? max : table->room.frames)};
}

/* Whether the walk, which began with EMPTY table and ended with FOUND, got the room it lacked. */
static bool gets_room(ss_unwind *walk, ss_verdict found, uint32_t max, bool empty)
{
    ss_table *table = walk->table;

    if (SS_UNLIKELY(found == SS_STEP_LIMIT && max > table->room.frames))
        return !(table->size & SS_TABLE_DEEP) && enlarge(walk, SS_TABLE_DEEP);
    if (SS_LIKELY(found != SS_STEP_NO_ROOM))
        return false;
    if (!(table->size & SS_TABLE_WIDE) && enlarge(walk, SS_TABLE_WIDE))
        return true;
    if (empty || !ss_table_is_full(table))
        return false;
    ss_table_forget(table);
    return true;
}

bool ss_walk_from(ss_unwind *walk, const ss_entry_registers *entry, const void *above, uint32_t max)
{
    ss_verdict found;
    bool empty;
    trail t;

    if (SS_UNLIKELY(!walk->table) && !enlarge(walk, SS_TABLE_SMALL))
        return false;
    refresh(walk->table);
    do {
        begin_stack(walk, entry->sp, above);
        begin_trail(&t, walk, entry, max);
        empty = !ss_table_count(walk->table);
        found = walk_on(&t);
    } while (gets_room(walk, found, max, empty));
    end_walk(walk, (uintptr_t)above, t.marked);
    return true;
}

SS_NOINLINE bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max)
{
    ss_entry_registers entry;
    bool done;

    ss_arch_entry(&entry);
    done = ss_walk_from(walk, &entry, above, max);
    __asm__ volatile("" ::: "memory"); /* no tail call: the walk includes this frame */
    return done;
}

/* A frame that a signal interrupted has more registers than a walk begins with. */
uint32_t ss_unwind_continue(ss_unwind *walk)
{
    ss_entry_registers entry;
    uint32_t known = 1, frame = walk->count - 1;
    trail t;

    if (!walk->has_more)
        return 0;
    for (; frame && walk->frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL; frame--)
        known++;
    if (!frame)
        return 0;
    entry.ip = walk->frames[frame].ip;
    entry.sp = walk->frames[frame].sp;
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (!ss_any_register(walk, frame, ss_saved_registers[i], &entry.saved[i]))
            entry.saved[i] = 0; /* no frame is at 0, so a rule that needs it ends the walk */
    ss_table_trim(walk->table, KEPT_FRAMES); /* the rest of this walk may need less */
    walk->stacks[0] = walk->stacks[walk->stack_count - 1];
    walk->stacks[0].low = entry.sp;
    walk->stack_count = 1;
    walk->has_more = false;
    begin_trail(&t, walk, &entry, SS_UNWIND_MAX_FRAMES);
    (void)walk_on(&t);
    end_walk(walk, 0, t.marked);
    return walk->count > known ? known : 0;
}

/* The pages stay mapped; their contents are gone. */
void ss_unwind_trim(ss_unwind *walk, bool all)
{
    if (all) {
        ss_table_free(walk->table);
        memset(walk, 0, sizeof *walk);
    } else if (SS_UNLIKELY(walk->count > KEPT_FRAMES)) {
        ss_table_trim(walk->table, KEPT_FRAMES);
    }
}

/* ---- Addresses alone, where the table knows all of them ---------------------------------------*/

#define MOST_SKIPPED 32

static bool begin_addresses(trail *t, ss_table *table, const void *above)
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

static SS_NOINLINE NO_SANITIZE stop follow_addresses(trail *t, uintptr_t *to, uint32_t max)
{
    t->address = to;
    t->end = to + max;
    return follow(t, false);
}

bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count)
{
    uintptr_t skipped[MOST_SKIPPED];
    stop why = STOP_LIMIT;
    trail t;

    *count = 0;
    if (skip > MOST_SKIPPED || !begin_addresses(&t, walk->table, above))
        return false;
    if (SS_UNLIKELY(skip))
        why = follow_addresses(&t, skipped, skip);
    if (why == STOP_LIMIT) {
        why = follow_addresses(&t, addresses, max);
        *count = (uint32_t)(t.address - addresses);
    }
    return why == STOP_LIMIT || why == STOP_END;
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
