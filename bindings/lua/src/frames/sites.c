/* The interpreter's call sites among the native frames, and the runs of activations between them. */
#include "frames/collection.h"

#include <string.h>
#include <sys/mman.h>

/* ---- Runs -------------------------------------------------------------------------------------*/

uint32_t ss_lua_run_length(uintptr_t ci, uintptr_t stop)
{
    uint32_t length = 0;

    for (; ci && ci != stop && length < SS_LUA_RUN_LIMIT; ci = ss_lua_outer(ci))
        length++;
    return length;
}

const void *ss_lua_saved_pc(lua_State *L, ss_lua_ci ci)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    return ci && layout && !layout->failure ? (const void *)ss_lua_pc_of(ss_lua_ci_address(L, ci))
                                            : NULL;
}

/* lua_getstack counts from the innermost activation each time: of a deep stack that takes minutes. */
bool ss_lua_has_activation(lua_State *L, ss_lua_ci ci)
{
    enum { MOST_LEVELS = 1000 };
    const ss_lua_layout *layout = ss_lua_layout_get();
    lua_Debug activation;

    if (layout && !layout->failure) {
        uintptr_t wanted = ss_lua_ci_address(L, ci), at = ss_lua_innermost(L);

        while (at && at != wanted)
            at = ss_lua_outer(at);
        return at != 0;
    }
    for (int level = 0; level < MOST_LEVELS; level++) {
        if (!lua_getstack(L, level, &activation))
            return false;
        if (ss_lua_is_same_ci(activation.i_ci, ci))
            return true;
    }
    return true;
}

/* ---- Protected calls -------------------------------------------------------------------------*/

#if SS_LUA_JIT
static bool knows_calls(void)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    return layout && !layout->failure;
}

/* The frame of the function that runs. */
static uintptr_t running_frame(lua_State *L)
{
    return ss_lua_base_of((uintptr_t)L) - SS_LUA_SLOT_SIZE;
}

/* The function of a frame; 0 where C runs below all functions. */
static uintptr_t function_at(uintptr_t frame)
{
    return ss_lua_is_empty(frame) ? 0 : ss_lua_frame_object(frame);
}

/* LuaJIT leaves the error where the function was that C called. */
ss_lua_call_place ss_lua_innermost_call(lua_State *L, ss_lua_ci *called)
{
    ss_lua_call_place none = {0, 0};
    uintptr_t frame;

    *called = 0;
    if (!knows_calls())
        return none;
    for (frame = running_frame(L); !ss_lua_is_base(frame); frame = ss_lua_frame_outside(frame)) {
        uintptr_t kind = ss_lua_link_of(frame) & SSI_JIT_LINK_BITS;

        if (kind == SSI_JIT_LINK_PROTECTED)
            return (ss_lua_call_place){frame - (ss_lua_narrow ? 0 : SS_LUA_SLOT_SIZE) -
                                           ss_lua_stack_of((uintptr_t)L),
                                       function_at(ss_lua_frame_outside(frame))};
        if (kind > SSI_JIT_LINK_PROTECTED)
            break; /* the library's pcall and xpcall */
    }
    return none;
}

bool ss_lua_serves_script(lua_State *L, lua_CFunction xpcall)
{
    ss_lua_ci called;

    (void)xpcall;
    return knows_calls() &&
           ((ss_lua_link_of(running_frame(L)) & SSI_JIT_LINK_KIND) != SSI_JIT_LINK_C ||
            !ss_lua_innermost_call(L, &called).at);
}

ss_lua_call_place ss_lua_place_of(lua_State *L, int index)
{
    if (!knows_calls())
        return (ss_lua_call_place){0, 0};
    return (ss_lua_call_place){ss_lua_base_of((uintptr_t)L) +
                                   (uintptr_t)(index - 1) * SS_LUA_SLOT_SIZE -
                                   ss_lua_stack_of((uintptr_t)L),
                               function_at(running_frame(L))};
}
#else
static bool knows_calls(void)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    return layout && !layout->failure && layout->knows_state;
}

/* A function that is called is the first or second value behind its handler.  A method that closes a
   variable follows that variable, which the function has, and the error. */
enum { BEFORE_METHOD = 3 };

ss_lua_call_place ss_lua_innermost_call(lua_State *L, ss_lua_ci *called)
{
    ss_lua_call_place place = {0, 0};
    uintptr_t ci, handler, inner = 0;

    *called = 0;
    if (!knows_calls() || !*ss_lua_handler_of(L))
        return place;
    place.at = *ss_lua_handler_of(L);
    ci = ss_lua_innermost(L);
    handler = ci ? ss_lua_base_slot(ci) + place.at : 0;
    for (; ci && ss_lua_slot_of(ci) >= handler; ci = ss_lua_outer(ci))
        inner = ci;
    if (SS_LUA_CLOSES && inner && ss_lua_slot_of(inner) - handler > BEFORE_METHOD * SSI_LUA_VALUE)
        *called = ss_lua_ci_of(L, inner);
    place.caller = ci ? ss_lua_function_of(ci) : 0;
    return place;
}

bool ss_lua_serves_script(lua_State *L, lua_CFunction xpcall)
{
    uintptr_t ci = ss_lua_innermost(L), handler;
    ss_lua_activation caller;

    if (!knows_calls() || !ci || !ss_lua_outer(ci))
        return false;
    ss_lua_activation_read(ss_lua_outer(ci), &caller);
    ss_lua_note_callee(&caller, ci);
    if (caller.callee)
        return true;
    handler = ss_lua_base_slot(ci) + *ss_lua_handler_of(L);
    while (ci && ss_lua_slot_of(ci) >= handler)
        ci = ss_lua_outer(ci);
    return ci && ss_lua_c_function_of(ci) == (uintptr_t)xpcall;
}

ss_lua_call_place ss_lua_place_of(lua_State *L, int index)
{
    uintptr_t ci;

    if (!knows_calls())
        return (ss_lua_call_place){0, 0};
    ci = ss_lua_innermost(L);
    if (!ci)
        return (ss_lua_call_place){(uintptr_t)index * SSI_LUA_VALUE, 0};
    /* A function in C keeps no address of its registers until 5.3; they follow it. */
    return (ss_lua_call_place){ss_lua_slot_of(ci) - ss_lua_base_slot(ci) +
                                   (uintptr_t)index * SSI_LUA_VALUE,
                               ss_lua_function_of(ci)};
}
#endif

#if SS_LUA_JIT
/*
 * LuaJIT drops the frames inside of a function in C as the error passes it, and moves the error value to where
 * they began.  In wide builds the second word of the first one, which leads out to that function, follows the
 * value; narrow ones have it in the word of the value.  There only LuaJIT's own functions that call others are
 * known: one of a host that fails has most often raised the error itself.
 */
bool ss_lua_has_lost_frames(lua_State *dead, bool has_value)
{
    uintptr_t inner = ss_lua_top_of((uintptr_t)dead) + (has_value ? 0 : SS_LUA_SLOT_SIZE), link;
    const ss_lua_layout *layout = ss_lua_layout_get();
    uintptr_t ci = layout && !layout->failure ? ss_lua_innermost(dead) : 0;
    lua_Debug activation;

    if (!ci || ss_lua_is_in_lua(ci))
        return false;
    if (!ss_lua_narrow) {
        link = inner < ss_lua_stack_end_of((uintptr_t)dead) ? ss_lua_link_of(inner) : 0;
        return (link & SSI_JIT_LINK_KIND) != SSI_JIT_LINK_LUA &&
               inner - (link & ~(uintptr_t)SSI_JIT_LINK_BITS) == ss_lua_frame_of(ci);
    }
    activation = ss_lua_debug_of(dead, ci);
    lua_getinfo(dead, "n", &activation);
    if (activation.name && strcmp(activation.name, "require") == 0)
        return true;
    return ss_lua_sort_of(ss_lua_function_of(ci)) > 1 &&
           (!activation.name ||
            (strcmp(activation.name, "error") != 0 && strcmp(activation.name, "assert") != 0));
}
#endif

uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames,
                            ss_lua_activation_log *log)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    uintptr_t ci = ss_lua_innermost(dead);
    uint32_t count = 0, length, left_out;

    if (!layout || max < 2)
        return 0;
    if (layout->failure) {
        frames[0] = ss_lua_gap(layout->failure);
        return 1;
    }
    length = ss_lua_run_length(ci, 0);
    left_out = length > max - 2 ? length - (max - 2) : 0;
    for (uint32_t i = 0; i < length; i++, ci = ss_lua_outer(ci)) {
        if (left_out && i == max / 2) {
            frames[count++] = stacksplice_left_out(left_out);
            for (; i < max / 2 + left_out; i++)
                ci = ss_lua_outer(ci);
        }
        frames[count] = ss_lua_activation_token(dead, ci, STACKSPLICE_TRUST_TRACEBACK);
        if (log)
            ss_lua_log_activation(log, frames[count], dead, ci);
        count++;
        if (ss_lua_is_tail_call(ci))
            frames[count++] = ss_lua_gap(SS_LUA_TAIL_CALLS);
    }
    return count;
}

/* ---- The end of a run on this stack -----------------------------------------------------------*/

/*
 * Where a coroutine's part of this native stack ends.  A coroutine may have been called on several
 * stacks: on a thread's, and from inside of that on a fiber's.
 *
 * Every C function that Lua called has a call site on its stack, and the run inside it ends there.
 * A C activation before the expected site therefore marks where this stack entered Lua: it and all
 * activations outward of it have their frames on another stack.  The exception is a coroutine that
 * was resumed on this stack: all of it belongs here, including C activations that lost their frames
 * when they yielded.  Nor does a missing site prove anything where the walk has lost frames.
 */

/* The first frame outward of FRAME that is a site, or the number of frames. */
static uint32_t next_site(const ss_lua_collection *c, uint32_t frame)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].frame > frame)
            return c->sites[i].frame;
    return c->walk->frame_count;
}

bool ss_lua_resumes_between(const ss_lua_collection *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (c->walk->frames[i].function == (uintptr_t)lua_resume)
            return true;
    return false;
}

bool ss_lua_misses_behind(const ss_lua_collection *c, uint32_t frame, bool surely)
{
    uint32_t end = next_site(c, frame);

    for (uint32_t i = 0; i < c->missed_count; i++)
        if (c->missed[i].frame > frame && c->missed[i].frame < end &&
            !(surely && c->missed[i].may_be_none))
            return true;
    return false;
}

uintptr_t ss_lua_run_end(const ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                         uintptr_t ci, uintptr_t stop)
{
    bool at_site = frame == site->frame;

#if SS_LUA_JIT
    (void)c; /* functions in C between may have no frames: they are the interpreter's own */
    if (at_site && !site->hook && site->ci && ss_lua_is_entered(site->ci))
        return ci;
    for (uint32_t i = 0; ci && ci != stop && i < SS_LUA_RUN_LIMIT; i++, ci = ss_lua_outer(ci))
        if (ss_lua_is_entered(ci))
            return ss_lua_outer(ci);
#else
    uintptr_t hooked = site->hook && at_site ? site->ci : 0;

    for (uint32_t i = 0; ci && ci != stop && i < SS_LUA_RUN_LIMIT; i++, ci = ss_lua_outer(ci))
        if (ci != hooked && !ss_lua_is_in_lua(ci))
            return ss_lua_resumes_between(c, frame, next_site(c, frame)) &&
                           !ss_lua_misses_behind(c, frame, true)
                       ? stop
                       : ci;
#endif
    return stop;
}

/*
 * Whether the walk ended before the stack did.  Where a fiber begins, some C libraries have no unwind
 * data: what is left of the stack there has no room for a frame of Lua.
 */
static bool ended_early(const stacksplice_walk *walk)
{
    enum { ROOM_OF_A_START = 128 };
    uintptr_t outermost = walk->frame_count ? walk->frames[walk->frame_count - 1].sp : 0;

    return walk->truncated &&
           (outermost >= walk->stack_high || walk->stack_high - outermost > ROOM_OF_A_START);
}

uint32_t ss_lua_hole_behind(const ss_lua_collection *c, uint32_t frame, uint32_t *next)
{
    const stacksplice_walk *walk = c->walk;

    *next = next_site(c, frame);
    for (uint32_t i = frame + 1; i < *next; i++)
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_INFERRED)
            return i;
    return *next == walk->frame_count && (c->uncalled || ended_early(walk)) ? *next
                                                                            : SS_LUA_NO_HOLE;
}

/* ---- Missed sites -----------------------------------------------------------------------------*/

/*
 * Call sites that calibration never met: a frame of the interpreter, at no known site, called a
 * frame that is not Lua's.  A gap reports the missed call.
 */

/* Note a frame of the interpreter without a site; it is a missed site if it called other code. */
static void missed_note(ss_lua_collection *c, uint32_t frame)
{
    const stacksplice_native_frame *frames = c->walk->frames;
    bool goes_on = frame > 0 && frame == c->unclaimed_end;
    uint8_t inside;

    c->unclaimed_end = frame + 1;
    if (goes_on || frame == 0 || (frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL && !SS_LUA_JIT) ||
        ss_lua_is_callback(c->layout, frames[frame].ip))
        return;
    inside = ss_lua_mark_of(c, frame - 1);
    if (inside && inside != SS_LUA_MARK_NEAR)
        return;
    /* The last place is that of the outermost one: those before it that have none lie inside of it. */
    if (c->missed_count == SS_LUA_MISSED)
        c->missed_count--;
    c->missed[c->missed_count++] = (ss_lua_missed){frame, inside != 0 && !SS_LUA_JIT};
}

/* ---- Sites ------------------------------------------------------------------------------------*/

/* Finds the interpreter's call sites among the native frames, and their coroutines. */

static bool read_place(const stacksplice_walk *walk, uint32_t frame, ss_lua_place place,
                       uintptr_t *value)
{
    uintptr_t address;
    size_t size = place.kind == SS_LUA_DEBUG ? sizeof(lua_Debug) : sizeof *value;

    if (place.kind == SS_LUA_REGISTER)
        return stacksplice_walk_register(walk, frame, place.at, value) != 0;
    *value = 0;
    if (place.kind == SS_LUA_NOWHERE)
        return true;
    address = walk->frames[frame].sp + place.at;
    if (address < walk->stack_low || address > walk->stack_high - size)
        return false;
    if (place.kind == SS_LUA_SLOT)
        *value = ss_lua_word(address);
    else if (place.kind == SS_LUA_HALF)
        *value = *(const uint32_t *)address;
    else
        *value = (uintptr_t)((const lua_Debug *)address)->i_ci;
    return true;
}

/*
 * Whether L is a coroutine.  A place of the lua_State that calibration has learnt may be wrong at a call
 * that no script of it made; where nothing else is read there, that must show before anything is read.
 */
static bool is_coroutine(uintptr_t L)
{
#if SS_LUA_BY_ORDER
    uintptr_t word;

    if (!L || L % sizeof word || !ss_lua_read_words(L + SS_LUA_KIND_WORD, &word, 1))
        return false;
    return (uint8_t)(word >> SS_LUA_KIND_SHIFT) == SS_LUA_KIND_THREAD;
#else
    return L != 0;
#endif
}

/* The lua_State and the CallInfo at a site; that is 0 if it follows from the order. */
static bool read_site(const stacksplice_walk *walk, uint32_t frame, const ss_lua_site *site,
                      uintptr_t found[2])
{
    const uint32_t registers[2] = {site->state.at, site->ci.at};
    bool both = site->state.kind == SS_LUA_REGISTER && site->ci.kind == SS_LUA_REGISTER;

    if (both ? !stacksplice_walk_registers(walk, frame, registers, 2, found)
             : !read_place(walk, frame, site->state, &found[0]) ||
                   !read_place(walk, frame, site->ci, &found[1]))
        return false;
    return is_coroutine(found[0]) && (found[1] || site->ci.kind == SS_LUA_NOWHERE);
}

ss_lua_interpreter *ss_lua_interpreter_of(ss_lua_collection *c, lua_State *L)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
    ss_lua_interpreter *interpreter;

    for (uint32_t i = 0; i < c->interpreter_count; i++)
        if (c->interpreters[i].registry == registry)
            return &c->interpreters[i];
    if (c->interpreter_count == SS_LUA_INTERPRETERS) {
        c->interpreters[SS_LUA_INTERPRETERS] = (ss_lua_interpreter){0};
        return &c->interpreters[SS_LUA_INTERPRETERS];
    }
    interpreter = &c->interpreters[c->interpreter_count++];
    *interpreter =
        (ss_lua_interpreter){.registry = registry, .record = ss_lua_state_of_registry(registry)};
    if (!interpreter->record) {
        atomic_store_explicit(ss_lua_known_place(L), NULL, memory_order_relaxed);
        return interpreter;
    }
    interpreter->cache = ss_lua_cache_of(interpreter->record);
    interpreter->cache->captured = true;
    interpreter->rest = interpreter->record->capturing;
    if (interpreter->rest && !c->capturing)
        c->capturing = interpreter->rest;
    return interpreter;
}

/* Whether CI is an activation of L, whose innermost one it mostly is. */
static bool is_activation(lua_State *L, uintptr_t ci)
{
    uintptr_t at = ss_lua_innermost(L);

    for (uint32_t i = 0; at && at != ci && i < SS_LUA_RUN_LIMIT; i++)
        at = ss_lua_outer(at);
    return at != 0;
}

#if SS_LUA_BY_ORDER
/*
 * The activations that a site may stand for are those of functions in C, from the inside outward.  In
 * LuaJIT they are the innermost one and each that has called Lua: others in C are the interpreter's
 * own, and have no frames.
 */
static uintptr_t next_candidate(uintptr_t ci)
{
#if SS_LUA_JIT
    while (ci && !ss_lua_is_entered(ci))
        ci = ss_lua_outer(ci);
    return ci ? ss_lua_outer(ci) : 0;
#else
    do
        ci = ss_lua_outer(ci);
    while (ci && ss_lua_is_in_lua(ci));
    return ci;
#endif
}

#if SS_LUA_JIT
/*
 * Where the frame inside is LuaJIT's own, FROM has none: it is a function of LuaJIT's machine code, as
 * coroutine.resume, or one in C that ended in a call of the API.  So the run begins with itself.
 */
static void show_uncalled(ss_lua_collection *c, ss_lua_call_site *site, uintptr_t from)
{
    site->inferred = !ss_lua_mark_of(c, site->frame - 1);
    site->hook = from && (!site->inferred || ss_lua_is_in_lua(from));
}
#endif

/* Whether CI is an activation of FUNCTION, or goes on in it after a yield. */
static bool is_of(uintptr_t ci, uintptr_t function)
{
    uintptr_t called = ss_lua_c_function_of(ci);

#if SS_LUA_CONTINUES_BY_GETCTX
    if (called && ss_lua_word(ci + SS_LUA_AT_CONTINUATION) == function)
        return true;
#endif
    return called == function;
}

/*
 * The activation of the function that was called at a site, from the candidate FROM outward: the first
 * whose function is that of the frame inside.  Those that come before it are in use on another stack,
 * as where a coroutine waits on a fiber.  A function that has ended in a jump has no frame with its
 * own address; then it is the first one in C, and only inferred.
 */
static uintptr_t find_called(ss_lua_collection *c, ss_lua_call_site *site, uintptr_t from)
{
    uintptr_t ci = from;

    if (!site->frame) { /* a function of ours, whose frame is left out */
        while (ci && ss_lua_is_own_body(ss_lua_c_function_of(ci)))
            ci = ss_lua_outer(ci);
        return ci;
    }
    for (uint32_t i = 0; ci && i < SS_LUA_RUN_LIMIT; i++, ci = next_candidate(ci))
        if (is_of(ci, c->walk->frames[site->frame - 1].function))
            return ci;
    site->by_order = site->inferred = true;
#if SS_LUA_JIT
    show_uncalled(c, site, from);
#endif
    return from;
}

/* The innermost activation that the site may stand for, outside of INNER, the next one of its
   coroutine, if there is one. */
static uintptr_t first_candidate(const ss_lua_call_site *site, const ss_lua_call_site *inner)
{
    uintptr_t ci = inner ? inner->ci : ss_lua_innermost(site->L);

    if (SS_LUA_JIT ? !inner : (!inner || inner->hook) && !ss_lua_is_in_lua(ci))
        return ci;
    return ci ? next_candidate(ci) : 0;
}
#endif

#if SS_LUA_JIT
/*
 * Whether L's base may be an old one: LuaJIT's loop and its machine code keep theirs in registers, and
 * a signal may have interrupted that, or what it calls without a word.  A function in C was called with
 * the base stored, if the base has it.
 */
static bool is_lost(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    const stacksplice_native_frame *frames = c->walk->frames;
    uint32_t frame = site->frame, flags = 0;
    uintptr_t at, function;
    uint8_t mark = frame ? ss_lua_mark_of(c, frame - 1) : 0;

    for (uint32_t i = 0; i <= frame; i++)
        flags |= frames[i].flags & (STACKSPLICE_NATIVE_SIGNAL | STACKSPLICE_NATIVE_INFERRED);
    if (!flags || (mark && mark != SS_LUA_MARK_NEAR))
        return false;
    at = ss_lua_base_of((uintptr_t)site->L) - (ss_lua_narrow ? 1u : 2u) * SS_LUA_SLOT_SIZE;
    if (!frame || !ss_lua_read_words(at, &function, 1))
        return true;
    function &= ss_lua_narrow ? UINT32_MAX : (UINT64_C(1) << 47) - 1;
    return !ss_lua_read_words(function + (ss_lua_narrow ? 24 : 40), &at, 1) ||
           at != frames[frame - 1].function;
}
#endif

/* Link the site to the next one further in of the same coroutine, if there is one.  False if the
   coroutine does not have its activation. */
static bool link_site(ss_lua_collection *c, uint16_t index)
{
    ss_lua_call_site *site = &c->sites[index], *first = c->sites;

    while (first < site && !(first->first && first->L == site->L))
        first++;
    site->first = first == site;
    site->latest = (uint16_t)(first - c->sites);
#if SS_LUA_JIT
    if (site->L == c->lost || (site->first && is_lost(c, site))) {
        c->lost = site->L;
        return false;
    }
#endif
    site->interpreter = site->first ? ss_lua_interpreter_of(c, site->L) : first->interpreter;
#if SS_LUA_BY_ORDER
    if (!site->ci)
        site->ci = find_called(
            c, site, first_candidate(site, site->first ? NULL : &c->sites[first->latest]));
    if (!site->ci && !site->first)
        return false;
#endif
    if (site->first) {
        site->closed = !is_activation(site->L, site->ci);
        return true;
    }
    c->sites[first->latest].stop = site->ci;
    first->latest = index;
    return true;
}

#if SS_LUA_BY_ORDER && !SS_LUA_JIT
/*
 * Each call site stands for an activation of its own in C.  Where a coroutine has no more of them than
 * sites, outward of one that follows from the order, none is in use on another stack: the order is right.
 */
static void prove_order(ss_lua_collection *c)
{
    for (uint32_t i = 0; i < c->site_count; i++) {
        ss_lua_call_site *site = &c->sites[i];
        uint32_t left = 0, limit = SS_LUA_RUN_LIMIT;

        if (!site->by_order)
            continue;
        for (uint32_t j = i; j < c->site_count; j++)
            left += c->sites[j].L == site->L && !c->sites[j].hook;
        for (uintptr_t ci = site->ci; ci && limit; ci = ss_lua_outer(ci), limit--)
            left -= !ss_lua_is_in_lua(ci);
        site->inferred = left != 0 || !limit;
    }
}
#endif

#if SS_LUA_JIT
/* A reference, of a state that another thread may be closing; 0: it cannot be read. */
static uintptr_t reference_at(uintptr_t address)
{
    uintptr_t word;

    if (!ss_lua_read_words(address, &word, 1))
        return 0;
    return ss_lua_narrow ? (uint32_t)word : word;
}

static bool is_entered_in(uintptr_t L, uintptr_t low, uintptr_t high)
{
    uintptr_t frame;

    return ss_lua_read_words(L + (ss_lua_narrow ? 48 : 80), &frame, 1) && frame > low &&
           frame < high;
}

bool ss_lua_is_entered_here(const ss_lua_activation_log *log, const lua_State *L)
{
    return is_entered_in((uintptr_t)L, log->stack_low, log->stack_high);
}

lua_State *ss_lua_compiled(const ss_lua_collection *c, uintptr_t *ci)
{
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);
    const stacksplice_walk *walk = c->walk;
    uint32_t last = c->site_count ? c->sites[c->site_count - 1].frame : UINT32_MAX, next;

    if (!walk->frame_count || !c->layout->current ||
        ss_lua_hole_behind(c, last, &next) != walk->frame_count)
        return NULL;
    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE)) {
        uintptr_t at, L, base;

        if (!atomic_load(&state->registry))
            continue;
        at = reference_at((uintptr_t)state->main + (ss_lua_narrow ? 8 : 16)) + c->layout->current;
        L = reference_at(at);
        base = reference_at(at + (ss_lua_narrow ? 4 : 8));
        if (!base || !is_coroutine(L) ||
            !is_entered_in(L, walk->frames[walk->frame_count - 1].sp, walk->stack_high))
            continue; /* it runs on another stack, if it runs */
        *ci = base - SS_LUA_SLOT_SIZE;
        if (L != (uintptr_t)c->lost && base > ss_lua_stack_of(L) && base < ss_lua_stack_end_of(L))
            return (lua_State *)L;
    }
    return NULL;
}
#endif

/* Whether a frame continues what the last site hides; then it is hidden too. */
static inline bool hide(ss_lua_collection *c, uint32_t frame)
{
    ss_lua_call_site *last = &c->sites[c->site_count];

    if (c->site_count == 0 || frame != last[-1].frame + last[-1].hidden)
        return false;
    last[-1].hidden++;
    return true;
}

/* The frame inside of a site is the C function that it called: never the interpreter's. */
static inline void keep_callee(ss_lua_collection *c, uint32_t frame)
{
    ss_lua_call_site *last = &c->sites[c->site_count];

    if (c->site_count > 0 && frame == last[-1].frame + last[-1].hidden && last[-1].hidden > 1)
        last[-1].hidden--;
}

/*
 * A frame of LuaJIT's loop that nothing has called is that of a trace which ends, with another layout:
 * as when a finalizer runs there.
 */
static bool is_called(const stacksplice_walk *walk, uint32_t frame)
{
    return frame + 1 < walk->frame_count &&
           !(walk->frames[frame + 1].flags & STACKSPLICE_NATIVE_INFERRED);
}

/* Whether a frame of LuaJIT's loop protects code of LuaJIT, as the parser, which is no activation: the
   number of results is negative then. */
static bool calls_no_function(const stacksplice_walk *walk, uint32_t frame)
{
#if SS_LUA_JIT
    const ss_lua_place place = {SS_LUA_HALF, ss_lua_narrow ? 16 : 8};
    uintptr_t results;

    return read_place(walk, frame, place, &results) && (int32_t)results < 0;
#else
    (void)walk;
    (void)frame;
    return false;
#endif
}

/*
 * Whether the function inside of FRAME, of ours, has ended its activation and raises: then Lua's frames from
 * there inward are those of the handler that Lua calls in its place, and the next site hides them all.
 */
static bool hide_left(ss_lua_collection *c, uint32_t frame)
{
    ss_lua_call_site *last = &c->sites[c->site_count];
    const stacksplice_native_frame *inner = &c->walk->frames[frame];

    if (SS_LUA_JIT || frame < 2 || !ss_lua_has_left(inner[-2].function))
        return false;
    if (c->site_count)
        last[-1].hidden = frame + 1 - last[-1].frame;
    else
        missed_note(c, frame);
    return true;
}

static bool add_site(ss_lua_collection *c, uint32_t frame, const ss_lua_site *site)
{
    uintptr_t found[2];

    if (hide_left(c, frame))
        return true;

    if (SS_LUA_JIT && !is_called(c->walk, frame)) {
        c->uncalled = true;
        if (!c->site_count) /* else its coroutine goes on where the walk ends */
            missed_note(c, frame);
        return true;
    }
    if (!read_site(c->walk, frame, site, found) || calls_no_function(c->walk, frame)) {
        (void)hide(c, frame);
        return true;
    }
    if (c->site_count == c->site_room) {
        c->too_many = true;
        return false;
    }
    keep_callee(c, frame);
    c->sites[c->site_count] =
        (ss_lua_call_site){.frame = frame,
                           .hidden = 1,
                           .hook = site->hook,
                           .L = (lua_State *)found[0],
                           .ci = ss_lua_ci_address((lua_State *)found[0], (ss_lua_ci)found[1])};
#if SS_LUA_STORES_PLACE_WHEN_ASKED
    if (site->hook) { /* has Lua store where the function goes on that was interrupted */
        lua_Debug interrupted = {.i_ci = (ss_lua_ci)found[1]};

        (void)lua_getinfo((lua_State *)found[0], "l", &interrupted);
    }
#endif
    if (link_site(c, (uint16_t)c->site_count))
        c->site_count++;
    else
        missed_note(c, frame);
    return true;
}

/* Whether MARK is that of a frame which add_site takes. */
static bool is_site(uint8_t mark)
{
    return mark && mark != SS_LUA_MARK_INTERNAL && mark != SS_LUA_MARK_NEAR &&
           mark != SS_LUA_MARK_API;
}

/* For many sites, map memory: a signal may have interrupted the allocator.  Without it keep the near
   sites and leave a gap for the rest. */
static void make_room(ss_lua_collection *c, uint32_t end)
{
    uint32_t wanted = 0;
    void *map;

    c->sites = c->near_sites;
    c->site_room = SS_LUA_NEAR_SITES;
    if (end <= SS_LUA_NEAR_SITES)
        return;
    for (uint32_t i = 0; i < end && wanted < SS_LUA_CAPTURE_SITES; i++)
        wanted += is_site(ss_lua_mark_of(c, c->marks ? c->walk->marked[i] : i));
    if (wanted <= SS_LUA_NEAR_SITES)
        return;
    map = mmap(NULL, wanted * sizeof *c->sites, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    if (map == MAP_FAILED)
        return;
    c->sites = map;
    c->site_room = wanted;
}

void ss_lua_end_sites(ss_lua_collection *c)
{
    if (c->sites != c->near_sites)
        (void)munmap(c->sites, c->site_room * sizeof *c->sites);
}

void ss_lua_find_sites(ss_lua_collection *c)
{
    uint32_t end = c->marks ? c->walk->marked_count : c->walk->frame_count;

    make_room(c, end);
    for (uint32_t i = 0; i < end; i++) {
        uint32_t frame = c->marks ? c->walk->marked[i] : i;
        uint8_t mark = ss_lua_mark_of(c, frame);

        if (mark == SS_LUA_MARK_INTERNAL) {
            if (!hide(c, frame))
                missed_note(c, frame);
        } else if (mark == SS_LUA_MARK_NEAR) {
            (void)hide(c, frame);
        } else if (is_site(mark) && !add_site(c, frame, &c->layout->sites[mark - 1])) {
            return;
        }
    }
#if SS_LUA_BY_ORDER && !SS_LUA_JIT
    prove_order(c);
#endif
}
