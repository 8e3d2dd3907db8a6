/*
 * Weak references to functions, in the places of a weak table.  While one is in its place, that
 * function has lived since it was put there, and so has its code.  What is known by an address in
 * this code then outlives collections.
 */
#ifndef SS_LUA_WEAK_REF_H
#define SS_LUA_WEAK_REF_H

#include "life/state.h"

/* Make a table with so many PLACES, unless the state has one. [-0, +0, m], 4 slots */
void ss_lua_make_weak_refs(lua_State *L, int places);

/* Put the function of CI, an activation of L, into PLACE.  Returns false without a table or without
   known room in L, which is suspended in C. [-0, +0, -] */
bool ss_lua_put_weak_ref(lua_State *L, uintptr_t ci, int place);

/* Whether the COUNT weak references from PLACE on live. [-0, +0, -], 3 slots */
bool ss_lua_weak_refs_live(lua_State *L, int place, int count);

/* Whether L, suspended in C, is known to have room for SLOTS above its top. [-0, +0, -] */
bool ss_lua_has_room(lua_State *L, int slots);

#endif
