/* Deadlines of calls: the function of scripts (deadline.c), and the error that ends a call
   (strike.c). */
#ifndef SS_LUA_DEADLINE_H
#define SS_LUA_DEADLINE_H

#include "cross/cross.h"

#include <stacksplice/deadline.h>

enum { SS_LUA_HOOKED = 16 };

/* One call, a userdata of Lua. */
typedef struct ss_lua_deadline {
    stacksplice_deadline number; /* 0: ended */
    ss_lua_state *state;
    struct ss_lua_deadline *outer; /* of the same state */
    lua_State *L;                  /* the coroutine that called */
    unsigned rests;                /* interrupts to ignore */
    bool raised;                   /* the state is interrupted by it */
    uint32_t hooked_count;
    ss_lua_displaced hooked[SS_LUA_HOOKED];
    char text[STACKSPLICE_DEADLINE_NAME_MAX + 64];
} ss_lua_deadline;

/* In a signal handler: what stacksplice_deadline_options wants, with the call as its data. */
void ss_lua_strike(void *deadline);

/* The call has ended: give hooks back, and raise nothing any more. [-0, +0, -] */
void ss_lua_strike_end(lua_State *L, ss_lua_deadline *d);

#endif
