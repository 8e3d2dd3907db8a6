/* Records of Lua states: found by registry, closed by a finalizer, reused and never freed; their
   tables, holds and GC canaries. */
#include "life/life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ss_lua_shared own_shared = {.size = sizeof own_shared, .lock = PTHREAD_MUTEX_INITIALIZER};
ss_lua_shared *ss_lua_the_shared = &own_shared;
const ss_lua_frame_source *ss_lua_the_source;

/* Each copy's fork handlers take its own lock, even if another copy uses it. */
static void lock_own(void)
{
    (void)pthread_mutex_lock(&own_shared.lock);
}

static void unlock_own(void)
{
    (void)pthread_mutex_unlock(&own_shared.lock);
}

__attribute__((constructor)) static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_own, unlock_own, unlock_own);
}

/* Make every call check once: a state closed, or has something to do. */
static void forget_known(void)
{
    for (uint32_t i = 0; i < SS_LUA_KNOWN_THREADS; i++)
        atomic_store_explicit(&ss_lua_the_shared->known[i], NULL, memory_order_relaxed);
}

/* ---- Own functions ---------------------------------------------------------------------------*/

/* The linker's names for the ends of the section.  They are weak, since a program may have no such
   functions. */
extern const char __start_ss_lua_own[] __attribute__((weak, visibility("hidden")));
extern const char __stop_ss_lua_own[] __attribute__((weak, visibility("hidden")));

extern const char __start_ss_lua_body[] __attribute__((weak, visibility("hidden")));
extern const char __stop_ss_lua_body[] __attribute__((weak, visibility("hidden")));

extern const char __start_ss_lua_left[] __attribute__((weak, visibility("hidden")));
extern const char __stop_ss_lua_left[] __attribute__((weak, visibility("hidden")));

static const ss_lua_code own_code = {{{__start_ss_lua_own, __stop_ss_lua_own},
                                      {__start_ss_lua_body, __stop_ss_lua_body},
                                      {__start_ss_lua_left, __stop_ss_lua_left}}};

static bool is_ours(uintptr_t function, int part)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++) {
        const ss_lua_code *code = atomic_load(&ss_lua_the_shared->own[i]);

        if (!code)
            return false;
        if (function >= (uintptr_t)code->parts[part].start &&
            function < (uintptr_t)code->parts[part].end)
            return true;
    }
    return false;
}

bool ss_lua_is_own_function(uintptr_t function)
{
    return is_ours(function, SS_LUA_CODE_OWN);
}

bool ss_lua_is_own_body(uintptr_t function)
{
    return is_ours(function, SS_LUA_CODE_BODY);
}

bool ss_lua_has_left(uintptr_t function)
{
    return is_ours(function, SS_LUA_CODE_LEFT);
}

static void add_own_code(ss_lua_shared *shared)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++) {
        const ss_lua_code *none = NULL;

        if (atomic_compare_exchange_strong(&shared->own[i], &none, &own_code) || none == &own_code)
            return;
    }
}

/* ---- The frame source ------------------------------------------------------------------------*/

void ss_lua_source_register(void)
{
    static atomic_bool done;
    const void *identity = (const void *)(uintptr_t)lua_newstate;
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "lua",
                                 .identity = identity,
                                 .collect = ss_lua_the_source->collect,
                                 .data = ss_lua_the_shared,
                                 .classify = ss_lua_the_source->classify,
                                 .reports = 1};
    ss_lua_shared *shared;

    if (atomic_load(&done) || FAILED(stacksplice_add_source(&source)))
        return;
    /* Another copy may have registered first: then both use its data. */
    shared = stacksplice_source_data("lua", identity);
    if (shared && shared->size == sizeof *shared) {
        __atomic_store_n(&ss_lua_the_shared, shared, __ATOMIC_RELAXED);
        add_own_code(shared);
    }
    atomic_store(&done, true);
}

/* ---- The tables -------------------------------------------------------------------------------*/

/* The tables of a state, in the registry under addresses as keys, which need no string; and which
   userdata are ours. */

/* The tables that never change have keys of their own. */
static const char state_key, table_keys[SS_LUA_INTERRUPT];

/* Of package.loaded: that copy looks into it whose frame source is registered. */
#define LOADED_KEY (&ss_lua_the_shared->states)

ss_lua_state *ss_lua_state_find(lua_State *L)
{
    ss_lua_state *state = NULL;

    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key) == LUA_TUSERDATA)
        state = *(ss_lua_state **)lua_touserdata(L, -1);
    lua_pop(L, 1);
    return state;
}

void ss_lua_push_holder_of_state(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
}

void ss_lua_push_table(lua_State *L, int which)
{
    if (which < SS_LUA_INTERRUPT) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &table_keys[which]);
        return;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
    lua_getiuservalue(L, -1, which);
    lua_remove(L, -2);
}

void ss_lua_set_table(lua_State *L, int which)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, which);
    lua_pop(L, 1);
}

/* Push an empty table with that mode. [-0, +1, m] */
static void push_weak_table(lua_State *L, const char *mode)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

/* Use the user values of the object at the top, which stands for the state, as its tables.  The
   state is then open for this copy.  Pops it. [-1, +0, m] */
static void keep_tables(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_rawsetp(L, LUA_REGISTRYINDEX, LOADED_KEY);
    for (int which = SS_LUA_PINS; which < SS_LUA_INTERRUPT; which++) {
        lua_getiuservalue(L, -1, which);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &table_keys[which]);
    }
    /* Last: only now is the state open, even if memory ran out before. */
    lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
}

/* Publish it only when it is complete: memory may run out on the way. */
static void push_metatable(lua_State *L, const char *name, const luaL_Reg *functions)
{
    if (luaL_getmetatable(L, name) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    luaL_setfuncs(L, functions, 0);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, name);
}

void ss_lua_push_loaded(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, LOADED_KEY);
}

void *ss_lua_own_block(lua_State *L, int index, lua_CFunction finalizer)
{
    int top = lua_gettop(L);
    bool own = false;

    if (lua_type(L, index) != LUA_TUSERDATA)
        return NULL;
    if (lua_getmetatable(L, index)) {
        lua_pushliteral(L, "__gc");
        lua_rawget(L, -2);
        own = lua_tocfunction(L, -1) == finalizer;
    }
    lua_settop(L, top);
    return own ? lua_touserdata(L, index) : NULL;
}

void *ss_lua_check_own(lua_State *L, lua_CFunction finalizer)
{
    void *block = ss_lua_own_block(L, 1, finalizer);

    if (!block)
        luaL_argerror(L, 1, "it has another finalizer");
    return block;
}

/* ---- Holds ------------------------------------------------------------------------------------*/

/*
 * Holds: what an object of Lua keeps of ours, in a record outside of Lua's memory.
 *
 * The object's finalizer lets go of it, but Lua can lose a finalizer.  Its call needs a level of
 * the C stack and room on Lua's stack.  If the collector runs near the end of either, or without
 * memory, the call fails and is never repeated.  The hold is still in the list of its state then.
 *
 * Lua removes an object from a table with weak keys only when it frees the object.  So such a table
 * shows which holds still have an object.  The others are swept once for each collection, and all
 * of them when the state closes.
 */

static void unlink_hold(ss_lua_hold *hold)
{
    *hold->link = hold->next;
    if (hold->next)
        hold->next->link = hold->link;
    hold->link = NULL;
}

/* Releasing may look at other holds, but this one is empty by then. */
static void empty(ss_lua_hold *hold)
{
    IUnknown *outside = hold->outside;

    hold->outside = NULL;
    stacksplice_ties_drop(&hold->ties);
    if (outside)
        outside->lpVtbl->Release(outside);
}

static void drop(ss_lua_hold *hold)
{
    unlink_hold(hold);
    empty(hold);
    free(hold);
}

/* ---- Errors of values without identity -------------------------------------------------------*/

void ss_lua_keep(stacksplice_ties *place, const stacksplice_ties *ties)
{
    IUnknown *unknown = stacksplice_exception_unknown(ties->exception);

    unknown->lpVtbl->AddRef(unknown);
    stacksplice_exception_ref(ties->exception);
    *place = (stacksplice_ties){ties->exception, NULL, 0};
    if (ties->error)
        stacksplice_ties_set_error(place, ties->error, 0);
}

static void tell_error(stacksplice_ties *place, const stacksplice_ties *ties)
{
    if (place->exception == ties->exception && !place->error)
        stacksplice_ties_set_error(place, ties->error, 0);
}

static void tell_others(ss_lua_state *state, const stacksplice_ties *ties)
{
    tell_error(&state->last, ties);
    tell_error(&state->resumed.ties, ties);
    for (uint32_t i = 0; i < SS_LUA_AT_ONCE; i++)
        tell_error(&state->raising[i].ties, ties);
    for (uint32_t i = 0; i < state->flight_count; i++)
        tell_error(&state->flights[i].ties, ties);
    for (uint32_t i = 0; i < SS_LUA_CAUGHT; i++)
        tell_error(&state->caught[i].ties, ties);
}

void ss_lua_let_go(ss_lua_state *state, stacksplice_ties *place)
{
    stacksplice_ties gone = *place;
    IUnknown *held = gone.exception ? stacksplice_exception_unknown(gone.exception) : NULL;

    *place = (stacksplice_ties){NULL, NULL, 0};
    if (gone.error)
        tell_others(state, &gone);
    if (held)
        held->lpVtbl->Release(held);
    stacksplice_ties_drop(&gone);
}

void ss_lua_forget_flight(ss_lua_state *state, uint32_t number)
{
    stacksplice_ties gone = state->flights[number].ties;

    state->flight_count--;
    for (uint32_t i = number; i < state->flight_count; i++)
        state->flights[i] = state->flights[i + 1];
    ss_lua_let_go(state, &gone);
}

void ss_lua_forget_caught(ss_lua_state *state, ss_lua_caught *caught)
{
    caught->number = 0;
    caught->L = NULL;
    state->caught_places &= ~(1U << (caught - state->caught));
    if (caught->ties.exception)
        ss_lua_let_go(state, &caught->ties);
}

static void forget_all(ss_lua_state *state)
{
    for (uint32_t i = 0; i < SS_LUA_CAUGHT; i++)
        ss_lua_forget_caught(state, &state->caught[i]);
    while (state->flight_count)
        ss_lua_forget_flight(state, state->flight_count - 1);
    ss_lua_let_go(state, &state->last);
    for (uint32_t i = 0; i < SS_LUA_AT_ONCE; i++)
        ss_lua_let_go(state, &state->raising[i].ties);
    ss_lua_let_go(state, &state->resumed.ties);
}

int ss_lua_collect_hold(lua_State *L)
{
    ss_lua_hold **object = ss_lua_check_own(L, ss_lua_collect_hold), *hold = *object;

    lua_settop(L, 1);
    *object = NULL;
    if (!hold || !hold->link)
        return 0;
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_insert(L, 1);
    lua_pushnil(L);
    lua_rawset(L, 1); /* a sweep need not visit it until Lua frees it */
    drop(hold);
    return 0;
}

/* The object at the top can be finalized: nothing may raise from here on. */
static ss_lua_hold *link_hold(lua_State *L, ss_lua_state *state, ss_lua_hold **object)
{
    ss_lua_hold *hold = calloc(1, sizeof *hold);

    if (!hold)
        luaL_error(L, "not enough memory");
    hold->next = state->holds;
    hold->link = &state->holds;
    if (hold->next)
        hold->next->link = &hold->next;
    state->holds = hold;
    return *object = hold;
}

ss_lua_hold *ss_lua_push_hold(lua_State *L, ss_lua_state *state, const ss_lua_hold_kind *kind)
{
    ss_lua_hold **object = lua_newuserdatauv(L, sizeof(ss_lua_hold *), kind->user_values);

    *object = NULL;
    push_metatable(L, kind->name, kind->functions);
    lua_setmetatable(L, -2);
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return link_hold(L, state, object);
}

/* ---- References ------------------------------------------------------------------------------*/

/* Reuse the holder dropped last.  Its key in the registry is false while it is in use. */
static const char spare_key;

IUnknown **ss_lua_push_spare_holder(lua_State *L)
{
    ss_lua_hold *const *spare, *hold;

    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &spare_key);
    spare = lua_touserdata(L, -1);
    hold = spare ? *spare : NULL; /* also NULL when Lua closes and has finalized it */
    if (!hold) {
        lua_pop(L, 1);
        return NULL;
    }
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    return &hold->outside;
}

IUnknown **ss_lua_push_holder(lua_State *L)
{
    static const luaL_Reg functions[] = {{"__gc", ss_lua_collect_hold}, {NULL, NULL}};
    static const ss_lua_hold_kind kind = {"stacksplice.reference", functions, 0};
    IUnknown **outside = ss_lua_push_spare_holder(L);
    ss_lua_state *state;

    if (outside)
        return outside;
    state = ss_lua_state_find(L);
    if (!state)
        luaL_error(L, "the Lua state is closing");
    outside = &ss_lua_push_hold(L, state, &kind)->outside;
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    return outside;
}

void ss_lua_drop_holder(lua_State *L, int index)
{
    ss_lua_hold **object = lua_touserdata(L, index);

    empty(*object);
    lua_pushvalue(L, index);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    lua_remove(L, index);
}

/* ---- Sweeping --------------------------------------------------------------------------------*/

/* Mark the holds that have an object. [-0, +0, -], 4 slots */
static void mark(lua_State *L, uint32_t sweep)
{
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        ss_lua_hold *hold = *(ss_lua_hold **)lua_touserdata(L, -2);

        if (hold)
            hold->sweep = sweep;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Drop the holds whose objects Lua freed without a finalizer. [-0, +0, -], 4 slots */
static void sweep_holds(lua_State *L, ss_lua_state *state)
{
    ss_lua_hold *hold = state->holds, *next;

    if (!hold)
        return;
    mark(L, ++state->sweeps);
    for (; hold; hold = next) {
        next = hold->next;
        if (hold->sweep != state->sweeps)
            drop(hold);
    }
}

/* Finalizers that run after ours may still use their objects, so we keep the records of those. */
static void close_holds(ss_lua_state *state)
{
    while (state->holds) {
        ss_lua_hold *hold = state->holds;

        unlink_hold(hold);
        empty(hold);
        hold->next = state->kept_holds;
        state->kept_holds = hold;
    }
}

/* ---- GC canaries ------------------------------------------------------------------------------*/

/*
 * Whether any prototype can have died.  The keys of frames/tokens.h are addresses, valid only until
 * a collection frees what they point to.
 *
 * A GC canary is an object that only a weak table refers to.  Every collection clears it from that
 * table in its atomic step, before it frees anything.  While the GC canary is there, nothing that
 * was alive when it was planted, or since, has been freed.  So a key that was seen on a stack after
 * the planting is valid.  (What such a collection frees was dead in its atomic step; objects made
 * or seen later were not.)
 *
 * That holds only for a GC canary that no collection has reached yet.  If it was on a stack while
 * the collector marked, it would outlive the atomic step, and in generational mode an old one
 * outlives many.  So it is on a stack only while it is planted, and nothing of it stays there: what
 * was popped lies on above the top, and a later call may take it over in registers that it has not
 * set yet, which the collector marks.  To see whether it lives nobody pushes it: the length of the
 * table tells.
 *
 * lua_newthread lets the collector work before it makes its object, not after, so the GC canary is a
 * coroutine that never runs.  Making it can still start an emergency collection, when the allocator
 * fails.  Another coroutine that is planted before would be gone then, and we give up the planting
 * until the next time.
 *
 * Captures may not plant, so a capture that misses the GC canary asks our next function to do it.
 */

enum { EARLIER = 1, GC_CANARY = 2 };

/* Ask our next function to tend the state. */
static void want_tending(ss_lua_state *state)
{
    if (state->wants_tending)
        return;
    state->wants_tending = true;
    forget_known();
}

/* Whether the table at the top has both: a border is all that a length is, and there is no other one. */
static inline bool has_gc_canary(lua_State *L)
{
    return lua_rawlen(L, -1) == GC_CANARY;
}

/* Plant unless a GC canary lives. [-0, +0, m], 4 slots */
static void plant(lua_State *L, ss_lua_state *state)
{
    bool planted;

    ss_lua_push_table(L, SS_LUA_GC_CANARIES);
    if (!lua_istable(L, -1) || has_gc_canary(L)) {
        lua_pop(L, 1);
        return;
    }
    (void)lua_newthread(L);
    lua_rawseti(L, -2, EARLIER);
    (void)lua_newthread(L);
    planted = lua_rawgeti(L, -2, EARLIER) == LUA_TTHREAD;
    lua_pop(L, 1);
    if (planted)
        lua_rawseti(L, -2, GC_CANARY);
    else
        lua_pop(L, 1);
    lua_pushnil(L); /* nothing of the two stays above the top */
    lua_pushnil(L);
    lua_pop(L, 3);
    if (planted)
        ss_lua_the_source->planted(L, state);
    else
        want_tending(state);
}

/* Push a weak table for GC canaries. */
static void push_new_gc_canaries(lua_State *L)
{
    lua_createtable(L, GC_CANARY, 0);
    lua_createtable(L, 1, 1); /* the first is for what outlives collections */
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

bool ss_lua_push_gc_canaries_metatable(lua_State *L)
{
    bool found;

    ss_lua_push_table(L, SS_LUA_GC_CANARIES);
    found = lua_istable(L, -1) && lua_getmetatable(L, -1);
    lua_remove(L, found ? -2 : -1);
    return found;
}

bool ss_lua_gc_canary_lives(lua_State *L, ss_lua_state *state)
{
    bool table, lives;

    ss_lua_push_table(L, SS_LUA_GC_CANARIES);
    table = lua_istable(L, -1);
    lives = table && has_gc_canary(L);
    lua_pop(L, 1);
    if (table && !lives)
        want_tending(state);
    return lives;
}

void ss_lua_plant_gc_canary(lua_State *L, ss_lua_state *state)
{
    if (!state->wants_tending)
        return;
    state->wants_tending = false;
    sweep_holds(L, state);
    plant(L, state);
}

/* ---- The record -------------------------------------------------------------------------------*/

/* In the registry under this name, so that two copies of the binding in one state share its
   record. */
#define STATE_KEY "stacksplice.state.1"

/* VALUE is the exception, whose pin is removed.  Clearing an existing entry allocates nothing. */
static void drop_value(void *L, void *state, void *value)
{
    (void)state;
    ss_lua_push_table(L, SS_LUA_PINS);
    if (lua_rawgetp(L, -1, value) != LUA_TNIL) {
        lua_pushnil(L);
        lua_rawsetp(L, -3, value);
    }
    lua_pop(L, 2);
}

static const stacksplice_language language = {
    .size = sizeof language, .name = "lua", .drop = drop_value};

/* The unused record with the lowest number, so that a program with one Lua at a time has one name;
   NULL when out of memory. */
static ss_lua_state *acquire_record(void)
{
    ss_lua_state *state, *last = NULL;
    unsigned number = 1;

    (void)pthread_mutex_lock(&ss_lua_the_shared->lock);
    for (state = atomic_load(&ss_lua_the_shared->states); state;
         last = state, state = state->next, number++)
        if (!atomic_load(&state->owner)) /* acquires what its former state has written */
            break;
    if (!state && (state = calloc(1, sizeof *state + ss_lua_the_source->cache_size)) != NULL) {
        if (number > 1)
            (void)snprintf(state->name, sizeof state->name, "state %u", number);
        if (last)
            __atomic_store_n(&last->next, state, __ATOMIC_RELEASE);
        else
            atomic_store(&ss_lua_the_shared->states, state);
    }
    if (state)
        atomic_store(&state->owner, stacksplice_owner_new(&language, state));
    (void)pthread_mutex_unlock(&ss_lua_the_shared->lock);
    return state && ss_lua_owner(state) ? state : NULL;
}

static void reset_record(lua_State *L, ss_lua_state *state)
{
    ss_lua_push_main(L);
    state->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    stacksplice_owner_show(ss_lua_owner(state), state->main, SS_LUA_SHOWN_VERSION);
    state->last = (stacksplice_ties){NULL, NULL, 0};
    memset(state->raising, 0, sizeof state->raising);
    state->resumed = (ss_lua_resumed){0};
    state->flight_count = 0;
    memset(state->caught, 0, sizeof state->caught);
    state->caught_places = 0;
    state->handling = 0;
    state->metamethods = 0;
    state->shows_locals = false;
    state->texts = NULL;
    state->interrupted = false;
    state->deadlines = NULL;
    state->outside = (ss_lua_outside){0};
    state->capturing = NULL;
    atomic_store(&state->capturing_above, 0);
    state->wants_tending = true;
    state->prepared = false;
    state->closing = (ss_lua_closing){0};
    state->displaced_count = 0;
    /* Its first word counts on: what was found in an earlier state never looks valid again. */
    memset(state->cache + 1, 0, ss_lua_the_source->cache_size - sizeof *state->cache);
    atomic_store(&state->registry, lua_topointer(L, LUA_REGISTRYINDEX));
}

void ss_lua_state_learn_main(lua_State *L, ss_lua_state *state)
{
    if (lua_pushthread(L)) {
        state->main = L;
        stacksplice_owner_show(ss_lua_owner(state), state->main, SS_LUA_SHOWN_VERSION);
    }
    lua_pop(L, 1);
}

static void close_record(ss_lua_state *state)
{
    atomic_store(&state->registry, NULL);
    state->holder = NULL;
    forget_known();
    if (state->interrupted)
        atomic_fetch_sub(&ss_lua_the_shared->interrupted_states, 1);
    state->interrupted = false;
    forget_all(state);
    close_holds(state);
    stacksplice_owner_close(atomic_exchange(&state->owner, NULL));
}

static int close_state(lua_State *L)
{
    ss_lua_state **holder = ss_lua_check_own(L, close_state), *state = *holder;

    /* If memory ran out, the opening may have stopped here, and the record may now be another
       state's. */
    if (state && state->holder == holder)
        close_record(state);
    *holder = NULL;
    return 0;
}

/* A new state has the registry address of L: the former one was closed, and Lua lost its holder's
   finalizer. */
static void close_former(lua_State *L)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
    ss_lua_state *former;

    while ((former = ss_lua_state_of_registry(registry)) != NULL)
        close_record(former);
}

/* Push the userdata that stands for the state, with our tables as user values. */
static void push_new_holder(lua_State *L)
{
    ss_lua_state **holder = lua_newuserdatauv(L, sizeof *holder, SS_LUA_TABLES);

    *holder = NULL;
    lua_newtable(L);
    lua_setiuservalue(L, -2, SS_LUA_PINS);
    push_weak_table(L, "k");
    lua_setiuservalue(L, -2, SS_LUA_TIED);
    push_weak_table(L, "v");
    lua_setiuservalue(L, -2, SS_LUA_ERRORS);
    push_weak_table(L, "k");
    lua_setiuservalue(L, -2, SS_LUA_HOLDERS);
    push_new_gc_canaries(L);
    lua_setiuservalue(L, -2, SS_LUA_GC_CANARIES);
    lua_newtable(L);
    lua_pushcfunction(L, close_state);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    close_former(L);
    *holder = acquire_record();
    if (!*holder)
        luaL_error(L, "not enough memory");
    (*holder)->holder = holder;
    reset_record(L, *holder);
}

/* We create the holder before all our other objects, so that Lua finalizes it last. */
static ss_lua_state *make_record(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        return state;
    luaL_checkstack(L, 6, "stacksplice");
    ss_lua_source_register();
    if (lua_getfield(L, LUA_REGISTRYINDEX, STATE_KEY) != LUA_TUSERDATA) {
        lua_pop(L, 1);
        push_new_holder(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, STATE_KEY);
    }
    keep_tables(L);
    state = ss_lua_state_find(L);
    if (!state)
        luaL_error(L, "the Lua state is closing");
    return state;
}

ss_lua_state *ss_lua_state_open(lua_State *L)
{
    ss_lua_state *state = make_record(L);

    if (!state->prepared) { /* once, also where it cannot be had */
        ss_lua_the_source->prepare();
        state->prepared = true;
    }
    return state;
}

ss_lua_state *ss_lua_state_open_early(lua_State *L)
{
    ss_lua_state *state = make_record(L);

    /* Asked when the source is known: a crash handler that is installed at this moment has it learn. */
    return stacksplice_captures_in_handlers() ? ss_lua_state_open(L) : state;
}

/* Check this thread's last answer first: the list is long in a program with many states. */
ss_lua_state *ss_lua_state_of_registry(const void *registry)
{
    static _Thread_local ss_lua_state *last;
    ss_lua_state *state = last;

    if (state && atomic_load_explicit(&state->registry, memory_order_relaxed) == registry)
        return state;

    for (state = atomic_load(&ss_lua_the_shared->states); state;
         state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE))
        if (atomic_load(&state->registry) == registry)
            return last = state;
    return NULL;
}

void ss_lua_state_tend(lua_State *L, ss_lua_state *state)
{
    ss_lua_state_drain(L, state);
    if (state->holds)
        (void)ss_lua_gc_canary_lives(L, state);
    ss_lua_plant_gc_canary(L, state);
}
