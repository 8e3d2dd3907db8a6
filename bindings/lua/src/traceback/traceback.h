/* debug.traceback, in true order with other languages. */
#ifndef SS_LUA_TRACEBACK_H
#define SS_LUA_TRACEBACK_H

#include <lua.h>
#include <stacksplice/script.h>

/* What ss_lua_traceback_with asks of the function at LEVEL of L: the exception of the error that it raises
   now, if that had a stack before; or NULL. [-0, +0, -], a slot */
typedef stacksplice_exception *ss_lua_former(lua_State *L, int level);

/* debug.traceback, for the running function, with its arguments.  A function that raises an error again, which
   FORMER says, has inside of it the frames that the error had before.  Frames inside of ABOVE are ours. */
int ss_lua_traceback_with(lua_State *L, ss_lua_former *former, const void *above);

#endif
