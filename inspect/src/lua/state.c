/*
 * A word on a stack is a lua_State only if it has the type of one, and its calls form one chain
 * down to the first, each with a function of the right kind further down its stack.
 */
#include "lua/lua.h"

#include "base/list.h"
#include "base/shown.h"
#include "lua/call.h"
#include "lua/function.h"
#include "lua/layout.h"
#include "lua/locals.h"
#include "lua/name.h"
#include "lua/running.h"

#include <stdlib.h>

enum {
    MAX_CALLS = 1 << 16,
    MAX_SCAN = 8 << 20,      /* bytes of a stack in a core file, as long as most can be */
    MAX_SCAN_LIVE = 1 << 20, /* of one that waits for us */
    TRIED = 1 << 14,
    EXTRA = 64 * 16 /* bytes that a stack has beyond its end */
};

typedef struct reader {
    const ssi_target *target;
    const ssi_memory *memory;
    ssi_luas *luas;
    ssi_scripts *scripts;
    const ssi_lua_layout *layout;
    const ssi_thread *thread; /* whose stack is searched */
    bool has_more;            /* states than there is room for */
    uint64_t tried[TRIED];    /* by their hash; a later one replaces an earlier one */
    ssi_lua_names names;
    int locals_left; /* so many frames of the thread may still show theirs */
} reader;

/* ---- Calls ------------------------------------------------------------------------------------*/

/* Whether the calls from ADDRESS outward are those of STATE. */
static bool is_chain(reader *r, uint64_t state, uint64_t address)
{
    uint64_t low = 0, high = 0, last = UINT64_MAX;
    ssi_lua_call c;

    if (!ssi_read_word(r->memory, state + r->layout->state_stack, &low) ||
        !ssi_read_word(r->memory, state + r->layout->state_stack_last, &high) || low >= high)
        return false;
    for (int calls = 0; calls < MAX_CALLS; calls++) {
        if (!ssi_lua_read_call(r->memory, r->layout, address, &c) || c.function < low ||
            c.function >= high + EXTRA || c.function >= last)
            return false;
        if (address == state + SSI_LUA_STATE_BASE_CALL)
            return !c.previous;
        if (c.is_c ? c.tag != SSI_LUA_TAG_LIGHT && c.tag != SSI_LUA_TAG_CLOSURE
                   : c.tag != SSI_LUA_TAG_LUA)
            return false;
        last = c.function;
        address = c.previous;
    }
    return false;
}

/* ---- Runs -------------------------------------------------------------------------------------*/

static bool end_run(reader *r, ssi_lua_state *state, ssi_lua_run *run)
{
    run->count = r->scripts->frames.count - run->first;
    if (run->count) {
        if (!ssi_grow(&r->luas->runs, r->luas->run_count, &r->luas->run_room, sizeof *run))
            return false;
        r->luas->runs[r->luas->run_count++] = *run;
        state->count++;
    }
    *run = (ssi_lua_run){.first = r->scripts->frames.count};
    return true;
}

static const char *locals_of(reader *r, const ssi_lua_call *c)
{
    ssi_written written = {.bytes = NULL};

    if (!r->scripts->with_locals || !r->locals_left)
        return NULL;
    r->locals_left--;
    ssi_lua_locals(r->memory, r->layout, c, &written);
    return ssi_scripts_keep_locals(r->scripts, &written);
}

static void add_state(reader *r, uint64_t address, uint64_t innermost)
{
    ssi_lua_state state = {.address = address, .first = r->luas->run_count};
    ssi_lua_run run = {.first = r->scripts->frames.count};
    ssi_lua_call c;

    for (uint64_t at = innermost; at && ssi_lua_read_call(r->memory, r->layout, at, &c);
         at = c.previous) {
        ssi_frame frame;

        if (c.is_c) {
            if (!end_run(r, &state, &run))
                return;
            continue;
        }
        if (at == innermost && r->layout->pc_in_register) {
            ssi_lua_find_pc(r->target, r->layout, r->thread, &c);
            run.is_running = true;
        }
        frame = ssi_lua_frame(r->memory, r->layout, &c,
                              ssi_lua_call_name(r->memory, r->layout, &r->names, &c));
        frame.locals = locals_of(r, &c);
        if (!run.call_info)
            run.call_info = at;
        if (!ssi_frames_add(&r->scripts->frames, &frame) ||
            (c.is_fresh && !end_run(r, &state, &run)))
            return;
    }
    if (end_run(r, &state, &run) && state.count &&
        ssi_grow(&r->luas->states, r->luas->state_count, &r->luas->state_room, sizeof state))
        r->luas->states[r->luas->state_count++] = state;
}

/* ---- Where states are found -------------------------------------------------------------------*/

/* Whether ADDRESS is to be tried.  Most words recur soon: they are not read again.  One that was
   replaced is, so a state is known by its address, too. */
static bool is_new(reader *r, uint64_t address)
{
    size_t at = (size_t)(address * 0x9E3779B97F4A7C15u >> 32) % TRIED;

    if (r->tried[at] == address)
        return false;
    r->tried[at] = address;
    for (size_t i = 0; i < r->luas->state_count; i++)
        if (r->luas->states[i].address == address)
            return false;
    return true;
}

static void try_word(reader *r, uint64_t word)
{
    const ssi_mapping *mapping = word % 8 ? NULL : ssi_target_mapping(r->target, word);
    uint64_t innermost;
    uint8_t type;

    if (!mapping || !mapping->writable || mapping->executable || !is_new(r, word) ||
        !ssi_read(r->memory, word + SSI_LUA_TYPE, &type, 1) || type != SSI_LUA_THREAD ||
        !ssi_read_word(r->memory, word + SSI_LUA_STATE_CALL, &innermost))
        return;
    for (size_t i = 0; i < r->luas->copy_count; i++) {
        r->layout = r->luas->copies[i].layout;
        if (!is_chain(r, word, innermost))
            continue;
        if (r->luas->state_count < SSI_MAX_LUA_STATES)
            add_state(r, word, innermost);
        else
            r->has_more = true;
        return;
    }
}

static void scan(reader *r, const ssi_thread *thread)
{
    uint64_t sp = thread->registers[r->target->machine->sp], end, word;
    uint64_t most = r->target->is_live ? MAX_SCAN_LIVE : MAX_SCAN;

    r->thread = thread;
    r->locals_left = SSI_SHOWN_FRAMES;
    for (int i = 0; i < r->target->machine->registers; i++)
        try_word(r, thread->registers[i]);
    end = thread->stack_end > sp + most ? sp + most : thread->stack_end;
    for (uint64_t at = sp & ~(uint64_t)7; at < end && !ssi_budget_is_spent(); at += sizeof word)
        if (ssi_read_word(r->memory, at, &word))
            try_word(r, word);
}

void ssi_lua_read(const ssi_target *target, ssi_luas *luas, ssi_scripts *scripts)
{
    reader *r = luas->copy_count ? calloc(1, sizeof *r) : NULL;

    if (!r)
        return;
    r->target = target;
    r->memory = &target->memory;
    r->luas = luas;
    r->scripts = scripts;
    for (size_t i = 0; i < target->thread_count; i++)
        if (target->threads[i].has_registers)
            scan(r, &target->threads[i]);
    if (r->has_more)
        ssi_scripts_note(scripts, "not all Lua states are shown: more than 256 are on stacks");
    free(r);
}

void ssi_lua_free(ssi_luas *luas)
{
    for (size_t i = 0; i < luas->copy_count; i++)
        ssi_binary_close(&luas->copies[i].binary);
    free(luas->states);
    free(luas->runs);
}
