/*
 * Error objects: what a script sees of an error of this library, and the form in which an error
 * that is not Lua's is raised in Lua.
 */
#include "value/error_object.h"

/*
 * Of an error whose value is one of this state the object holds the error inside and the value as
 * its user value: no cycle that Lua's collector cannot see.  Any other error is held outside, which
 * keeps the first originator's object alive.
 */
static const ss_lua_hold *hold_of(lua_State *L, int index)
{
    ss_lua_hold *const *object = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    return object ? *object : NULL;
}

int ss_lua_error_collect(lua_State *L)
{
    (void)luaL_checkudata(L, 1, SS_LUA_ERROR_NAME);
    return ss_lua_collect_hold(L);
}

IUnknown *ss_lua_to_error(lua_State *L, int index)
{
    const ss_lua_hold *hold = hold_of(L, index);

    if (!hold)
        return NULL;
    return hold->ties.error ? (IUnknown *)hold->ties.error : hold->outside;
}

bool ss_lua_is_own_error(lua_State *L, int index)
{
    const ss_lua_hold *hold = hold_of(L, index);

    return hold && hold->ties.error;
}

/* ---- Making ----------------------------------------------------------------------------------*/

/* The pointer that all interfaces of ERROR have in common: the key of its object. */
static void *identity_of(IUnknown *error)
{
    IUnknown *identity = ss_lua_query(error, &IID_IUnknown);

    ss_lua_release(identity); /* the caller's reference is enough */
    return identity;
}

/* With an error the values of its causes live, of which strings are known to nobody else. */
static void hold_cause(lua_State *L, ss_lua_state *state, const ss_lua_exception *x,
                       const luaL_Reg *metamethods)
{
    IScriptErrorInfo *cause = atomic_load_explicit(&x->cause, memory_order_relaxed);

    if (!cause)
        return;
    ss_lua_push_error_object(L, state, (IUnknown *)cause, metamethods);
    lua_setiuservalue(L, -2, SS_LUA_ERROR_CAUSE);
}

/* Fill the new object at the top: by its value if that is one of this state.  The object owns what
   it holds from the moment it does, so nothing is lost where making that of the cause raises. */
static void fill(lua_State *L, ss_lua_state *state, ss_lua_hold *hold, IUnknown *error,
                 const luaL_Reg *metamethods)
{
    IUnknown *exception = ss_lua_error_exception(error);
    ss_lua_exception *x = ss_lua_exception_from(exception, state);

    if (x && ss_lua_push_value(L, x)) {
        hold->ties.error = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);
        lua_setiuservalue(L, -2, SS_LUA_ERROR_VALUE);
    }
    if (hold->ties.error) {
        hold->ties.error->lpVtbl->AddInside(hold->ties.error);
        hold->ties.error->lpVtbl->Release(hold->ties.error);
    } else {
        error->lpVtbl->AddRef(error);
        hold->outside = error;
    }
    ss_lua_release(exception); /* the error holds its exception for life */
    if (hold->ties.error)
        hold_cause(L, state, x, metamethods);
}

/*
 * Lua's collector sees the few bytes of the object only: a script that makes nothing but errors
 * would pile them up between two cycles.  Roughly, an error has a stack, its language exception the
 * same one, and a propagation node another.
 */
enum { ERROR_BYTES = 512, STACKS_OF_ERROR = 3 };

static int error_kib(IUnknown *error)
{
    uint32_t frames = 0;
    size_t bytes;

    (void)stacksplice_error_stack(error, 0, NULL, &frames);
    bytes = ERROR_BYTES + STACKS_OF_ERROR * frames * sizeof(uintptr_t);
    return bytes < 1024 ? 1 : (int)((bytes + 512) / 1024);
}

/*
 * A collection makes the next capture ask for names again, so where it was ours, a new sentinel is
 * planted at once. [-0, +0, m]
 */
static void count_for_collector(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    if (!lua_gc(L, LUA_GCISRUNNING, 0))
        return;
    ss_lua_count_kib(L, error_kib(error));
    if (!ss_lua_sentinel_lives(L, state))
        ss_lua_plant_sentinel(L, state);
}

/* Push the error object that the table at INDEX has of IDENTITY; false and nothing when it has
   none. [-0, +(0|1), -] */
static bool push_known(lua_State *L, int index, const void *identity)
{
    if (lua_rawgetp(L, index, identity) == LUA_TUSERDATA && ss_lua_to_error(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* Push a new error object of ERROR. [-0, +1, m] */
static void push_new(lua_State *L, ss_lua_state *state, IUnknown *error,
                     const luaL_Reg *metamethods)
{
    const ss_lua_hold_kind kind = {SS_LUA_ERROR_NAME, metamethods, SS_LUA_ERROR_USER_VALUES};

    fill(L, state, ss_lua_push_hold(L, state, &kind), error, metamethods);
}

/* Only an object that is complete becomes the one of its error; a finalizer that ran meanwhile may
   have made another. */
void ss_lua_push_error_object(lua_State *L, ss_lua_state *state, IUnknown *error,
                              const luaL_Reg *metamethods)
{
    void *identity = identity_of(error);
    int errors;

    luaL_checkstack(L, 8, "stacksplice");
    ss_lua_push_table(L, SS_LUA_ERRORS);
    errors = lua_gettop(L);
    if (!push_known(L, errors, identity)) {
        push_new(L, state, error, metamethods);
        if (!push_known(L, errors, identity)) {
            lua_pushvalue(L, -1);
            lua_rawsetp(L, errors, identity);
            count_for_collector(L, state, error);
        }
    }
    lua_replace(L, errors);
    lua_settop(L, errors);
}

/*
 * Pin the value of the error object at the top, which is then replaced by that of its cause; false
 * when that and those behind it are pinned: while somebody outside holds an exception they stay so.
 */
static bool pin_next(lua_State *L, ss_lua_state *state, const ss_lua_hold *hold)
{
    IUnknown *exception = ss_lua_error_exception((IUnknown *)hold->ties.error);
    ss_lua_exception *x = ss_lua_exception_from(exception, state);

    /* The error holds its exception for life, so this reference need not be kept while pinning
       raises.  An exception without a pin has no outside reference but the one just taken. */
    ss_lua_release(exception);
    if (!x || (x->pinned && atomic_load(&x->outside)))
        return false;
    lua_getiuservalue(L, -1, SS_LUA_ERROR_VALUE);
    ss_lua_pin_alone(L, x, -1);
    lua_pop(L, 1);
    lua_getiuservalue(L, -1, SS_LUA_ERROR_CAUSE);
    lua_remove(L, -2);
    return true;
}

void ss_lua_pin_error_object(lua_State *L, ss_lua_state *state, int index)
{
    const ss_lua_hold *hold;

    lua_pushvalue(L, index);
    do
        hold = hold_of(L, -1);
    while (hold && hold->ties.error && pin_next(L, state, hold));
    lua_pop(L, 1);
}
