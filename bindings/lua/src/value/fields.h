/* The fields of a raised table, as text. */
#ifndef SS_LUA_FIELDS_H
#define SS_LUA_FIELDS_H

#include <lua.h>

/* Push the fields of the table at INDEX: its values 1, 2, ... first, then the others in the order
   of their names.  A nested table is shown as {...}.  Without fields, say what it is. [-0, +1, m],
   3 slots */
void ss_lua_push_fields(lua_State *L, int index);

#endif
