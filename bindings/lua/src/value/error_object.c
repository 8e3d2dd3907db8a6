/*
 * Error objects: how a script sees an error of this library, and how an error that is not Lua's is
 * raised in Lua.
 */
#include "value/error_object.h"

bool ss_lua_is_own_error(lua_State *L, int index)
{
    ss_lua_hold *const *hold = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    return hold && *hold && (*hold)->ties.exception;
}

/* ---- Making ----------------------------------------------------------------------------------*/

/* The values of its causes live as long as an error; strings among them have no other owner. */
static void hold_cause(lua_State *L, ss_lua_state *state, const stacksplice_exception *x,
                       const luaL_Reg *metamethods)
{
    IScriptErrorInfo *cause = stacksplice_exception_related(x, 0);

    if (!cause)
        return;
    ss_lua_push_error_object(L, state, cause, metamethods);
    lua_setiuservalue(L, -2, SS_LUA_CAUSE);
}

/*
 * Push a new error object for ERROR, which owns what it holds from then on, even if something
 * raises.  If the error's value belongs to this state, it holds the error inside and the value as
 * its user value: Lua's collector sees every cycle.  It holds any other error outside, which keeps
 * the first originator's object alive. [-0, +1, m]
 */
static void push_new(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error,
                     const luaL_Reg *metamethods)
{
    const ss_lua_hold_kind kind = {SS_LUA_ERROR_NAME, metamethods, SS_LUA_VALUE};
    stacksplice_exception *x = stacksplice_own_exception(ss_lua_owner(state), (IUnknown *)error);
    ss_lua_hold *hold = ss_lua_push_hold(L, state, &kind);
    bool own = x && ss_lua_push_value(L, x);

    if (own) {
        lua_setiuservalue(L, -2, SS_LUA_VALUE);
        stacksplice_exception_ref(x);
        stacksplice_ties_set_exception(&hold->ties, x);
    }
    stacksplice_ties_set_error(&hold->ties, error, !own);
    if (own)
        hold_cause(L, state, x, metamethods);
}

/*
 * Lua's collector sees only the few bytes of the object, so a script that only makes errors would
 * accumulate them between two cycles.  Roughly, an error has a stack, its language exception the
 * same stack, and a propagation node another.
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

/* After a collection captures must ask for the weak references of tokens.  So plant a new GC canary
   at once if we caused the collection. [-0, +0, m] */
static void count_for_collector(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    if (!lua_gc(L, LUA_GCISRUNNING, 0))
        return;
    ss_lua_count_kib(L, error_kib(error));
    if (!ss_lua_gc_canary_lives(L, state))
        ss_lua_plant_gc_canary(L, state);
}

/* Push the error object for ERROR in the table at INDEX; push nothing and return false when it has
   none. [-0, +(0|1), -] */
static bool push_known(lua_State *L, int index, const IScriptErrorInfo *error)
{
    if (lua_rawgetp(L, index, error) == LUA_TUSERDATA && ss_lua_to_error(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* The object enters the table when it is complete; a finalizer may have entered another by then. */
void ss_lua_push_error_object(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error,
                              const luaL_Reg *metamethods)
{
    int errors;

    luaL_checkstack(L, 8, "stacksplice");
    ss_lua_push_table(L, SS_LUA_ERRORS);
    errors = lua_gettop(L);
    if (!push_known(L, errors, error)) {
        push_new(L, state, error, metamethods);
        if (!push_known(L, errors, error)) {
            lua_pushvalue(L, -1);
            lua_rawsetp(L, errors, error);
            count_for_collector(L, state, (IUnknown *)error);
        }
    }
    lua_replace(L, errors);
    lua_settop(L, errors);
}
