/* stacksplice_lua_pcall and its kin: failures become the thread's error. */
#include "cross/cross.h"

/* Make the error value at the top the thread's error, and pop it. */
static SS_LUA_NOINLINE HRESULT fail(lua_State *L, int status, const void *above)
{
    ss_lua_job now = {.origin = {.above = above, .status = status, .unwound = true},
                      .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!ss_lua_may_be_interrupted() || !ss_lua_take_interrupt(L, L, above, &hr))
        hr = ss_lua_originate_top(L, &now);
    lua_pop(L, 1);
    return hr;
}

static int open_protected(lua_State *L)
{
    ss_lua_plant_gc_canary(L, ss_lua_state_open(L));
    return 0;
}

/*
 * Another language may capture inside the call before any of our functions has run in this state,
 * and functions have their names only in a state that was opened.  Without memory only the names
 * are missing. [-0, +0, -], one slot
 */
static SS_LUA_NOINLINE void know_state(lua_State *L)
{
    lua_pushcfunction(L, open_protected);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        atomic_store_explicit(ss_lua_known_place(L), L, memory_order_relaxed);
    else
        lua_pop(L, 1);
}

static inline bool is_known(lua_State *L)
{
    return atomic_load_explicit(ss_lua_known_place(L), memory_order_relaxed) == L;
}

/* The call succeeded, with the function at BASE or its handler, but its result may still be an
   interrupt. */
static SS_LUA_NOINLINE HRESULT finish_interrupted(lua_State *L, int base, const void *above)
{
    HRESULT hr = S_OK;

    if (ss_lua_take_interrupt(L, L, above, &hr))
        lua_settop(L, base - 1);
    return hr;
}

/* A call with the handler at index MSGH of the stack, below the function at BASE. */
SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_xpcall(lua_State *L, int nargs, int nresults,
                                                           int msgh)
{
    int base = lua_gettop(L) - nargs, status;

    if (nargs < 0 || msgh < 1 || base <= msgh || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    if (!is_known(L))
        know_state(L);
    status = lua_pcall(L, nargs, nresults, msgh);
    if (status != LUA_OK)
        return fail(L, status, SS_LUA_HERE());
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, SS_LUA_HERE()) : S_OK;
}

/*
 * On success the only cost is the handler's: it is pushed, put below the function and removed
 * again, all through the public API of Lua.
 */
SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcall(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs, status;

    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    if (!is_known(L))
        know_state(L);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_insert(L, base);
    status = lua_pcall(L, nargs, nresults, base);
    if (nresults == 0 && status == LUA_OK)
        lua_settop(L, base - 1);
    else
        lua_remove(L, base);
    if (status != LUA_OK)
        return fail(L, status, SS_LUA_HERE());
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, SS_LUA_HERE()) : S_OK;
}

/*
 * A yielding call keeps below its handler what it needs when it comes back: the continuation and
 * its context.
 */
enum { CONTINUATION, CONTEXT, HANDLER, FUNCTION };

static SS_LUA_NOINLINE HRESULT finish_yieldable(lua_State *L, int base, int status,
                                                const void *above)
{
    lua_rotate(L, base, -FUNCTION);
    lua_pop(L, FUNCTION);
    if (status != LUA_OK && status != LUA_YIELD)
        return fail(L, status, above);
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, above) : S_OK;
}

static SS_LUA_NOINLINE int continue_call(lua_State *L, int status, lua_KContext where)
{
    int base = (int)where;
    lua_KFunction k = (lua_KFunction)(uintptr_t)lua_touserdata(L, base + CONTINUATION);
    lua_KContext context = (lua_KContext)lua_touserdata(L, base + CONTEXT);
    HRESULT hr = finish_yieldable(L, base, status, SS_LUA_HERE());

    return k(L, FAILED(hr) ? (int)hr : LUA_YIELD, context);
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcallk(lua_State *L, int nargs, int nresults,
                                                           lua_KContext context, lua_KFunction k)
{
    int base = lua_gettop(L) - nargs, status;

    if (!k)
        return stacksplice_lua_pcall(L, nargs, nresults);
    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    if (!is_known(L))
        know_state(L);
    lua_pushlightuserdata(L, (void *)(uintptr_t)k);
    lua_pushlightuserdata(L, (void *)context);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_rotate(L, base, FUNCTION);
    status = lua_pcallk(L, nargs, nresults, base + HANDLER, base, continue_call);
    return finish_yieldable(L, base, status, SS_LUA_HERE());
}
