/* The text of a stack of Lua, in the form of luaL_traceback. */
#ifndef SS_LUA_TEXT_H
#define SS_LUA_TEXT_H

#include "frames/frames.h"

/* Of a long stack so many lines are shown. */
enum { SS_LUA_SHOWN_INNER = 10, SS_LUA_SHOWN_OUTER = 11 };

/* Begin TEXT; nothing but its pieces may be at the top of L until it ends. [-0, +?, m] */
void ss_lua_text_begin(lua_State *L, luaL_Buffer *text, const char *message);

/* Say that COUNT levels are left out here. [-0, +?, m] */
void ss_lua_text_skipped(luaL_Buffer *text, int count);

void ss_lua_text_number(luaL_Buffer *text, int number);

/*
 * The function of an activation as lua_topointer gives it, if only package.loaded may name it; else
 * NULL. [-0, +0, -], 1 slot in L
 */
const void *ss_lua_text_nameless(lua_State *L, lua_State *thread, lua_Debug *activation);

/* Add the line of an activation; NAMES is the index of the table that has the function's name, if
   it has one, at NUMBER + 1. [-0, +?, m] */
void ss_lua_text_activation(luaL_Buffer *text, lua_State *thread, lua_Debug *activation, int names,
                            uint32_t number);

/* Push the text of luaL_traceback for THREAD alone, which LEVEL begins. [-0, +1, m] */
void ss_lua_push_text(lua_State *L, lua_State *thread, const char *message, int level);

#endif
