/* What reports leave out (stacksplice/redact.h), where a script set a hook. */
#ifndef SS_LUA_REDACT_H
#define SS_LUA_REDACT_H

#include <lua.h>

#include <stacksplice/redact.h>

/*
 * While L's thread makes a report in between, the core may call the hook of L's scripts.  Returns
 * what end takes.
 */
lua_State *ss_lua_reporting_begin(lua_State *L);
void ss_lua_reporting_end(lua_State *before);

/* Replace the string at the top by what reports show of it. [-1, +1, m] */
void ss_lua_redact_top(lua_State *L);

/* A stacksplice_redact_callback, which calls the hook that set_hook has set. */
int ss_lua_redact_hook(const char *text, size_t length, stacksplice_text_kind kind,
                       stacksplice_write_callback write, void *write_data, void *data);

/* Make the value at the top, a function or nil, the hook of all scripts of this state.
   [-1, +0, m] */
void ss_lua_set_redact_hook(lua_State *L);

#endif
