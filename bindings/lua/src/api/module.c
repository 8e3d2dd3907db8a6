/* The Lua module: the functions that scripts call. */
#include "api/api.h"
#include "cross/cross.h"

#include <dlfcn.h>
#include <string.h>

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

    ss_lua_state_tend(L, state);
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

static SS_LUA_OWN int module_originate(lua_State *L)
{
    ss_lua_origin origin = {.which = SS_LUA_LAST, .above = SS_LUA_HERE(), .status = LUA_ERRRUN};
    ss_lua_state *state;
    HRESULT hr;

    luaL_checkany(L, 1);
    origin.hresult = check_hresult(L, 2);
    lua_settop(L, 1);
    state = ss_lua_state_open(L);
    ss_lua_state_tend(L, state);
    hr = ss_lua_originate_value(L, state, 1, &origin);
    (void)module_peek_error(L);
    if (hr == E_OUTOFMEMORY && lua_isnil(L, -1)) /* a value may have this HRESULT itself */
        return luaL_error(L, "not enough memory");
    return 1;
}

/* Push the error of VALUE, or the thread's error if there is no value. */
static void push_argument(lua_State *L, ss_lua_state *state, const ss_lua_origin *origin)
{
    if (!lua_isnoneornil(L, 1))
        ss_lua_push_error_of(L, state, 1, origin);
    else
        (void)push_slot(L, stacksplice_peek_error);
}

/* Add the node to the error in the slot, then restore the slot. */
static HRESULT propagate_in_slot(IRestrictedErrorInfo *error, const void *above)
{
    stacksplice_saved_error saved;
    HRESULT hr;

    (void)stacksplice_save_error(&saved);
    hr = SetRestrictedErrorInfo(error);
    if (SUCCEEDED(hr))
        hr = stacksplice_propagate_above(above, ss_lua_error_hresult((IUnknown *)error), "lua");
    stacksplice_restore_error(&saved);
    return hr;
}

static SS_LUA_OWN int module_propagate(lua_State *L)
{
    ss_lua_origin origin = {
        .which = SS_LUA_LAST, .above = SS_LUA_HERE(), .status = LUA_ERRRUN, .unwound = true};
    ss_lua_state *state = ss_lua_state_open(L);
    IRestrictedErrorInfo *info = NULL;
    HRESULT hr;

    ss_lua_state_tend(L, state);
    push_argument(L, state, &origin);
    if (lua_isnil(L, -1))
        return luaL_error(L, "the thread has no error to propagate");
    ss_lua_pin(L, -1, ss_lua_ties_find(L, -1));
    hr = ss_lua_to_error(L, -1)->lpVtbl->QueryInterface(ss_lua_to_error(L, -1),
                                                        &IID_IRestrictedErrorInfo, (void **)&info);
    if (SUCCEEDED(hr)) {
        hr = propagate_in_slot(info, SS_LUA_HERE());
        info->lpVtbl->Release(info);
    }
    if (FAILED(hr))
        return luaL_error(L, "not enough memory");
    return 1;
}

/* Push the error object of the cause at index 2, or nil. */
static void push_cause(lua_State *L, ss_lua_state *state, const void *above)
{
    ss_lua_origin origin = {
        .which = SS_LUA_LAST, .above = above, .status = LUA_ERRRUN, .unwound = true};

    if (lua_isnoneornil(L, 2))
        lua_pushnil(L);
    else
        ss_lua_push_error_of(L, state, 2, &origin);
}

/* error(value, cause): like error, which puts the place before a message that is a string. */
static SS_LUA_OWN int module_error(lua_State *L)
{
    ss_lua_origin origin = {.above = SS_LUA_HERE(), .status = LUA_ERRRUN};
    ss_lua_state *state = ss_lua_state_open(L);
    stacksplice_ties *ties;

    luaL_checkany(L, 1);
    lua_settop(L, 2);
    ss_lua_state_tend(L, state);
    ties = ss_lua_has_identity(L, 1) ? ss_lua_ties_find(L, 1) : NULL;
    luaL_argcheck(L, lua_isnil(L, 2) || !(ss_lua_to_error(L, 1) || (ties && ties->error)), 2,
                  "value is an error already; its cause cannot change");
    push_cause(L, state, SS_LUA_HERE());
    if (ss_lua_to_error(L, 1))
        return lua_settop(L, 1), lua_error(L);
    if (lua_type(L, 1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_pushvalue(L, 1);
        lua_concat(L, 2);
        lua_replace(L, 1);
    }
    ties = ss_lua_ties_make(L, state, 1, &origin);
    if (ss_lua_to_error(L, 3))
        ss_lua_set_cause(L, 1, ties, 3);
    lua_settop(L, 1);
    if (ties == &state->last)
        ss_lua_mark_last(L, state);
    return lua_error(L);
}

/* Return the error object of an error value that was seen before; nil for any other value. */
static int module_error_info(lua_State *L)
{
    ss_lua_origin origin = {.which = SS_LUA_LAST, .status = LUA_ERRRUN};
    ss_lua_state *state;

    luaL_checkany(L, 1);
    state = ss_lua_state_open(L);
    ss_lua_state_tend(L, state);
    if (!ss_lua_to_error(L, 1) && !ss_lua_ties_known(L, state, 1, &origin)) {
        lua_pushnil(L);
        return 1;
    }
    ss_lua_push_error_of(L, state, 1, &origin);
    return 1;
}

static const luaL_Reg functions[] = {
    {"traceback", ss_lua_traceback},      {"handler", stacksplice_lua_handler},
    {"originate", module_originate},      {"propagate", module_propagate},
    {"peek_error", module_peek_error},    {"take_error", module_take_error},
    {"error_info", module_error_info},    {"error", module_error},
    {"redact", ss_lua_redact_function},   {"set_max_frames", ss_lua_set_max_frames_function},
    {"install", ss_lua_install_function}, {"deadline", ss_lua_deadline_function},
    {"report", ss_lua_report_function},   {NULL, NULL},
};

/* For hosts: a confined script has the module above, and not this one. */
static const luaL_Reg host_functions[] = {
    {"redaction", ss_lua_redaction_function},
    {"doctor", ss_lua_doctor_function},
    {"hide", ss_lua_hide_function},
    {"report_on_signal", ss_lua_report_on_signal_function},
    {"install", ss_lua_host_install_function},
    {NULL, NULL},
};

/* These find their state through an upvalue. */
static const luaL_Reg calls[] = {
    {"pcall", ss_lua_pcall_function},
    {"xpcall", ss_lua_xpcall_function},
    {"resume", ss_lua_resume_function},
    {"wrap", ss_lua_wrap_function},
    {NULL, NULL},
};

/* ---- The Lua that loads the module -----------------------------------------------------------*/

#if SS_LUA_MODULE
/* Whether the library that has lua_gettop has that function, too. */
static bool has(const char *function)
{
    const void *found = dlsym(RTLD_DEFAULT, function);
    Dl_info its, of_lua;

    return found && dladdr(found, &its) && dladdr((void *)(uintptr_t)lua_gettop, &of_lua) &&
           its.dli_fbase == of_lua.dli_fbase;
}

/* By functions that came or went with a version. */
static void check_version(lua_State *L)
{
    const char *built_for = SS_LUA_JIT ? "LuaJIT" : LUA_VERSION;
    const char *running = has("luaJIT_setmode")    ? "LuaJIT"
                          : has("lua_setfenv")     ? "Lua 5.1"
                          : has("lua_getctx")      ? "Lua 5.2"
                          : has("lua_newuserdata") ? "Lua 5.3"
                          : has("lua_resetthread") ? "Lua 5.4"
                                                   : "Lua 5.5";

    if (strcmp(running, built_for) != 0)
        luaL_error(
            L,
            "stacksplice is built with the lua.h of %s, and this is %s: build it with that of %s",
            built_for, running, running);
}
#else
static void check_version(lua_State *L)
{
    const char *wrong = ss_lua_kind_reason();

    if (wrong)
        luaL_error(L, "%s", wrong);
}
#endif

/* Raise an error in a Lua that the binding is not built for, or one whose luaconf.h has other
   numbers, or other sizes: Lua writes the name of a chunk into lua_Debug. */
static void check_lua(lua_State *L)
{
    enum { SEEN_BYTES = 1024 };
    char name[SEEN_BYTES];
    struct {
        lua_Debug activation;
        char room[SEEN_BYTES];
    } seen;

    check_version(L);
    luaL_checkversion(L);
    memset(name, '=', SEEN_BYTES - 1);
    name[SEEN_BYTES - 1] = 0;
    lua_pushinteger(L, -0x1234);
    if (luaL_loadbufferx(L, "", 0, name, "t") != LUA_OK)
        (void)lua_error(L);
    if (lua_tonumber(L, -2) != -0x1234 || !lua_getinfo(L, ">S", &seen.activation) ||
        strlen(seen.activation.short_src) != sizeof seen.activation.short_src - 1)
        luaL_error(L,
                   "stacksplice is built with the luaconf.h of another Lua than this one: build it "
                   "with that of this one");
    lua_pop(L, 1);
}

/* A host that opens the module itself may capture in signal handlers of its own. */
static ss_lua_state *open_for(lua_State *L)
{
    lua_Debug require;
    bool by_script = lua_getstack(L, 1, &require);

    return by_script ? ss_lua_state_open_early(L) : ss_lua_state_open(L);
}

__attribute__((visibility("default"))) SS_LUA_OWN int luaopen_stacksplice(lua_State *L)
{
    check_lua(L);
    ss_lua_plant_gc_canary(L, open_for(L));
    luaL_newlib(L, functions);
    ss_lua_push_capture(L);
    lua_setfield(L, -2, "capture");
    ss_lua_push_holder_of_state(L);
    luaL_setfuncs(L, calls, 1);
    lua_pushfstring(L, "stacksplice %s", stacksplice_version());
    lua_setfield(L, -2, "_VERSION");
    ss_lua_serve_standalone(L);
    return 1;
}

__attribute__((visibility("default"))) int luaopen_stacksplice_host(lua_State *L)
{
    check_lua(L);
    luaL_newlib(L, host_functions);
    return 1;
}
