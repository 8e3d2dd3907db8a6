/* The tables of a state, in the registry under addresses as keys, which need no string; and which
   userdata are ours. */
#include "life/state.h"

/* The tables that never change have keys of their own. */
static const char state_key, loaded_key, table_keys[SS_LUA_INTERRUPT];

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

void ss_lua_push_weak_table(lua_State *L, const char *mode)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

void ss_lua_keep_tables(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &loaded_key);
    for (int which = SS_LUA_PINS; which < SS_LUA_INTERRUPT; which++) {
        lua_getiuservalue(L, -1, which);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &table_keys[which]);
    }
    /* Last: only now is the state open, even if memory ran out before. */
    lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
}

/* Publish it only when it is complete: memory may run out on the way. */
void ss_lua_push_metatable(lua_State *L, const char *name, const luaL_Reg *functions)
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
    lua_rawgetp(L, LUA_REGISTRYINDEX, &loaded_key);
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
