/*
 * What a capture must know of the copy of Lua that this binding is linked to: the call instructions
 * from which Lua calls C functions, and where it keeps the lua_State and the CallInfo there.  We
 * learn this by running scripts in private states, never from symbol names or private headers.
 */
#ifndef SS_LUA_CALIBRATE_H
#define SS_LUA_CALIBRATE_H

#include "version/call_info.h"
#include "calibrate/layout.h"

/*
 * The layout.  The first call learns it in some milliseconds, on its own thread; other callers
 * wait.  It needs little stack, and keeps errno and the thread's error.  NULL only on a thread that
 * is learning right now.
 */
const ss_lua_layout *ss_lua_layout_get(void);

/* The layout if it was learnt, or NULL.  Takes no lock. */
const ss_lua_layout *ss_lua_layout_peek(void);

/* ---- Learning, in this folder -----------------------------------------------------------------*/

/* Learn by the snippets, in private states; false when memory ran out.  jit.c has that of LuaJIT. */
bool ss_lua_sample(ss_lua_layout *layout);

/*
 * Call BODY with L while every callee-saved register holds a meaningless value (filler.c).
 * Otherwise a register of a frame outside of the interpreter could look right.
 */
int ss_lua_with_filler(lua_CFunction body, lua_State *L);

#endif
