/*
 * The frame source: native frames that are call sites of the interpreter name a lua_State and a
 * CallInfo; the activations outward of it become tokens in place of the interpreter's own frames.
 *
 * Nothing is allocated in Lua, nothing can raise, and a stack of Lua is only written above its top
 * where room is known to be.
 */
#include "binding.h"

#include <stdio.h>
#include <string.h>

#include "layout.h"

enum {
    MAX_SITES = 512,     /* call sites of one capture */
    RUN_WHOLE = 256,     /* a run of activations up to this length is shown whole; */
    RUN_INNER = 160,     /* of a longer one these innermost */
    RUN_OUTER = 64,      /* and these outermost */
    RUN_LIMIT = 4000000, /* more links than any Lua stack can hold: a damaged chain */
    NAMED_FUNCTIONS = 1024,
    REST_STATES = 8,
    ROOM_FOR_NAMES = 6
};

typedef struct call_site {
    uint32_t frame;
    bool hook;
    lua_State *L;
    uintptr_t ci;
} call_site;

typedef struct collection {
    stacksplice_walk *walk;
    const ss_lua_layout *layout;
    struct {
        const void *registry;
        lua_State *L; /* its stack may be used above its top for a moment; or NULL */
    } rests[REST_STATES];
    uint32_t rest_count;
    lua_State *capturing; /* a function of ours that captures now rests in it; or NULL */
    ss_lua_notebook *notebook;
    uint32_t site_count;
    bool too_many;
    call_site sites[MAX_SITES];
} collection;

/* ---- Names -----------------------------------------------------------------------------------*/

/* The pointer that lua_topointer gives for the function of an activation, or NULL. */
static const void *function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    if (layout->function == SS_LUA_UNKNOWN)
        return NULL;
    return (const void *)ss_lua_word(ss_lua_word(ci + layout->function));
}

/* The lua_CFunction of a C activation, or 0. */
static uintptr_t c_function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    uintptr_t value, slot;
    uint8_t tag;

    if (layout->function == SS_LUA_UNKNOWN)
        return 0;
    slot = ss_lua_word(ci + layout->function);
    value = ss_lua_word(slot);
    tag = *(const uint8_t *)(slot + sizeof(uintptr_t));
    if (tag == layout->light_tag)
        return value;
    if (tag == layout->closure_tag && layout->closure_function != SS_LUA_UNKNOWN)
        return ss_lua_word(value + layout->closure_function);
    return 0;
}

/* A coroutine of L's state that rests, or NULL. */
static lua_State *rest_of(const collection *c, lua_State *L)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);

    for (uint32_t i = 0; i < c->rest_count; i++)
        if (c->rests[i].registry == registry)
            return c->rests[i].L;
    return NULL;
}

/* ACTIVATION has been filled with "S". */
static const char *loaded_name(collection *c, lua_State *L, const lua_Debug *activation)
{
    const void *function = function_of(c->layout, (uintptr_t)activation->i_ci);
    lua_State *rest = rest_of(c, L);
    ss_lua_state *state = ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX));
    ss_lua_known_name *known;

    if (!function || !state)
        return NULL;
    known = &state->names[((uintptr_t)function >> 4) % SS_LUA_KNOWN_NAMES];
    if (known->function != function || known->source != activation->source ||
        known->line_defined != activation->linedefined || known->uses_left == 0) {
        if (!rest)
            return NULL;
        *known = (ss_lua_known_name){.function = function,
                                     .source = activation->source,
                                     .line_defined = activation->linedefined,
                                     .uses_left = SS_LUA_NAME_USES};
        (void)ss_lua_global_name(rest, function, known->name, sizeof known->name);
    }
    known->uses_left--;
    return known->name[0] ? known->name : NULL;
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

static const char *interpreter_name(lua_State *L)
{
    const ss_lua_state *state = ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX));

    return state && state->name[0] ? state->name : NULL;
}

static uintptr_t intern(const stacksplice_token_info *info)
{
    uintptr_t token = 0;

    (void)stacksplice_intern(info, &token);
    return token;
}

static uintptr_t token_of(const lua_Debug *activation, const char *loaded, const char *interpreter,
                          stacksplice_trust trust)
{
    char function[LUA_IDSIZE + 40];
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = trust,
                                   .language = "lua",
                                   .interpreter = interpreter};

    info.function = activation->name;
    if (!*activation->namewhat || !activation->name)
        info.function = loaded;
    if (*activation->what == 'C') {
        info.file = "[C]";
        info.reason = "no native frame of its own";
        if (!info.function)
            info.function = "?";
        return intern(&info);
    }
    if (!info.function && *activation->what == 'm')
        info.function = "main chunk";
    if (!info.function) {
        (void)snprintf(function, sizeof function, "function <%s:%d>", activation->short_src,
                       activation->linedefined);
        info.function = function;
    }
    info.file = *activation->source == '@' ? activation->source + 1 : activation->short_src;
    info.line = activation->currentline > 0 ? (uint32_t)activation->currentline : 0;
    return intern(&info);
}

uintptr_t ss_lua_activation_token(lua_State *L, struct CallInfo *ci, stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = ci};

    lua_getinfo(L, "Sln", &activation);
    return token_of(&activation, NULL, interpreter_name(L), trust);
}

static void note(const collection *c, uintptr_t element, lua_State *L, uintptr_t ci)
{
    ss_lua_notebook *book = c->notebook;

    if (!book)
        return;
    if (book->count < book->capacity)
        book->seen[book->count] = (ss_lua_seen){element, L, (struct CallInfo *)ci};
    book->count++;
}

static void note_state(const collection *c, lua_State *L)
{
    ss_lua_notebook *book = c->notebook;

    if (!book)
        return;
    for (uint32_t i = 0; i < book->state_count; i++)
        if (book->states[i] == L)
            return;
    if (book->state_count < SS_LUA_DISPLACED)
        book->states[book->state_count++] = L;
}

static bool push_activation(collection *c, lua_State *L, uintptr_t ci, stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *loaded = NULL;
    uintptr_t token;

    lua_getinfo(L, "Sln", &activation);
    if (!*activation.namewhat && *activation.what != 'm')
        loaded = loaded_name(c, L, &activation);
    token = token_of(&activation, loaded, interpreter_name(L), trust);
    note(c, token, L, ci);
    return stacksplice_walk_push(c->walk, token);
}

/* ---- Runs of activations ---------------------------------------------------------------------*/

/* Steps outward along the activations of one coroutine. */
typedef struct cursor {
    lua_State *L;
    uintptr_t ci; /* 0 at the end */
    int level;    /* only where the links are not known */
} cursor;

static uintptr_t ci_at_level(lua_State *L, int level)
{
    lua_Debug activation;

    return lua_getstack(L, level, &activation) ? (uintptr_t)activation.i_ci : 0;
}

/* lua_getstack starts at the innermost level each time, so this search is kept short. */
static void find_level(cursor *at)
{
    uintptr_t ci = at->ci;

    for (at->level = 0; at->level < RUN_WHOLE; at->level++) {
        at->ci = ci_at_level(at->L, at->level);
        if (at->ci == ci || at->ci == 0)
            return;
    }
    at->ci = 0;
}

static void step(const ss_lua_layout *layout, cursor *at)
{
    uintptr_t outer;

    if (layout->previous == SS_LUA_UNKNOWN) {
        at->ci = at->level < RUN_WHOLE ? ci_at_level(at->L, ++at->level) : 0;
        return;
    }
    outer = ss_lua_word(at->ci + layout->previous);
    /* The base level, which has nothing outside of it, is no activation. */
    at->ci = outer && ss_lua_word(outer + layout->previous) ? outer : 0;
}

static bool push_gap_of(collection *c, uint32_t count)
{
    char reason[64];

    (void)snprintf(reason, sizeof reason, "%u Lua levels left out", count);
    return stacksplice_walk_push(c->walk, ss_lua_gap(reason));
}

/* Push the activations from AT outward, up to but without STOP (0: to the end). */
static bool push_run(collection *c, cursor at, uintptr_t stop, stacksplice_trust trust)
{
    uintptr_t outer[RUN_WHOLE - RUN_INNER];
    uint32_t count = 0, kept, held = 0;

    for (; at.ci && at.ci != stop && count < RUN_LIMIT; step(c->layout, &at), count++) {
        if (count < RUN_INNER) {
            if (!push_activation(c, at.L, at.ci, trust))
                return false;
        } else {
            outer[held++ % (RUN_WHOLE - RUN_INNER)] = at.ci;
        }
    }
    kept = held;
    if (held > RUN_WHOLE - RUN_INNER) {
        kept = RUN_OUTER;
        if (!push_gap_of(c, held - kept))
            return false;
    }
    for (uint32_t i = held - kept; i < held; i++)
        if (!push_activation(c, at.L, outer[i % (RUN_WHOLE - RUN_INNER)], trust))
            return false;
    return true;
}

/* ---- Sites -----------------------------------------------------------------------------------*/

static bool read_place(const stacksplice_walk *walk, uint32_t frame, ss_lua_place place,
                       uintptr_t *value)
{
    uintptr_t address;

    if (place.kind == SS_LUA_REGISTER)
        return stacksplice_walk_register(walk, frame, place.at, value) != 0;
    address = walk->frames[frame].sp + place.at;
    if (address < walk->stack_low || address > walk->stack_high - sizeof *value)
        return false;
    *value = ss_lua_word(address);
    return true;
}

static void find_sites(collection *c)
{
    for (uint32_t i = 0; i < c->walk->frame_count; i++) {
        const ss_lua_site *site = ss_lua_site_find(c->layout, c->walk->frames[i].ip);
        uintptr_t L, ci;

        if (!site || !read_place(c->walk, i, site->state, &L) ||
            !read_place(c->walk, i, site->ci, &ci) || !L || !ci)
            continue;
        if (c->site_count == MAX_SITES) {
            c->too_many = true;
            return;
        }
        c->sites[c->site_count++] = (call_site){i, site->hook, (lua_State *)L, ci};
    }
}

/* A capture of ours is under way in one of the states that are on this stack. */
static void find_capturing(collection *c)
{
    for (uint32_t i = 0; i < c->site_count && !c->capturing; i++) {
        const ss_lua_state *state =
            ss_lua_state_of_registry(lua_topointer(c->sites[i].L, LUA_REGISTRYINDEX));

        if (state && state->capturing) {
            c->capturing = state->capturing;
            c->notebook = state->notebook;
        }
    }
    for (uint32_t i = 0; i < c->site_count; i++)
        note_state(c, c->sites[i].L);
}

static bool is_first_of_its_state(const collection *c, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (c->sites[i].L == c->sites[index].L)
            return false;
    return true;
}

/* Where the run of a site ends: the next site of the same coroutine, 0 when there is none. */
static uintptr_t stop_of(const collection *c, uint32_t index)
{
    for (uint32_t i = index + 1; i < c->site_count; i++)
        if (c->sites[i].L == c->sites[index].L)
            return c->sites[i].ci;
    return 0;
}

/* The interpreter's own frames from the site outward, which the run stands for. */
static uint32_t hidden_from(const collection *c, uint32_t index)
{
    uint32_t first = c->sites[index].frame, end = first + 1;
    uint32_t limit = c->walk->frame_count;

    /* The frame inside of a site is the C function that it called: never the interpreter's. */
    if (index + 1 < c->site_count)
        limit = c->sites[index + 1].frame - 1;
    while (end < limit && ss_lua_is_internal(c->layout, c->walk->frames[end].function))
        end++;
    return end - first;
}

/* Whether FUNCTION was named before; it is from now on.  A lost entry costs time only. */
static bool already_named(uintptr_t function)
{
    static _Atomic(uintptr_t) named[NAMED_FUNCTIONS];
    size_t at = (function >> 4) % NAMED_FUNCTIONS;

    if (atomic_load_explicit(&named[at], memory_order_relaxed) == function)
        return true;
    atomic_store_explicit(&named[at], function, memory_order_relaxed);
    return false;
}

/* Scripts' name of a C function whose own frame is on the stack. */
static void name_c_function(collection *c, const call_site *site)
{
    uintptr_t function = c_function_of(c->layout, site->ci);
    lua_Debug activation = {.i_ci = (struct CallInfo *)site->ci};
    const char *name;

    if (!function || c->walk->frames[site->frame - 1].function != function ||
        !rest_of(c, site->L) || already_named(function))
        return;
    lua_getinfo(site->L, "Sn", &activation);
    name = loaded_name(c, site->L, &activation);
    if (!name)
        name = *activation.namewhat ? activation.name : NULL;
    if (name)
        (void)stacksplice_name_function(function, "lua", name);
}

static void add_rest(collection *c, lua_State *L, bool rests)
{
    if (c->rest_count == REST_STATES)
        return;
    c->rests[c->rest_count].registry = lua_topointer(L, LUA_REGISTRYINDEX);
    c->rests[c->rest_count++].L = rests ? L : NULL;
}

/* Whether FRAME is Lua's own. */
static bool is_lua(const collection *c, uint32_t frame)
{
    uintptr_t function = c->walk->frames[frame].function;

    return ss_lua_is_internal(c->layout, function) || ss_lua_is_api(c->layout, function);
}

/*
 * Whether the coroutine of a site rests in the C function or hook that the site called: it is the
 * running activation, there is room, and (of the innermost site) no frame of Lua is inside of it, as in an
 * allocator that captures.
 */
static bool rests_at(const collection *c, uint32_t index)
{
    const call_site *site = &c->sites[index];
    uintptr_t room;

    if (c->layout->top == SS_LUA_UNKNOWN || c->layout->function == SS_LUA_UNKNOWN ||
        ci_at_level(site->L, 0) != site->ci)
        return false;
    for (uint32_t i = 0; index == 0 && i < site->frame; i++)
        if (is_lua(c, i))
            return false;
    room = (ss_lua_word(site->ci + c->layout->top) - ss_lua_word(site->ci + c->layout->function)) /
           (2 * sizeof(uintptr_t));
    return room >= (uintptr_t)lua_gettop(site->L) + 1 + ROOM_FOR_NAMES;
}

/* One resting coroutine of each state, the innermost that is on the stack. */
static void find_rests(collection *c)
{
    if (c->capturing)
        add_rest(c, c->capturing, true);
    for (uint32_t i = 0; i < c->site_count; i++) {
        const void *registry = lua_topointer(c->sites[i].L, LUA_REGISTRYINDEX);
        uint32_t known = 0;

        while (known < c->rest_count && c->rests[known].registry != registry)
            known++;
        if (known == c->rest_count)
            add_rest(c, c->sites[i].L, rests_at(c, i));
    }
}

/* ---- Activations inside of the innermost site ------------------------------------------------*/

/*
 * The coroutine runs something that no site was found for: Lua code that allocates while the
 * allocator captures, or a call site that calibration never met.  A frame that begins where the
 * activation's function does shows where it belongs; else a gap says that the place is unknown.
 */
static bool push_unsited(collection *c, uint32_t index)
{
    const call_site *site = &c->sites[index];
    uint32_t inner = index ? c->sites[index - 1].frame + hidden_from(c, index - 1) : 0;
    uint32_t at = site->frame ? site->frame - 1 : 0;
    cursor from = {site->L, ci_at_level(site->L, 0), 0};
    uintptr_t function;
    lua_Debug activation = {.i_ci = (struct CallInfo *)from.ci};

    if (c->capturing || from.ci == 0 || from.ci == site->ci || !is_first_of_its_state(c, index))
        return true;
    lua_getinfo(site->L, "S", &activation);
    if (*activation.what == 'C') {
        function = c_function_of(c->layout, from.ci);
        for (uint32_t i = inner; function && i < at; i++)
            if (c->walk->frames[i].function == function) {
                step(c->layout, &from);
                return stacksplice_walk_splice(c->walk, i + 1, 0) &&
                       push_run(c, from, site->ci, STACKSPLICE_TRUST_INFERRED);
            }
    }
    /* Lua code that is in no call to C runs in a frame between here and there. */
    return stacksplice_walk_splice(c->walk, at < inner ? inner : at, 0) &&
           (*activation.what != 'C' ||
            stacksplice_walk_push(c->walk, ss_lua_gap("call site missed"))) &&
           push_run(c, from, site->ci, STACKSPLICE_TRUST_INFERRED);
}

/* ---- Collecting ------------------------------------------------------------------------------*/

/*
 * Whether the innermost C activation is missing from the frames: its function ended in a call of
 * ours (`return stacksplice_lua_raise(L, hr);`), which took over its frame, and our frames are not
 * shown.  The activation of a function of the module is ours as well.
 */
static bool lost_its_frame(const collection *c, const call_site *site)
{
    uintptr_t function = c_function_of(c->layout, site->ci);

    return !site->hook && site->frame == 0 && function && !ss_lua_is_own_function(function);
}

static bool splice_site(collection *c, uint32_t index)
{
    const call_site *site = &c->sites[index];
    cursor from = {site->L, site->ci, 0};

    if (!push_unsited(c, index))
        return false;
    if (!site->hook && site->frame > 0) {
        name_c_function(c, site);
        note(c, c->walk->frames[site->frame - 1].ip, site->L, site->ci);
    }
    if (!stacksplice_walk_splice(c->walk, site->frame, hidden_from(c, index)))
        return false;
    if (lost_its_frame(c, site) && !push_activation(c, site->L, site->ci, STACKSPLICE_TRUST_EXACT))
        return false;
    if (c->layout->previous == SS_LUA_UNKNOWN)
        find_level(&from);
    if (!site->hook && from.ci)
        step(c->layout, &from);
    return push_run(c, from, stop_of(c, index), STACKSPLICE_TRUST_EXACT);
}

/* Without native frames only the coroutine is known in which a function of ours captures. */
static void push_capturing(collection *c, const ss_lua_state *state)
{
    cursor from = {state->capturing, ci_at_level(state->capturing, 0), 0};

    c->notebook = state->notebook;
    note_state(c, from.L);
    if (from.ci && ss_lua_is_own_function(c_function_of(c->layout, from.ci)))
        step(c->layout, &from);
    (void)(stacksplice_walk_splice(c->walk, 0, 0) &&
           stacksplice_walk_push(c->walk, ss_lua_gap("without native frames, only one coroutine's "
                                                     "are known, and not their place")) &&
           push_run(c, from, 0, STACKSPLICE_TRUST_EXACT));
}

/* Lua is on the stack but cannot be read: say so where it was entered. */
static void say_failure(stacksplice_walk *walk, const ss_lua_layout *layout)
{
    static const uintptr_t entries[] = {(uintptr_t)lua_pcallk, (uintptr_t)lua_callk,
                                        (uintptr_t)lua_resume};

    for (uint32_t i = 0; i < walk->frame_count; i++)
        for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
            if (walk->frames[i].function == entries[e]) {
                (void)(stacksplice_walk_splice(walk, i, 0) &&
                       stacksplice_walk_push(walk, ss_lua_gap(layout->failure)));
                return;
            }
}

void ss_lua_collect(stacksplice_walk *walk, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    const ss_lua_state *state;
    collection c;

    (void)data;
    if (!layout)
        return;
    if (layout->failure) {
        say_failure(walk, layout);
        return;
    }
    c.walk = walk;
    c.layout = layout;
    c.site_count = c.rest_count = 0;
    c.too_many = false;
    c.capturing = NULL;
    c.notebook = NULL;
    find_sites(&c);
    if (!walk->frame_count && (state = ss_lua_state_capturing(walk)))
        push_capturing(&c, state);
    if (c.site_count == 0)
        return;
    find_capturing(&c);
    find_rests(&c);
    for (uint32_t i = 0; i < c.site_count; i++)
        if (!splice_site(&c, i))
            return;
    if (c.too_many && stacksplice_walk_splice(walk, c.sites[c.site_count - 1].frame + 1, 0))
        (void)stacksplice_walk_push(walk, ss_lua_gap("too many calls between C and Lua"));
}

uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    cursor at = {dead, ci_at_level(dead, 0), 0};
    uint32_t count = 0, levels = 0;
    char reason[64];

    if (!layout || max < 2)
        return 0;
    for (; at.ci && levels < RUN_LIMIT; step(layout, &at), levels++)
        if (count < max - 1)
            frames[count++] = ss_lua_activation_token(dead, (struct CallInfo *)at.ci,
                                                      STACKSPLICE_TRUST_TRACEBACK);
    if (levels > count) {
        (void)snprintf(reason, sizeof reason, "%u Lua levels left out", levels - count);
        frames[count++] = ss_lua_gap(reason);
    }
    return count;
}
