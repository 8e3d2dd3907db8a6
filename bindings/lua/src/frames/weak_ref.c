#include "frames/weak_ref.h"

#include "calibrate/call_info.h"

enum { SLOTS_FOR_A_WEAK_REF = 4 };

/* The place of the table in the metatable of the GC canaries, which all copies of the binding
   find. */
enum { WEAK_REFS = 1 };

/* Push the table; pushes nothing and returns false without one. [-0, +(0|1), -], 2 slots */
static bool push_weak_refs(lua_State *L)
{
    if (!ss_lua_push_gc_canaries_metatable(L))
        return false;
    if (lua_rawgeti(L, -1, WEAK_REFS) == LUA_TTABLE) {
        lua_remove(L, -2);
        return true;
    }
    lua_pop(L, 2);
    return false;
}

/* All places exist from the start, so that filling one allocates nothing. */
void ss_lua_make_weak_refs(lua_State *L, int places)
{
    if (push_weak_refs(L)) {
        lua_pop(L, 1);
        return;
    }
    if (!ss_lua_push_gc_canaries_metatable(L))
        return;
    lua_createtable(L, places, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawseti(L, -2, WEAK_REFS);
    lua_pop(L, 1);
}

bool ss_lua_has_room(lua_State *L, int slots)
{
    lua_Debug innermost;
    uintptr_t ci, room;

    if (!lua_getstack(L, 0, &innermost))
        return false;
    ci = (uintptr_t)innermost.i_ci;
    room = (ss_lua_word(ci + SSI_LUA_CALL_TOP) - ss_lua_slot_of(ci)) / SSI_LUA_VALUE;
    return room >= (uintptr_t)lua_gettop(L) + 1 + (uintptr_t)slots;
}

bool ss_lua_put_weak_ref(lua_State *L, uintptr_t ci, int place)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};

    if (!ss_lua_has_room(L, SLOTS_FOR_A_WEAK_REF) || !push_weak_refs(L))
        return false;
    lua_getinfo(L, "f", &activation);
    lua_rawseti(L, -2, place + 1);
    lua_pop(L, 1);
    return true;
}

bool ss_lua_weak_refs_live(lua_State *L, int place, int count)
{
    int living = 0;

    if (!push_weak_refs(L))
        return false;
    for (; living < count; living++) {
        bool lives = lua_rawgeti(L, -1, place + living + 1) == LUA_TFUNCTION;

        lua_pop(L, 1);
        if (!lives)
            break;
    }
    lua_pop(L, 1);
    return living == count;
}
