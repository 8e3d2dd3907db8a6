/* What scripts call. */
#ifndef SS_LUA_API_H
#define SS_LUA_API_H

#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

/* Push the function "capture". [-0, +1, m] */
void ss_lua_push_capture(lua_State *L);
/* Set how many elements a stack may have, for the whole process; returns the former number. */
int ss_lua_set_max_frames_function(lua_State *L);
/* The truth of field KEY of the table of options at 1; USUAL when it is nil. [-0, +0, e] */
bool ss_lua_option(lua_State *L, const char *key, bool usual);

int ss_lua_redaction_function(lua_State *L);
int ss_lua_redact_function(lua_State *L);
int ss_lua_install_function(lua_State *L);
/* With options that act for the whole process, or show variables of the host. */
int ss_lua_host_install_function(lua_State *L);
int ss_lua_deadline_function(lua_State *L);
/* In a signal handler: have the innermost coroutine on this thread's stack whose state has an
   outside ask for the error of that NUMBER at its next instruction, and raise it.  RESUMED: the
   coroutine that the program itself resumed last, on this thread, or NULL. */
void ss_lua_interrupt_outside(uint64_t number, void *resumed);
int ss_lua_report_function(lua_State *L);
int ss_lua_hide_function(lua_State *L);             /* of the host */
int ss_lua_report_on_signal_function(lua_State *L); /* of the host */
int ss_lua_doctor_function(lua_State *L);

/* In a message handler: push the text of the error whose value is at 1, the only one on the stack.
   False, with nothing pushed, for want of memory or of Lua's stack.  ABOVE as in ss_lua_origin.  A
   terminal gets the ends of a long stack. [-0, +(0|1), -] */
bool ss_lua_report(lua_State *L, const void *above, bool for_terminal);

/* Called while the module is loaded: if option -l of the standalone Lua does that, let uncaught
   errors show their reports. [-0, +0, m] */
void ss_lua_serve_standalone(lua_State *L);

/* debug.traceback: also with the frames of a coroutine that ended with the error that is raised now. */
int ss_lua_traceback(lua_State *L);

#endif
