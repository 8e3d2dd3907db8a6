/* redaction: what reports leave out; redact: a text as they show it. */
#include "api/api.h"

#include <lauxlib.h>

#include "value/redact.h"

bool ss_lua_option(lua_State *L, const char *key, bool usual)
{
    bool found = usual;

    if (lua_getfield(L, 1, key) != LUA_TNIL)
        found = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return found;
}

/* Read the list OPTIONS.names, which stays on the stack. [-0, +1, e] */
static uint32_t read_names(lua_State *L, const char *names[STACKSPLICE_REDACT_NAMES_MAX])
{
    lua_Unsigned count;

    if (lua_getfield(L, 1, "names") == LUA_TNIL)
        return 0;
    luaL_argcheck(L, lua_istable(L, -1), 1, "names must be a list of strings");
    count = lua_rawlen(L, -1);
    luaL_argcheck(L, count <= STACKSPLICE_REDACT_NAMES_MAX, 1, "too many names");
    for (lua_Unsigned i = 0; i < count; i++) {
        luaL_argcheck(L, lua_rawgeti(L, -1, (lua_Integer)i + 1) == LUA_TSTRING, 1,
                      "names must be a list of strings");
        names[i] = lua_tostring(L, -1); /* the list keeps it */
        lua_pop(L, 1);
    }
    return (uint32_t)count;
}

int ss_lua_redaction_function(lua_State *L)
{
    const char *names[STACKSPLICE_REDACT_NAMES_MAX];
    stacksplice_redaction redaction = {.size = sizeof redaction, .names = names};
    HRESULT hr;

    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    redaction.rules = (ss_lua_option(L, "on", true) ? STACKSPLICE_REDACT_DEFAULT : 0) |
                      (ss_lua_option(L, "emails", false) ? STACKSPLICE_REDACT_EMAILS : 0);
    redaction.name_count = read_names(L, names);
    if (lua_getfield(L, 1, "hook") != LUA_TNIL) {
        luaL_argcheck(L, lua_isfunction(L, -1), 1, "hook must be a function");
        redaction.hook = ss_lua_redact_hook;
    }
    hr = stacksplice_set_redaction(&redaction);
    luaL_argcheck(L, hr != E_INVALIDARG, 1, "a name has 1 to 47 letters, digits, '_' and '-'");
    if (FAILED(hr))
        return luaL_error(L, "not enough memory");
    ss_lua_set_redact_hook(L);
    return 0;
}

int ss_lua_redact_function(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TSTRING);
    lua_settop(L, 1);
    ss_lua_redact_top(L);
    return 1;
}
