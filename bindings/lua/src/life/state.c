/* Records of Lua states: found by registry, closed by a finalizer, reused and never freed. */
#include "life/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "life/hold.h"

/* In the registry under this name, so that two copies of the binding in one state share its
   record. */
#define STATE_KEY "stacksplice.state.1"

#if LUA_VERSION_NUM >= 505
#define VERSION "5.5"
#elif LUA_VERSION_NUM == 504
#define VERSION "5.4"
#else
#define VERSION "5.3"
#endif

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
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    state->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    stacksplice_owner_show(ss_lua_owner(state), state->main, VERSION);
    state->last = (stacksplice_ties){NULL, NULL, 0};
    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    state->handling = 0;
    state->shows_locals = false;
    state->interrupted = false;
    state->deadlines = NULL;
    state->capturing = NULL;
    atomic_store(&state->capturing_above, 0);
    state->wants_tending = true;
    state->closing = (ss_lua_closing){NULL, NULL};
    state->displaced_count = 0;
    /* Its first word counts on: what was found in an earlier state never looks valid again. */
    memset(state->cache + 1, 0, ss_lua_the_source->cache_size - sizeof *state->cache);
    atomic_store(&state->registry, lua_topointer(L, LUA_REGISTRYINDEX));
}

static void close_record(ss_lua_state *state)
{
    atomic_store(&state->registry, NULL);
    state->holder = NULL;
    ss_lua_forget_known();
    if (state->interrupted)
        atomic_fetch_sub(&ss_lua_the_shared->interrupted_states, 1);
    state->interrupted = false;
    ss_lua_forget_last(state);
    ss_lua_close_holds(state);
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
    ss_lua_push_weak_table(L, "k");
    lua_setiuservalue(L, -2, SS_LUA_TIED);
    ss_lua_push_weak_table(L, "v");
    lua_setiuservalue(L, -2, SS_LUA_ERRORS);
    ss_lua_push_weak_table(L, "k");
    lua_setiuservalue(L, -2, SS_LUA_HOLDERS);
    ss_lua_push_new_gc_canaries(L);
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
ss_lua_state *ss_lua_state_open(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        return state;
    luaL_checkstack(L, 6, "stacksplice");
    ss_lua_source_register();
    ss_lua_the_source->prepare();
    if (lua_getfield(L, LUA_REGISTRYINDEX, STATE_KEY) != LUA_TUSERDATA) {
        lua_pop(L, 1);
        push_new_holder(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, STATE_KEY);
    }
    ss_lua_keep_tables(L);
    state = ss_lua_state_find(L);
    if (!state)
        luaL_error(L, "the Lua state is closing");
    return state;
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
