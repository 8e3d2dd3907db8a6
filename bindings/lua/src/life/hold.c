/*
 * Holds: what an object of Lua keeps of ours, in a record outside of Lua's memory.
 *
 * The object's finalizer lets go of it, but Lua can lose a finalizer.  Its call needs a level of
 * the C stack and room on Lua's stack.  If the collector runs near the end of either, or without
 * memory, the call fails and is never repeated.  The hold is still in the list of its state then.
 *
 * Lua removes an object from a table with weak keys only when it frees the object.  So such a table
 * shows which holds still have an object.  The others are swept once for each collection, and all
 * of them when the state closes.
 */
#include "life/hold.h"

#include <stdlib.h>

static void unlink_hold(ss_lua_hold *hold)
{
    *hold->link = hold->next;
    if (hold->next)
        hold->next->link = hold->link;
    hold->link = NULL;
}

/* Releasing may look at other holds, but this one is empty by then. */
static void empty(ss_lua_hold *hold)
{
    IUnknown *outside = hold->outside;

    hold->outside = NULL;
    stacksplice_ties_drop(&hold->ties);
    if (outside)
        outside->lpVtbl->Release(outside);
}

static void drop(ss_lua_hold *hold)
{
    unlink_hold(hold);
    empty(hold);
    free(hold);
}

void ss_lua_forget_last(ss_lua_state *state)
{
    stacksplice_ties gone = state->last;
    IUnknown *held = gone.exception ? stacksplice_exception_unknown(gone.exception) : NULL;

    state->last = (stacksplice_ties){NULL, NULL, 0};
    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    state->resumed.L = NULL;
    if (held)
        held->lpVtbl->Release(held);
    stacksplice_ties_drop(&gone);
}

int ss_lua_collect_hold(lua_State *L)
{
    ss_lua_hold **object = ss_lua_check_own(L, ss_lua_collect_hold), *hold = *object;

    lua_settop(L, 1);
    *object = NULL;
    if (!hold || !hold->link)
        return 0;
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_insert(L, 1);
    lua_pushnil(L);
    lua_rawset(L, 1); /* a sweep need not visit it until Lua frees it */
    drop(hold);
    return 0;
}

/* The object at the top can be finalized: nothing may raise from here on. */
static ss_lua_hold *link_hold(lua_State *L, ss_lua_state *state, ss_lua_hold **object)
{
    ss_lua_hold *hold = calloc(1, sizeof *hold);

    if (!hold)
        luaL_error(L, "not enough memory");
    hold->next = state->holds;
    hold->link = &state->holds;
    if (hold->next)
        hold->next->link = &hold->next;
    state->holds = hold;
    return *object = hold;
}

ss_lua_hold *ss_lua_push_hold(lua_State *L, ss_lua_state *state, const ss_lua_hold_kind *kind)
{
    ss_lua_hold **object = lua_newuserdatauv(L, sizeof(ss_lua_hold *), kind->user_values);

    *object = NULL;
    ss_lua_push_metatable(L, kind->name, kind->functions);
    lua_setmetatable(L, -2);
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return link_hold(L, state, object);
}

/* ---- References ------------------------------------------------------------------------------*/

/* Reuse the holder dropped last.  Its key in the registry is false while it is in use. */
static const char spare_key;

IUnknown **ss_lua_push_spare_holder(lua_State *L)
{
    ss_lua_hold *const *spare, *hold;

    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &spare_key);
    spare = lua_touserdata(L, -1);
    hold = spare ? *spare : NULL; /* also NULL when Lua closes and has finalized it */
    if (!hold) {
        lua_pop(L, 1);
        return NULL;
    }
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    return &hold->outside;
}

IUnknown **ss_lua_push_holder(lua_State *L)
{
    static const luaL_Reg functions[] = {{"__gc", ss_lua_collect_hold}, {NULL, NULL}};
    static const ss_lua_hold_kind kind = {"stacksplice.reference", functions, 0};
    IUnknown **outside = ss_lua_push_spare_holder(L);
    ss_lua_state *state;

    if (outside)
        return outside;
    state = ss_lua_state_find(L);
    if (!state)
        luaL_error(L, "the Lua state is closing");
    outside = &ss_lua_push_hold(L, state, &kind)->outside;
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    return outside;
}

void ss_lua_drop_holder(lua_State *L, int index)
{
    ss_lua_hold **object = lua_touserdata(L, index);

    empty(*object);
    lua_pushvalue(L, index);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &spare_key);
    lua_remove(L, index);
}

/* ---- Sweeping --------------------------------------------------------------------------------*/

/* Mark the holds that have an object. [-0, +0, -], 4 slots */
static void mark(lua_State *L, uint32_t sweep)
{
    ss_lua_push_table(L, SS_LUA_HOLDERS);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        ss_lua_hold *hold = *(ss_lua_hold **)lua_touserdata(L, -2);

        if (hold)
            hold->sweep = sweep;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void ss_lua_sweep_holds(lua_State *L, ss_lua_state *state)
{
    ss_lua_hold *hold = state->holds, *next;

    if (!hold)
        return;
    mark(L, ++state->sweeps);
    for (; hold; hold = next) {
        next = hold->next;
        if (hold->sweep != state->sweeps)
            drop(hold);
    }
}

/* Finalizers that run after ours may still use their objects, so we keep the records of those. */
void ss_lua_close_holds(ss_lua_state *state)
{
    while (state->holds) {
        ss_lua_hold *hold = state->holds;

        unlink_hold(hold);
        empty(hold);
        hold->next = state->kept_holds;
        state->kept_holds = hold;
    }
}
