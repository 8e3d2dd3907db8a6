/*
 * Learning from one visit.  The compiler's own unwinder gives the frames outside of the call site.
 * We use it only here, on the few frames up to our call of Lua, which all have unwind data.
 */
#include "calibrate/sample.h"

#include <string.h>
#include <sys/uio.h>
#include <unwind.h>

#if defined(__x86_64__)
static const uint8_t callee_saved[SS_LUA_REGISTERS] = {3, 6, 12, 13, 14, 15};
#elif defined(__aarch64__)
static const uint8_t callee_saved[SS_LUA_REGISTERS] = {19, 20, 21, 22, 23, 24};
#else
#error "the callee-saved registers of this architecture are not known here"
#endif

static bool add_once(uintptr_t *table, uint32_t *count, uint32_t capacity, uintptr_t value)
{
    for (uint32_t i = 0; i < *count; i++)
        if (table[i] == value)
            return true;
    if (*count == capacity)
        return false;
    table[(*count)++] = value;
    return true;
}

static bool is_own(const ss_lua_sample *sample, uintptr_t function)
{
    for (uint32_t i = 0; i < sample->own_count; i++)
        if (sample->own[i] == function)
            return true;
    return false;
}

/* ---- What was seen before --------------------------------------------------------------------*/

/*
 * Unwinding all the way out takes most of a visit's time, and seldom finds a new function.  Where
 * return addresses are right below the next frame, we step by the known sizes of frames, as long as
 * we have learnt from each step.  An unknown step leads to unwinding.
 */
#if defined(__x86_64__)
static ss_lua_step_seen *step_place(ss_lua_sample *sample, uintptr_t ip, uintptr_t outer)
{
    uint32_t at = (uint32_t)(((ip ^ outer << 20) * UINT64_C(0x9e3779b97f4a7c15)) >> 40);

    for (;; at++) {
        ss_lua_step_seen *step = &sample->steps[at % SS_LUA_STEPS];

        if (!step->ip || (step->ip == ip && step->outer == outer))
            return step;
    }
}

/* Half of the slots stay free, so that every search ends. */
static void remember(ss_lua_sample *sample, uintptr_t ip, uintptr_t outer, uintptr_t size)
{
    ss_lua_step_seen *step = step_place(sample, ip, outer);

    if (!step->ip && sample->step_count < SS_LUA_STEPS / 2) {
        *step = (ss_lua_step_seen){ip, outer, size};
        sample->step_count++;
    }
}

/* Record the step of frame I, from which we have learnt.  LAST: we learn from none outside of it.
 */
static void remember_step(ss_lua_sample *sample, uint32_t i, bool last)
{
    const ss_lua_visit_frame *frame = &sample->frames[i];
    uintptr_t size = frame[1].sp - frame->sp;

    remember(sample, frame->ip, last ? 0 : frame[1].ip, size);
    remember(sample, frame->ip, UINTPTR_MAX, size);
}

/* Where the frame at IP and SP ends; 0 if it is unknown. */
static uintptr_t end_seen(ss_lua_sample *sample, uintptr_t ip, uintptr_t sp)
{
    uintptr_t size = step_place(sample, ip, UINTPTR_MAX)->size;

    return size && size < sample->stack_end - sp ? sp + size : 0;
}

/* Where the frame at IP and SP ends, if unwinding outward from there would find nothing new; 0 if
   it might. */
static uintptr_t all_seen(ss_lua_sample *sample, uintptr_t ip, uintptr_t sp)
{
    uintptr_t first = end_seen(sample, ip, sp), end = first, outer;

    while (end && !step_place(sample, ip, 0)->ip) {
        outer = ss_lua_word(end - sizeof outer);
        if (step_place(sample, ip, outer)->size != end - sp)
            return 0;
        sp = end;
        ip = outer;
        end = end_seen(sample, ip, sp);
    }
    return end ? first : 0;
}
#else
static void remember_step(ss_lua_sample *sample, uint32_t i, bool last)
{
    (void)sample;
    (void)i;
    (void)last;
}

static uintptr_t all_seen(ss_lua_sample *sample, uintptr_t ip, uintptr_t sp)
{
    (void)sample;
    (void)ip;
    (void)sp;
    return 0;
}
#endif

/* ---- One visit -------------------------------------------------------------------------------*/

/* Collect frames from the call site outward, up to and with our function that called into Lua, or a
   frame from which all was seen. */
static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *data)
{
    ss_lua_sample *sample = data;
    ss_lua_visit_frame *frame = &sample->frames[sample->frame_count];

    frame->ip = _Unwind_GetIP(context);
    frame->sp = _Unwind_GetCFA(context);
    if (sample->frame_count == 0 &&
        (frame->ip != sample->entry->ip || frame->sp != (uintptr_t)(sample->entry + 1)))
        return _URC_NO_REASON; /* still one of ours */
    frame->function = _Unwind_GetRegionStart(context);
    sample->frame_count++;
    return is_own(sample, frame->function) || all_seen(sample, frame->ip, frame->sp) ||
                   sample->frame_count == SS_LUA_VISIT_FRAMES
               ? _URC_END_OF_STACK
               : _URC_NO_REASON;
}

/*
 * Copy the words of a frame, from its stack pointer up to END.  Its function never wrote some of
 * them, so we read through the kernel where it allows that: memory checkers then need no exception.
 * Returns the number of words.
 */
static uint32_t copy_frame(const ss_lua_sample *sample, uintptr_t *words, uintptr_t start,
                           uintptr_t end)
{
    size_t bytes = end > start ? end - start : 0;
    struct iovec local, remote;

    if (bytes > SS_LUA_SLOTS * sizeof *words)
        bytes = SS_LUA_SLOTS * sizeof *words;
    bytes -= bytes % sizeof *words;
    local = (struct iovec){words, bytes};
    remote = (struct iovec){(void *)start, bytes};
    if (process_vm_readv(sample->process, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
        for (size_t i = 0; i < bytes / sizeof *words; i++)
            words[i] = ss_lua_word(start + i * sizeof *words);
    return (uint32_t)(bytes / sizeof *words);
}

static void keep_registers(ss_lua_sample *sample, ss_lua_candidates *kept, uintptr_t value,
                           bool first)
{
    uint32_t before = kept->registers;

    for (int i = 0; i < SS_LUA_REGISTERS; i++)
        if (sample->entry->registers[i] != value)
            kept->registers &= ~(1u << i);
    if (before && !kept->registers && !first)
        sample->again = true;
}

static void keep_slots(ss_lua_candidates *kept, const uintptr_t *words, uint32_t word_count,
                       uintptr_t value)
{
    if (kept->registers)
        return;
    for (uint32_t i = 0; i < SS_LUA_SLOTS / 64; i++)
        for (uint64_t left = kept->slots[i]; left; left &= left - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(left);

            if (slot >= word_count || words[slot] != value)
                kept->slots[i] &= ~(left & -left);
        }
}

/*
 * At a visit of the site at ROW, whose frame ends at END.  Nearly all builds keep both values in
 * registers, which needs no look at the slots.
 */
static void keep_candidates(ss_lua_sample *sample, int row, uintptr_t end, uintptr_t state,
                            uintptr_t ci)
{
    uintptr_t words[SS_LUA_SLOTS];
    bool first = sample->visits[row]++ == 0;
    uint32_t count;

    sample->seen[row] |= sample->state_bit;
    keep_registers(sample, &sample->state[row], state, first);
    keep_registers(sample, &sample->ci[row], ci, first);
    if (sample->state[row].registers && sample->ci[row].registers)
        return;
    count = copy_frame(sample, words, (uintptr_t)(sample->entry + 1), end);
    keep_slots(&sample->state[row], words, count, state);
    keep_slots(&sample->ci[row], words, count, ci);
}

/* The sample's row for that site, with all places possible if it is new; -1 when the table is
   full. */
static int row_of_site(ss_lua_sample *sample, uintptr_t ip, bool hook)
{
    ss_lua_layout *layout = sample->layout;
    uint32_t row;

    for (row = 0; row < layout->site_count; row++)
        if (layout->sites[row].ip == ip)
            return (int)row;
    if (row == SS_LUA_SITES)
        return -1;
    layout->sites[row] = (ss_lua_site){.ip = ip, .hook = hook};
    memset(&sample->state[row], 0xff, sizeof sample->state[row]);
    sample->state[row].registers = (1u << SS_LUA_REGISTERS) - 1;
    sample->ci[row] = sample->state[row];
    layout->site_count++;
    return (int)row;
}

/* From the site outward everything is the interpreter's, up to the API function we called. */
static void learn_internals(ss_lua_sample *sample)
{
    ss_lua_layout *layout = sample->layout;

    for (uint32_t i = 0; i + 1 < sample->frame_count; i++) {
        uintptr_t function = sample->frames[i].function;

        bool is_api = ss_lua_is_api(layout, function);
        bool is_last = is_api || is_own(sample, sample->frames[i + 1].function);

        remember_step(sample, i, is_last);
        if (!is_api && is_last &&
            !add_once(layout->apis, &layout->api_count, SS_LUA_APIS, function))
            sample->overflow = true;
        if (is_last)
            return;
        if (!add_once(layout->internals, &layout->internal_count, SS_LUA_INTERNALS, function))
            sample->overflow = true;
    }
}

void ss_lua_sample_visit(ss_lua_sample *sample, lua_State *L, const ss_lua_entry *entry, bool hook)
{
    lua_Debug activation = {0};
    uintptr_t end = all_seen(sample, entry->ip, (uintptr_t)(entry + 1));
    bool seen = end != 0;
    int row;

    sample->entry = entry;
    if (!seen) {
        sample->frame_count = 0;
        (void)_Unwind_Backtrace(note_frame, sample);
        if (sample->frame_count < 2)
            return;
        end = sample->frames[1].sp;
    }
    if (!lua_getstack(L, 0, &activation))
        return;
    row = row_of_site(sample, entry->ip, hook);
    if (row < 0) {
        sample->overflow = true;
        return;
    }
    keep_candidates(sample, row, end, (uintptr_t)L, (uintptr_t)activation.i_ci);
    if (!seen)
        learn_internals(sample);
}

static ss_lua_place place_of(const ss_lua_candidates *kept)
{
    ss_lua_place place = {SS_LUA_NOWHERE, 0};

    if (kept->registers) {
        place.kind = SS_LUA_REGISTER;
        place.at = callee_saved[__builtin_ctz(kept->registers)];
        return place;
    }
    for (uint32_t i = 0; i < SS_LUA_SLOTS / 64; i++)
        if (kept->slots[i]) {
            place.kind = SS_LUA_SLOT;
            place.at =
                (uint32_t)sizeof(uintptr_t) * (i * 64 + (uint32_t)__builtin_ctzll(kept->slots[i]));
            return place;
        }
    return place;
}

/* Require two visits: one could agree by accident.  A site without both places is useless. */
void ss_lua_sample_finish(ss_lua_sample *sample)
{
    ss_lua_layout *layout = sample->layout;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < layout->site_count; i++) {
        ss_lua_site site = layout->sites[i];

        site.state = place_of(&sample->state[i]);
        site.ci = place_of(&sample->ci[i]);
        if (sample->visits[i] < 2 || site.state.kind == SS_LUA_NOWHERE ||
            site.ci.kind == SS_LUA_NOWHERE)
            continue;
        layout->sites[kept++] = site;
    }
    layout->site_count = kept;
    if (sample->overflow)
        layout->failure = "too many call sites in this copy of Lua";
    else if (kept == 0)
        layout->failure = "no call sites found in this copy of Lua";
    else if (sample->contradicted || !sample->compared || !sample->pc_compared)
        layout->failure = "this copy of Lua keeps its calls in another way than its version does";
}
