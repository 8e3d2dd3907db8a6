/*
 * States of Lua in this process, whoever made them: finds the copy of Lua that has a state, gives
 * the core its frame source, and attaches the state.  The Lua binding itself is in shared objects
 * of the package, one for each version; see loadable.h.
 */
#ifndef SSPY_LUA_H
#define SSPY_LUA_H

#include "life/life.h"

#include <loadable.h>

/* ---- Instances of the binding (instance.c) ----------------------------------------------------*/

/*
 * The instance for the copy of Lua whose functions are in the loaded file LIBRARY, or in the global
 * scope if that is NULL.  NULL with an exception: OSError (not loaded, no Lua, a function is
 * missing, no second mapping) or ValueError (a Lua that we do not support).  GIL held.
 */
const ss_lua_loadable *sspy_lua_instance(const char *library);

/* Whether errors of all instances keep local variables, those of later ones, too. */
void sspy_lua_show_locals(bool shows);

/* ---- Copies of Lua (scope.c, version.c) -------------------------------------------------------*/

/* The handle in which dlsym finds the functions of Lua that the loaded file LIBRARY calls, or those
   of the global scope if it is NULL; NULL if the file is not loaded. */
void *sspy_lua_handle(const char *library);
/* The version of the copy of Lua in HANDLE, as LUA_VERSION_NUM; 0 with an exception that names
   LIBRARY if it is none that we support. */
int sspy_lua_version(void *handle, const char *library);

/* ---- The file of the binding (mapping.c) ------------------------------------------------------*/

/* Load the object for VERSION from the package's folder; AGAIN: a further mapping of it, with its
   own variables.  NULL with an exception. */
const ss_lua_loadable *sspy_lua_load(int version, bool again);

/* ---- Attached states (attach.c) ---------------------------------------------------------------*/

/* A handle of an attached state.  The handle may outlive the state. */
typedef struct sspy_lua sspy_lua;

/*
 * Attach the state of L, a coroutine that is at rest or runs the C function that calls us: its
 * debug.traceback, coroutine.wrap and coroutine.resume become functions that record errors and do
 * what the former ones do.  HOOKS may be NULL.  A state that is attached already keeps its hooks.
 * NULL with an exception: as sspy_lua_instance, and RuntimeError with what Lua says.
 */
sspy_lua *sspy_lua_attach(void *L, const char *library, const ss_lua_hooks *hooks);
/* Put the functions back, each one where ours is still there, and free the handle. */
void sspy_lua_detach(sspy_lua *lua);
/* Free the handle alone: the state stays attached. */
void sspy_lua_forget(sspy_lua *lua);
/* See ss_lua_loadable: the caller gets a reference, or NULL. */
bool sspy_lua_owns(const sspy_lua *lua, void *coroutine);
IUnknown *sspy_lua_find_failed(sspy_lua *lua, void *coroutine, const char *text, size_t length,
                               const void *above, void **block);

extern PyMethodDef sspy_lua_functions[];

#endif
