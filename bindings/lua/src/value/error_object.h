/* What the files about error objects share: reading an error of the core, and the userdata. */
#ifndef SS_LUA_ERROR_OBJECT_H
#define SS_LUA_ERROR_OBJECT_H

#include "value/gather.h"
#include "value/value.h"

/* The interface IID of OBJECT with a reference, or NULL; NULL is allowed. */
static inline void *ss_lua_query(IUnknown *object, REFIID iid)
{
    void *found = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, iid, &found)))
        return NULL;
    return found;
}

static inline void ss_lua_release(void *object)
{
    if (object)
        ((IUnknown *)object)->lpVtbl->Release(object);
}

/* "python", "lua", or "native" for what no language's exception stands behind: a static string. */
const char *ss_lua_error_language(IUnknown *error);

/* ---- Texts (error_text.c) --------------------------------------------------------------------*/

/* Push a holder of the interface IID of ERROR's language exception, which is returned: NULL when it
   has none.  What that lends lives as long as the holder is on the stack. [-0, +1, m] */
void *ss_lua_push_exception(lua_State *L, IUnknown *error, REFIID iid);

/* Push the whole message: the script's own where there is one, else the description.
   [-0, +1, m] */
void ss_lua_push_message(lua_State *L, IUnknown *error);

/* Push the whole name of its type; false and nothing when it has none. [-0, +(0|1), m] */
bool ss_lua_push_type_name(lua_State *L, IUnknown *error);

/* Push a report; a list of the notes. [-0, +1, m] */
void ss_lua_push_report(lua_State *L, IUnknown *error, stacksplice_format_kind kind,
                        bool all_frames);
void ss_lua_push_notes(lua_State *L, IUnknown *error);

/* ---- The userdata ----------------------------------------------------------------------------*/

/* Whether the error object at INDEX is that of a value of this state. */
bool ss_lua_is_own_error(lua_State *L, int index);

/* ss_lua_push_error, for the fields and methods METAMETHODS, __gc among them. [-0, +1, m] */
void ss_lua_push_error_object(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error,
                              const luaL_Reg *metamethods);

/* Its __gc. */
int ss_lua_error_collect(lua_State *L);

#endif
