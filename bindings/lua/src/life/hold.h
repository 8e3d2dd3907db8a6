/* Holds: what an object of Lua keeps of ours. */
#ifndef SS_LUA_HOLD_H
#define SS_LUA_HOLD_H

#include "life/state.h"

struct ss_lua_hold {
    ss_lua_hold *next, **link; /* LINK: the pointer to it; NULL once its state closed */
    uint32_t sweep;            /* the last one that found its object */
    stacksplice_ties ties;     /* of a value or an error object */
    IUnknown *outside;         /* of a holder: a COM reference */
    bool cause_asked;          /* of a value: its cause was already looked up */
};

/* The hold that contains TIES; not for the ties of the state's last value. */
static inline ss_lua_hold *ss_lua_hold_of(stacksplice_ties *ties)
{
    return (ss_lua_hold *)(void *)((char *)ties - offsetof(ss_lua_hold, ties));
}

typedef struct ss_lua_hold_kind {
    const char *name; /* of the metatable */
    const luaL_Reg *functions;
    int user_values;
} ss_lua_hold_kind;

/* Push an object, a pointer to its hold, which is empty.  Its finalizer is ss_lua_collect_hold.
   [-0, +1, m], 4 slots */
ss_lua_hold *ss_lua_push_hold(lua_State *L, ss_lua_state *state, const ss_lua_hold_kind *kind);

/* Release what the object's hold has, and the hold; does nothing the second time. */
int ss_lua_collect_hold(lua_State *L);

/* Forget the state's last value without identity. [-0, +0, -] */
void ss_lua_forget_last(ss_lua_state *state);

/* Drop the holds whose objects Lua freed without a finalizer. [-0, +0, -], 4 slots */
void ss_lua_sweep_holds(lua_State *L, ss_lua_state *state);

/* Empty all: the state is closing, or Lua closed it without calling us. */
void ss_lua_close_holds(ss_lua_state *state);

/* Push an object that owns the COM reference put into its hold, even if something raises. [-0, +1,
   m] */
IUnknown **ss_lua_push_holder(lua_State *L);

/* The same with the holder that was dropped last; pushes nothing and returns NULL if it is in use.
   [-0, +(0|1), -], 2 slots */
IUnknown **ss_lua_push_spare_holder(lua_State *L);

/* Release what the holder at INDEX has and remove it from the stack. [-1, +0, -], 1 slot */
void ss_lua_drop_holder(lua_State *L, int index);

#endif
