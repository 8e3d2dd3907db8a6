/*
 * Which native frames are the interpreter's loop, and what each of them runs.
 *
 * The loop keeps the CallInfo of the function that it runs in a register or on its stack.  So a
 * frame of Lua's binary that holds the one of a state's next run is a frame of that run.  The loop
 * is the largest function that does; those that it called may still hold what it had in a register.
 * If two states could own a frame, or none, a gap stands there.
 *
 * If each run has its frame, and all these frames hold their CallInfo in one and the same register
 * or place, that is no chance: then the frames are exact.
 */
#include "lua/lua.h"

typedef struct placing {
    const ssi_target *target;
    ssi_luas *luas;
    const ssi_native_stack *stack;
    uint64_t places; /* where all frames of the loop hold their CallInfo: a bit each */
    size_t running;  /* the script frame where Lua itself runs */
} placing;

/* The start and *SIZE of the function of FRAME, if it is in a copy of Lua; else 0. */
static uint64_t function_of(const placing *p, const ssi_native_frame *frame, uint64_t *size)
{
    uint64_t pc = frame->address - 1;

    *size = 0;
    for (size_t i = 0; i < p->luas->copy_count; i++)
        if (pc >= p->luas->copies[i].start && pc < p->luas->copies[i].end)
            return ssi_binary_function(&p->luas->copies[i].binary, pc, size);
    return 0;
}

enum {
    FAR = 63, /* the place in a set that stands for all words far from the end of their frame */
    MAX_FRAME = 1 << 20 /* bytes of a frame that are searched: the loop's has some hundred */
};

/* Where native frame AT holds VALUE: registers, then words by their distance from its end. */
static uint64_t places_of(const placing *p, size_t at, uint64_t value)
{
    const ssi_machine *machine = p->target->machine;
    const ssi_native_frame *frame = &p->stack->frames[at];
    uint64_t end = ssi_native_end(p->stack, at), word, found = 0, limit = end;

    if (end > frame->sp && end - frame->sp > MAX_FRAME) /* another stack begins there */
        limit = frame->sp + MAX_FRAME;
    for (unsigned i = 0; i < machine->saved_count; i++)
        if (frame->known & 1u << i && frame->saved[i] == value)
            found |= (uint64_t)1 << i;
    for (uint64_t place = frame->sp + machine->inner_saves; place + machine->outer_saves < limit;
         place += sizeof word) {
        uint64_t bit = machine->saved_count + (end - place - machine->outer_saves) / sizeof word;

        if (ssi_read_word(place, &word) && word == value)
            found |= (uint64_t)1 << (bit < FAR ? bit : FAR);
    }
    return found;
}

/* The one state whose next run is that of native frame AT, which holds it in *PLACES; NULL if there
   is none, or more. */
static ssi_lua_state *owner_of(const placing *p, size_t at, uint64_t *places)
{
    ssi_lua_state *found = NULL;

    for (size_t i = 0; i < p->luas->state_count; i++) {
        ssi_lua_state *state = &p->luas->states[i];
        uint64_t held = 0;

        if (state->placed < state->count)
            held = places_of(p, at, p->luas->runs[state->first + state->placed].call_info);
        if (!held)
            continue;
        if (found)
            return NULL;
        found = state;
        *places = held;
    }
    return found;
}

/* The start of the interpreter's loop; 0 if it is not on this stack. */
static uint64_t find_loop(const placing *p)
{
    uint64_t loop = 0, largest = 0, size, places;

    for (size_t i = 0; i < p->stack->count; i++) {
        uint64_t function = function_of(p, &p->stack->frames[i], &size);

        if (function && size > largest && owner_of(p, i, &places)) {
            largest = size;
            loop = function;
        }
    }
    return loop;
}

/* The state whose placed runs lie furthest out. */
static size_t outermost_state(const placing *p, const size_t *last)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < p->luas->state_count; i++)
        if (p->luas->states[i].placed && (found == SIZE_MAX || last[i] > last[found]))
            found = i;
    return found;
}

/*
 * The runs that have no native frame.  A coroutine that has yielded left its frames behind: what ran
 * in them stands outside of the runs that have some.  But where native frames are missing, those of
 * the outermost state's runs are among them, behind the gap that says so.
 */
static bool place_others(const placing *p, int thread, ssi_scripts *scripts, const size_t *last)
{
    bool is_whole = !p->stack->truncated && !p->stack->left_out;
    size_t outermost = outermost_state(p, last);

    for (size_t i = 0; i < p->luas->state_count; i++) {
        ssi_lua_state *state = &p->luas->states[i];

        for (; state->placed && state->placed < state->count; state->placed++) {
            const ssi_lua_run *run = &p->luas->runs[state->first + state->placed];
            ssi_run behind = {.thread = thread,
                              .marker = p->stack->truncated ? UINT64_MAX : p->stack->cut_sp,
                              .first = run->first,
                              .count = run->count};

            if (is_whole || i != outermost)
                scripts->runs[last[i]].count += run->count;
            else if (!ssi_scripts_add_run(scripts, &behind))
                return false;
        }
    }
    return true;
}

static bool place_frame(placing *p, size_t at, int thread, ssi_scripts *scripts, size_t *last)
{
    uint64_t places = 0;
    ssi_lua_state *state = owner_of(p, at, &places);
    const ssi_lua_run *run = state ? &p->luas->runs[state->first + state->placed] : NULL;
    ssi_run placed = {.thread = thread, .marker = p->stack->frames[at].sp};

    p->places &= state ? places : 0;
    if (run) {
        if (run->is_running)
            p->running = run->first;
        placed.first = run->first;
        placed.count = run->count;
        last[state - p->luas->states] = scripts->run_count;
        state->placed++;
    } else {
        placed.first = scripts->frames.count;
        placed.count = 1;
        if (!ssi_frames_add_gap(&scripts->frames, "Lua functions that ran here were not found"))
            return false;
    }
    return ssi_scripts_add_run(scripts, &placed);
}

/* Whether each run of the states on this stack has its frame, beyond doubt. */
static bool are_matched(const placing *p)
{
    for (size_t i = 0; i < p->luas->state_count; i++)
        if (p->luas->states[i].placed && p->luas->states[i].placed < p->luas->states[i].count)
            return false;
    return p->places & ~((uint64_t)1 << FAR) && !p->stack->truncated && !p->stack->left_out;
}

/* The script frames of the runs from FIRST on, but for that whose line was guessed. */
static void mark_exact(const placing *p, ssi_scripts *scripts, size_t first)
{
    for (; first < scripts->run_count; first++)
        for (size_t i = 0; i < scripts->runs[first].count; i++) {
            size_t at = scripts->runs[first].first + i;

            scripts->frames.items[at].inferred = at == p->running;
        }
}

void ssi_lua_place(const ssi_target *target, ssi_luas *luas, const ssi_native_stack *stack,
                   int thread, ssi_scripts *scripts)
{
    placing p = {target, luas, stack, UINT64_MAX, SIZE_MAX};
    uint64_t loop = find_loop(&p), size;
    size_t last[SSI_MAX_LUA_STATES] = {0}, first = scripts->run_count;

    if (!loop)
        return;
    for (size_t i = 0; i < stack->count; i++)
        if (function_of(&p, &stack->frames[i], &size) == loop &&
            !place_frame(&p, i, thread, scripts, last))
            return;
    if (are_matched(&p))
        mark_exact(&p, scripts, first);
    (void)place_others(&p, thread, scripts, last);
}
