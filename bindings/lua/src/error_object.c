/*
 * Error objects: what a script sees of an error of this library, and the form in which an error
 * that is not Lua's is raised in Lua.
 */
#include "error_object.h"

/*
 * Of an error whose value is one of this state the object holds the error inside and the value as
 * its user value: no cycle that Lua's collector cannot see.  Any other error is held outside, which
 * keeps the first originator's object alive.
 */
typedef struct error_object {
    IScriptErrorInfo *inside;
    IUnknown *outside;
} error_object;

int ss_lua_error_collect(lua_State *L)
{
    error_object *object = luaL_checkudata(L, 1, SS_LUA_ERROR_NAME), gone = *object;

    *object = (error_object){NULL, NULL};
    if (gone.inside)
        gone.inside->lpVtbl->ReleaseInside(gone.inside);
    if (gone.outside)
        gone.outside->lpVtbl->Release(gone.outside);
    return 0;
}

IUnknown *ss_lua_to_error(lua_State *L, int index)
{
    error_object *object = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    if (!object)
        return NULL;
    return object->inside ? (IUnknown *)object->inside : object->outside;
}

bool ss_lua_is_own_error(lua_State *L, int index)
{
    const error_object *object = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    return object && object->inside;
}

/* ---- References ------------------------------------------------------------------------------*/

static int release_held(lua_State *L)
{
    IUnknown **node = lua_touserdata(L, 1);

    ss_lua_release(*node);
    *node = NULL;
    return 0;
}

IUnknown **ss_lua_push_holder(lua_State *L)
{
    static const luaL_Reg functions[] = {{"__gc", release_held}, {NULL, NULL}};
    IUnknown **holder = lua_newuserdatauv(L, sizeof *holder, 0);

    *holder = NULL;
    ss_lua_push_metatable(L, "stacksplice.reference", functions);
    lua_setmetatable(L, -2);
    return holder;
}

void ss_lua_drop_holder(lua_State *L, int index)
{
    IUnknown **holder = lua_touserdata(L, index);

    ss_lua_release(*holder);
    *holder = NULL;
    lua_remove(L, index);
}

/* ---- Making ----------------------------------------------------------------------------------*/

/* The pointer that all interfaces of ERROR have in common: the key of its object. */
static void *identity_of(IUnknown *error)
{
    IUnknown *identity = ss_lua_query(error, &IID_IUnknown);

    ss_lua_release(identity); /* the caller's reference is enough */
    return identity;
}

/* With an error the values of its causes live, of which strings are known to nobody else. */
static void hold_cause(lua_State *L, ss_lua_state *state, const ss_lua_exception *x)
{
    IScriptErrorInfo *cause = atomic_load_explicit(&x->cause, memory_order_relaxed);

    if (!cause)
        return;
    ss_lua_push_error(L, state, (IUnknown *)cause);
    lua_setiuservalue(L, -2, SS_LUA_ERROR_CAUSE);
}

/* Fill the new object at the top: by its value if that is one of this state. */
static void hold(lua_State *L, ss_lua_state *state, error_object *object, IUnknown *error)
{
    IUnknown *exception = ss_lua_error_exception(error);
    ss_lua_exception *x = ss_lua_exception_from(exception, state);

    if (x && ss_lua_push_value(L, x)) {
        object->inside = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);
        lua_setiuservalue(L, -2, SS_LUA_ERROR_VALUE);
    }
    if (object->inside) {
        object->inside->lpVtbl->AddInside(object->inside);
        object->inside->lpVtbl->Release(object->inside);
        hold_cause(L, state, x);
    } else {
        error->lpVtbl->AddRef(error);
        object->outside = error;
    }
    ss_lua_release(exception);
}

/*
 * Lua's collector sees the few bytes of the object only: a script that makes nothing but errors
 * would pile them up between two cycles.  Roughly, an error has a stack, its language exception the
 * same one, and a propagation node another.
 */
enum { ERROR_BYTES = 512, STACKS_OF_ERROR = 3 };

static int error_kib(IUnknown *error)
{
    uint32_t frames = 0;
    size_t bytes;

    (void)stacksplice_error_stack(error, 0, NULL, &frames);
    bytes = ERROR_BYTES + STACKS_OF_ERROR * frames * sizeof(uintptr_t);
    return bytes < 1024 ? 1 : (int)((bytes + 512) / 1024);
}

/*
 * A collection makes the next capture ask for names again, so where it was ours, a new sentinel is
 * planted at once. [-0, +0, m]
 */
static void count_for_collector(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    if (!lua_gc(L, LUA_GCISRUNNING, 0))
        return;
    (void)lua_gc(L, LUA_GCSTEP, error_kib(error));
    if (!ss_lua_sentinel_lives(L, state))
        ss_lua_plant_sentinel(L, state);
}

void ss_lua_push_error(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    error_object *object;
    void *identity = identity_of(error);

    luaL_checkstack(L, 8, "stacksplice");
    ss_lua_push_table(L, SS_LUA_ERRORS);
    if (lua_rawgetp(L, -1, identity) == LUA_TUSERDATA && ss_lua_to_error(L, -1)) {
        lua_remove(L, -2);
        return;
    }
    lua_pop(L, 1);
    object = lua_newuserdatauv(L, sizeof *object, SS_LUA_ERROR_USER_VALUES);
    *object = (error_object){NULL, NULL};
    ss_lua_push_metatable(L, SS_LUA_ERROR_NAME, ss_lua_error_metamethods);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, identity);
    lua_remove(L, -2);
    hold(L, state, object, error);
    count_for_collector(L, state, error);
}

/*
 * Pin the value of the error object at the top, which is then replaced by that of its cause; false
 * when that and those behind it are pinned: while somebody outside holds an exception they stay so.
 */
static bool pin_next(lua_State *L, ss_lua_state *state, const error_object *object)
{
    IUnknown *exception = ss_lua_error_exception((IUnknown *)object->inside);
    ss_lua_exception *x = ss_lua_exception_from(exception, state);

    /* The error holds its exception for life, so this reference need not be kept while pinning
       raises.  An exception without a pin has no outside reference but the one just taken. */
    ss_lua_release(exception);
    if (!x || (x->pinned && atomic_load(&x->outside)))
        return false;
    lua_getiuservalue(L, -1, SS_LUA_ERROR_VALUE);
    ss_lua_pin_alone(L, x, -1);
    lua_pop(L, 1);
    lua_getiuservalue(L, -1, SS_LUA_ERROR_CAUSE);
    lua_remove(L, -2);
    return true;
}

void ss_lua_pin_error_object(lua_State *L, ss_lua_state *state, int index)
{
    const error_object *object;

    lua_pushvalue(L, index);
    do
        object = luaL_testudata(L, -1, SS_LUA_ERROR_NAME);
    while (object && object->inside && pin_next(L, state, object));
    lua_pop(L, 1);
}
