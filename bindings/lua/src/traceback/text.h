/* Lines in the form of luaL_traceback, collected in C memory: nothing here raises. */
#ifndef SS_LUA_TEXT_H
#define SS_LUA_TEXT_H

#include "frames/frames.h"
#include "value/gather.h"

void ss_lua_text_add(ss_lua_gathered *text, const char *more);
void ss_lua_text_number(ss_lua_gathered *text, int number);

void ss_lua_text_begin(ss_lua_gathered *text, const char *message);

/* Write that COUNT levels are left out here. */
void ss_lua_text_skipped(ss_lua_gathered *text, int count);

/* Add the line of an activation. [-0, +0, -], 6 slots in L */
void ss_lua_text_activation(lua_State *L, ss_lua_gathered *text, const ss_lua_seen *seen);

#endif
