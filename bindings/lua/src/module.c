/* The Lua module: what scripts call. */
#include "binding.h"

#include <string.h>

#include <lualib.h>

enum { MOST_FRAMES = 65535 };

/* A count between 0 and 65535. */
static uint32_t check_count(lua_State *L, int arg, lua_Integer fallback)
{
    lua_Integer count = luaL_optinteger(L, arg, fallback);

    luaL_argcheck(L, count >= 0, arg, "must not be negative");
    return count > MOST_FRAMES ? MOST_FRAMES : (uint32_t)count;
}

static SS_LUA_NOINLINE int module_capture(lua_State *L)
{
    uint32_t skip = check_count(L, 1, 0), limit = check_count(L, 2, 512), count;
    uintptr_t *frames;
    bool more;

    ss_lua_plant_sentinel(L, ss_lua_state_open(L));
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    frames = lua_newuserdatauv(L, (skip + limit + 1) * sizeof *frames, 0);
    count = ss_lua_capture(L, SS_LUA_HERE(), skip + limit, frames, &more, NULL);
    skip = skip < count ? skip : count;
    ss_lua_push_frames(L, frames + skip, count - skip);
    return 1;
}

/* Nil, or a failing HRESULT, signed or unsigned. */
static HRESULT check_hresult(lua_State *L, int arg)
{
    lua_Integer number;

    if (lua_isnoneornil(L, arg))
        return 0;
    number = luaL_checkinteger(L, arg);
    luaL_argcheck(L, number >= INT32_MIN && number <= UINT32_MAX, arg, "is not a 32-bit number");
    luaL_argcheck(L, (int32_t)(uint32_t)number < 0, arg, "is not a failing HRESULT");
    return (HRESULT)(uint32_t)number;
}

/* Push the error object of the thread's error, or nil. [-0, +1, m] */
static int push_slot(lua_State *L, HRESULT (*get)(IRestrictedErrorInfo **error))
{
    ss_lua_state *state = ss_lua_state_open(L);
    IUnknown **holder;

    ss_lua_state_drain(L, state);
    holder = ss_lua_push_holder(L);
    if (get((IRestrictedErrorInfo **)holder) != S_OK || !*holder) {
        lua_pushnil(L);
        return 1;
    }
    ss_lua_push_error(L, state, *holder);
    ss_lua_drop_holder(L, -2);
    return 1;
}

static int module_peek_error(lua_State *L)
{
    return push_slot(L, stacksplice_peek_error);
}

static int module_take_error(lua_State *L)
{
    return push_slot(L, GetRestrictedErrorInfo);
}

static SS_LUA_NOINLINE int module_originate(lua_State *L)
{
    ss_lua_origin origin = {.above = SS_LUA_HERE(), .status = LUA_ERRRUN};
    ss_lua_state *state;
    HRESULT hr;

    luaL_checkany(L, 1);
    origin.hresult = check_hresult(L, 2);
    lua_settop(L, 1);
    state = ss_lua_state_open(L);
    ss_lua_state_drain(L, state);
    ss_lua_plant_sentinel(L, state);
    hr = ss_lua_originate_value(L, state, 1, &origin);
    (void)module_peek_error(L);
    if (hr == E_OUTOFMEMORY && lua_isnil(L, -1)) /* a value may bring this HRESULT itself */
        return luaL_error(L, "not enough memory");
    return 1;
}

static SS_LUA_NOINLINE int module_propagate(lua_State *L)
{
    ss_lua_origin origin = {.above = SS_LUA_HERE(), .status = LUA_ERRRUN, .unwound = true};
    ss_lua_state *state = ss_lua_state_open(L);
    IUnknown **holder;
    HRESULT hr;

    ss_lua_state_drain(L, state);
    if (!lua_isnoneornil(L, 1))
        (void)ss_lua_originate_value(L, state, 1, &origin);
    holder = ss_lua_push_holder(L);
    if (stacksplice_peek_error((IRestrictedErrorInfo **)holder) != S_OK)
        return luaL_error(L, "the thread has no error to propagate");
    hr = ss_lua_error_hresult(*holder);
    ss_lua_push_error(L, state, *holder);
    ss_lua_drop_holder(L, -2);
    if (FAILED(stacksplice_propagate_above(SS_LUA_HERE(), hr)))
        return luaL_error(L, "not enough memory");
    return 1;
}

/* What is known of an error value that was seen before; nil of any other value. */
static int module_error_info(lua_State *L)
{
    ss_lua_origin origin = {.status = LUA_ERRRUN};
    ss_lua_state *state;

    luaL_checkany(L, 1);
    state = ss_lua_state_open(L);
    ss_lua_state_drain(L, state);
    if (!ss_lua_to_error(L, 1) && !ss_lua_ties_find(L, state, 1)) {
        lua_pushnil(L);
        return 1;
    }
    ss_lua_push_error_of(L, state, 1, &origin);
    return 1;
}

/* ---- install ---------------------------------------------------------------------------------*/

/* Upvalues: the debug table, what was there before. */
static int uninstall(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    if (!lua_istable(L, -1))
        return 0;
    lua_getfield(L, -1, "traceback");
    if (lua_tocfunction(L, -1) == ss_lua_traceback) {
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_setfield(L, -3, "traceback");
    }
    lua_pushnil(L);
    lua_replace(L, lua_upvalueindex(1));
    return 0;
}

static int module_install(lua_State *L)
{
    lua_settop(L, 0);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, 1, LUA_DBLIBNAME) != LUA_TTABLE) {
        lua_settop(L, 1);
        lua_pushnil(L);
    }
    if (lua_istable(L, 2)) {
        lua_getfield(L, 2, "traceback");
        lua_pushcfunction(L, ss_lua_traceback);
        lua_setfield(L, 2, "traceback");
    } else {
        lua_pushnil(L);
    }
    lua_pushcclosure(L, uninstall, 2);
    return 1;
}

static const luaL_Reg functions[] = {
    {"traceback", ss_lua_traceback},   {"handler", stacksplice_lua_handler},
    {"capture", module_capture},       {"originate", module_originate},
    {"propagate", module_propagate},   {"peek_error", module_peek_error},
    {"take_error", module_take_error}, {"error_info", module_error_info},
    {"install", module_install},       {NULL, NULL},
};

/* These know their state by an upvalue. */
static const luaL_Reg calls[] = {
    {"pcall", ss_lua_pcall_function}, {"xpcall", ss_lua_xpcall_function}, {NULL, NULL}};

const luaL_Reg ss_lua_own_functions[] = {
    {"traceback", ss_lua_traceback},
    {"handler", stacksplice_lua_handler},
    {"pcall", ss_lua_pcall_function},
    {"xpcall", ss_lua_xpcall_function},
    {"handler of xpcall", ss_lua_run_script_handler},
    {"capture", module_capture},
    {"originate", module_originate},
    {"propagate", module_propagate},
    {"luaopen", luaopen_stacksplice},
    {NULL, NULL},
};

__attribute__((visibility("default"))) int luaopen_stacksplice(lua_State *L)
{
    luaL_checkversion(L);
    ss_lua_plant_sentinel(L, ss_lua_state_open(L));
    luaL_newlib(L, functions);
    ss_lua_push_holder_of_state(L);
    luaL_setfuncs(L, calls, 1);
    lua_pushfstring(L, "stacksplice %s", stacksplice_version());
    lua_setfield(L, -2, "_VERSION");
    return 1;
}
