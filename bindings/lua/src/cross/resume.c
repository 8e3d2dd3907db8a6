/* stacksplice_lua_resume: captures the stack of a coroutine that fails, then closes it. */
#include "cross/cross.h"

/* Closing runs __close methods, which may set errors of their own: the first error stays. */
static void close_thread(lua_State *L, lua_State *from)
{
    stacksplice_saved_error saved;

    (void)stacksplice_save_error(&saved);
#if LUA_VERSION_RELEASE_NUM >= 50406
    (void)lua_closethread(L, from);
#else
    (void)from;
    (void)lua_resetthread(L);
#endif
    lua_settop(L, 0);
    (void)stacksplice_restore_error(&saved);
}

static lua_State *main_thread(lua_State *L)
{
    lua_State *main;

    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

/* The main thread failed.  It can run nothing again until it is closed, and its value stays. */
static void close_main(lua_State *L)
{
#if LUA_VERSION_RELEASE_NUM >= 50406
    (void)lua_closethread(L, NULL);
#else
    (void)lua_resetthread(L);
#endif
    if (lua_gettop(L) == 0)
        lua_pushnil(L); /* Lua 5.4.2 and older do not keep it */
}

/* Move the value at the top of L to HOST, which can run code, and make it the error. */
static HRESULT fail_resumed(lua_State *L, lua_State *host, ss_lua_job *now)
{
    HRESULT hr;

    if (host == L && now->origin.dead) {
        close_main(L);
        now->origin.dead = NULL;
    }
    if (!lua_checkstack(host, LUA_MINSTACK)) {
        lua_pop(L, 1);
        (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
        return E_OUTOFMEMORY;
    }
    if (host != L)
        lua_xmove(L, host, 1);
    if (!ss_lua_may_be_interrupted() || !ss_lua_take_interrupt(host, L, now->origin.above, &hr))
        hr = ss_lua_originate_top(host, now);
    lua_pop(host, 1);
    return hr;
}

static SS_LUA_NOINLINE HRESULT resume_failed(lua_State *L, lua_State *from, lua_State *host,
                                             int status, const void *above)
{
    ss_lua_job now = {.origin = {.above = above, .status = status, .unwound = true, .dead = L}};
    /* Lua did not enter a thread that runs, has returned or has no room; it must not be closed. */
    bool refused = lua_status(L) == LUA_OK || lua_status(L) == LUA_YIELD;
    ss_lua_state *state = ss_lua_state_find(host);
    HRESULT hr;

    now.unseen = refused || !state || !ss_lua_take_raising(L, state, 0);
    if (refused) {
        now.origin.dead = NULL;
        now.origin.unwound = false;
    }
    hr = fail_resumed(L, host, &now);
    if (!refused && host != L)
        close_thread(L, from);
    return hr;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_resume(lua_State *L, lua_State *from, int nargs,
                                                           int *nresults)
{
    lua_State *host = from;
    int status;

    if (!nresults)
        return E_POINTER;
    if (nargs < 0 || nargs > lua_gettop(L))
        return ss_lua_invalid_count();
    *nresults = 0;
    if (!host)
        host = main_thread(L); /* now: a coroutine that failed has no free slot */
    status = lua_resume(L, from, nargs, nresults);
    if (status == LUA_OK || status == LUA_YIELD)
        return status == LUA_OK ? S_OK : S_FALSE;
    *nresults = 0;
    return resume_failed(L, from, host, status, SS_LUA_HERE());
}
