/* Texts of values that run no code of scripts: no metamethod is called, nothing is allocated in
 * Lua. */
#ifndef SS_LUA_SAFE_TEXT_H
#define SS_LUA_SAFE_TEXT_H

#include "value/gather.h"

/* docs/reports.md has these limits, too. */
enum {
    SS_LUA_LOCAL_BYTES = 200, /* of a string */
    SS_LUA_LOCAL_ITEMS = 10,  /* of a table */
    SS_LUA_LOCAL_DEPTH = 3,   /* of tables in tables */
    SS_LUA_LOCAL_TABLE = 500  /* bytes of a table's text */
};

/* Add the text of the value at INDEX to TO. [-0, +0, -] */
void ss_lua_safe_text(lua_State *L, int index, ss_lua_gathered *to);

#endif
