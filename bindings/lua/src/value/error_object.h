/* What the files about error objects share. */
#ifndef SS_LUA_ERROR_OBJECT_H
#define SS_LUA_ERROR_OBJECT_H

#include "value/gather.h"
#include "value/value.h"

/* ---- Fields and reports (read.c, error_report.c) -------------------------------*/

/* Push the member KEY of ERROR, in PART, with the names of stacksplice/read.h; nil when there is
   none. [-0, +1, m] */
void ss_lua_push_member(lua_State *L, IUnknown *error, uint32_t part, const char *key);

/* Push a report. [-0, +1, m] */
void ss_lua_push_report(lua_State *L, IUnknown *error, stacksplice_format_kind kind,
                        bool all_frames);

/* ---- The userdata ----------------------------------------------------------------------------*/

/* Whether the error object at INDEX belongs to a value of this state. */
bool ss_lua_is_own_error(lua_State *L, int index);

/* ss_lua_push_error, for the fields and methods METAMETHODS, __gc among them. [-0, +1, m] */
void ss_lua_push_error_object(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error,
                              const luaL_Reg *metamethods);

#endif
