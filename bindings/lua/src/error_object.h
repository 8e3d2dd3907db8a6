/* What the files about error objects share: reading an error of the core, and the userdata. */
#ifndef SS_LUA_ERROR_OBJECT_H
#define SS_LUA_ERROR_OBJECT_H

#include "binding.h"

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

/* A copy in C memory of the whole message: the script's own where there is one, else the
   description.  NULL without memory, or when there is none. */
char *ss_lua_error_message(IUnknown *error, size_t *length);

/* "python", "lua", or "native" for what no language's exception stands behind.  The type's name is
   cut where CAPACITY ends; empty when there is none. */
const char *ss_lua_error_language(IUnknown *error, char *type_name, size_t capacity);

/* The user values of an error object. */
enum { SS_LUA_ERROR_VALUE = 1, SS_LUA_ERROR_CAUSE, SS_LUA_ERROR_USER_VALUES = SS_LUA_ERROR_CAUSE };

/* Whether the error object at INDEX is that of a value of this state. */
bool ss_lua_is_own_error(lua_State *L, int index);

/* The fields and methods (error_fields.c), __gc among them. */
extern const luaL_Reg ss_lua_error_metamethods[];

/* Its __gc. */
int ss_lua_error_collect(lua_State *L);

#endif
