/*
 * Error objects: what a script sees of an error of this library, and the form in which an error
 * that is not Lua's is raised in Lua.
 */
#include "binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of an error whose value is one of this state the object holds the error inside and the value as
 * its user value: no cycle that Lua's collector cannot see.  Any other error is held outside, which
 * keeps the first originator's object alive.
 */
typedef struct error_object {
    IScriptErrorInfo *inside;
    IUnknown *outside;
} error_object;

static int collect_error(lua_State *L)
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

static IUnknown *check_error(lua_State *L)
{
    IUnknown *error = ss_lua_to_error(L, 1);

    luaL_argexpected(L, error, 1, SS_LUA_ERROR_NAME);
    return error;
}

/* ---- Reading an error ------------------------------------------------------------------------*/

static void *query(IUnknown *object, REFIID iid)
{
    void *found = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, iid, &found)))
        return NULL;
    return found;
}

static void release(void *object)
{
    if (object)
        ((IUnknown *)object)->lpVtbl->Release(object);
}

IUnknown *ss_lua_error_exception(IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = query(error, &IID_ILanguageExceptionErrorInfo2);
    IUnknown *exception = NULL;

    if (!info)
        return NULL;
    (void)info->lpVtbl->GetLanguageException(info, &exception);
    release(info);
    return exception;
}

HRESULT ss_lua_error_hresult(IUnknown *error)
{
    HRESULT hr = E_FAIL;

    (void)stacksplice_error_hresult(error, &hr);
    return hr;
}

/* The restricted description as UTF-8, without its line end.  Nothing can raise while the strings
   of COM are held: the text is copied to C memory first. */
static char *description_of(IUnknown *error, size_t *length)
{
    IRestrictedErrorInfo *info = query(error, &IID_IRestrictedErrorInfo);
    BSTR description = NULL, restricted = NULL, sid = NULL;
    char *text = NULL;
    HRESULT hr = E_FAIL;
    uint32_t units;

    *length = 0;
    if (!info)
        return NULL;
    if (SUCCEEDED(info->lpVtbl->GetErrorDetails(info, &description, &hr, &restricted, &sid)) &&
        restricted) {
        units = SysStringLen(restricted);
        while (units > 0 && (restricted[units - 1] == '\n' || restricted[units - 1] == '\r'))
            units--;
        text = malloc((size_t)units * 3 + 1);
        if (text)
            *length = stacksplice_utf8(restricted, units, text, (size_t)units * 3 + 1);
    }
    SysFreeString(description);
    SysFreeString(restricted);
    SysFreeString(sid);
    release(info);
    return text;
}

/* A copy of the script's own message in C memory; NULL when there is none. */
static char *script_message_of(IUnknown *error, size_t *length)
{
    IUnknown *exception = ss_lua_error_exception(error);
    IScriptException *script = query(exception, &stacksplice_IID_IScriptException);
    const char *message = script ? script->lpVtbl->GetMessage(script, length) : NULL;
    char *copy = message ? malloc(*length + 1) : NULL;

    if (copy)
        memcpy(copy, message, *length);
    release(script);
    release(exception);
    return copy;
}

typedef struct collected {
    char *text;
    size_t length, capacity;
} collected;

static int push_collected(lua_State *L)
{
    const collected *out = lua_touserdata(L, 1);

    lua_pushlstring(L, out->text ? out->text : "", out->length);
    return 1;
}

/* Push the text and free it, also when Lua raises. [-0, +1, m] */
static void push_and_free(lua_State *L, collected *out)
{
    int status;

    lua_pushcfunction(L, push_collected);
    lua_pushlightuserdata(L, out);
    status = lua_pcall(L, 1, 1, 0);
    free(out->text);
    if (status != LUA_OK)
        lua_error(L);
}

/* The whole message: the script's own where there is one. [-0, +1, m] */
static void push_error_message(lua_State *L, IUnknown *error)
{
    collected out = {NULL, 0, 0};

    out.text = script_message_of(error, &out.length);
    if (!out.text)
        out.text = description_of(error, &out.length);
    push_and_free(L, &out);
}

/* "python", "lua", or "native" for what no language's exception stands behind. */
static const char *language_of(IUnknown *error, char *type_name, size_t capacity)
{
    IUnknown *exception = ss_lua_error_exception(error);
    IScriptException *script = query(exception, &stacksplice_IID_IScriptException);
    const char *language = "native", *name;

    *type_name = '\0';
    if (script) {
        language = script->lpVtbl->GetLanguage(script);
        name = script->lpVtbl->GetTypeName(script);
        if (name)
            (void)snprintf(type_name, capacity, "%s", name);
    }
    release(script);
    release(exception);
    return language;
}

/* The elements of a stack in a userdata at the top, so that nothing is lost when Lua raises. */
static const uintptr_t *push_elements(lua_State *L, IUnknown *error, uint32_t *count)
{
    uintptr_t *elements;

    *count = 0;
    (void)stacksplice_error_stack(error, 0, NULL, count);
    elements = lua_newuserdatauv(L, (*count ? *count : 1) * sizeof *elements, 0);
    if (*count && FAILED(stacksplice_error_stack(error, *count, elements, count)))
        *count = 0;
    return elements;
}

static void push_stack(lua_State *L, IUnknown *error)
{
    uint32_t count;
    const uintptr_t *elements = push_elements(L, error, &count);

    ss_lua_push_frames(L, elements, count);
    lua_remove(L, -2);
}

/* ---- The chain -------------------------------------------------------------------------------*/

static int release_held(lua_State *L)
{
    IUnknown **node = lua_touserdata(L, 1);

    release(*node);
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

    release(*holder);
    *holder = NULL;
    lua_remove(L, index);
}

/* The language that received: that of the innermost script frame in the node's stack, at the top.
 */
static void set_node_language(lua_State *L, int node)
{
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);

    lua_pushliteral(L, "native");
    for (lua_Integer i = 1; i <= count; i++) {
        bool script;

        lua_rawgeti(L, -2, i);
        lua_getfield(L, -1, "kind");
        script = strcmp(lua_tostring(L, -1), "script") == 0;
        lua_pop(L, 1);
        if (script) {
            lua_getfield(L, -1, "language");
            lua_replace(L, -3);
        }
        lua_pop(L, 1);
        if (script)
            break;
    }
    lua_setfield(L, node, "language");
}

/* One table for each node, oldest first: {language, stack}. */
static void push_propagation(lua_State *L, IUnknown *error)
{
    IUnknown **holder = ss_lua_push_holder(L);
    ILanguageExceptionErrorInfo2 *info = query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *next = NULL;
    lua_Integer count = 0;
    int list;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &next);
    release(info);
    *holder = (IUnknown *)next;
    lua_newtable(L);
    list = lua_gettop(L);
    while (*holder) {
        lua_newtable(L);
        push_stack(L, *holder);
        set_node_language(L, list + 1);
        lua_setfield(L, list + 1, "stack");
        lua_rawseti(L, list, ++count);
        info = (ILanguageExceptionErrorInfo2 *)*holder;
        next = NULL;
        (void)info->lpVtbl->GetPreviousLanguageExceptionErrorInfo(info, &next);
        *holder = (IUnknown *)next;
        release(info);
    }
    for (lua_Integer i = 1; i < count; i++, count--) { /* newest first becomes oldest first */
        lua_rawgeti(L, list, i);
        lua_rawgeti(L, list, count);
        lua_rawseti(L, list, i);
        lua_rawseti(L, list, count);
    }
    lua_remove(L, list - 1);
}

/* ---- Fields and methods ----------------------------------------------------------------------*/

static int collect_text(const char *text, size_t length, void *data)
{
    collected *out = data;

    if (length > out->capacity - out->length) {
        size_t capacity = (out->capacity + length) * 2;
        char *grown = realloc(out->text, capacity);

        if (!grown)
            return 1;
        out->text = grown;
        out->capacity = capacity;
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
    return 0;
}

/* The report, collected in C memory: Lua must not raise through the formatter. */
static int format(lua_State *L, stacksplice_format_kind kind)
{
    IUnknown *error = check_error(L);
    stacksplice_format_options options = {.size = sizeof options};
    collected out = {NULL, 0, 0};

    options.all_frames = lua_toboolean(L, 2);
    if (stacksplice_format(error, kind, &options, collect_text, &out) != S_OK) {
        free(out.text);
        return luaL_error(L, "not enough memory for the report");
    }
    push_and_free(L, &out);
    return 1;
}

static int error_text(lua_State *L)
{
    return format(L, STACKSPLICE_FORMAT_TEXT);
}

static int error_json(lua_State *L)
{
    return format(L, STACKSPLICE_FORMAT_JSON);
}

static int error_tostring(lua_State *L)
{
    char type_name[128];
    IUnknown *error = check_error(L);
    const char *language = language_of(error, type_name, sizeof type_name);

    push_error_message(L, error);
    if (*type_name && strcmp(language, "lua") != 0) {
        lua_pushfstring(L, lua_rawlen(L, -1) ? "%s: " : "%s", type_name);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return 1;
}

static int error_equal(lua_State *L)
{
    IUnknown *a = ss_lua_to_error(L, 1), *b = ss_lua_to_error(L, 2);

    lua_pushboolean(L, a && a == b);
    return 1;
}

static int get_hresult(lua_State *L, IUnknown *error)
{
    lua_pushinteger(L, (lua_Integer)(uint32_t)ss_lua_error_hresult(error));
    return 1;
}

static int get_message(lua_State *L, IUnknown *error)
{
    push_error_message(L, error);
    return 1;
}

static int get_value(lua_State *L, IUnknown *error)
{
    (void)error;
    lua_getiuservalue(L, 1, 1);
    return 1;
}

static int get_stack(lua_State *L, IUnknown *error)
{
    push_stack(L, error);
    return 1;
}

static int get_propagation(lua_State *L, IUnknown *error)
{
    push_propagation(L, error);
    return 1;
}

static int get_language(lua_State *L, IUnknown *error)
{
    char type_name[128];

    lua_pushstring(L, language_of(error, type_name, sizeof type_name));
    return 1;
}

/* The type as its language prints it: "ValueError", "table"; nil when there is none. */
static int get_type(lua_State *L, IUnknown *error)
{
    char type_name[128];

    (void)language_of(error, type_name, sizeof type_name);
    if (*type_name)
        lua_pushstring(L, type_name);
    else
        lua_pushnil(L);
    return 1;
}

static const struct {
    const char *name;
    int (*get)(lua_State *L, IUnknown *error);
} fields[] = {
    {"hresult", get_hresult}, {"message", get_message},         {"value", get_value},
    {"stack", get_stack},     {"propagation", get_propagation}, {"language", get_language},
    {"type_name", get_type},
};

static const luaL_Reg methods[] = {{"json", error_json}, {"text", error_text}, {NULL, NULL}};

static int error_index(lua_State *L)
{
    IUnknown *error = check_error(L);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(key, fields[i].name) == 0)
            return fields[i].get(L, error);
    for (const luaL_Reg *method = methods; method->name; method++)
        if (strcmp(key, method->name) == 0) {
            lua_pushcfunction(L, method->func);
            return 1;
        }
    lua_pushnil(L);
    return 1;
}

/* ---- Making ----------------------------------------------------------------------------------*/

static const luaL_Reg metamethods[] = {
    {"__gc", collect_error},
    {"__index", error_index},
    {"__eq", error_equal},
    {"__tostring", error_tostring},
    {NULL, NULL},
};

/* The pointer that all interfaces of ERROR have in common: the key of its object. */
static void *identity_of(IUnknown *error)
{
    IUnknown *identity = query(error, &IID_IUnknown);

    release(identity); /* the caller's reference is enough */
    return identity;
}

/* Fill the new object at the top: by its value if that is one of this state. */
static void hold(lua_State *L, ss_lua_state *state, error_object *object, IUnknown *error)
{
    IUnknown *exception = ss_lua_error_exception(error);
    ss_lua_exception *x = ss_lua_exception_from(exception, state);

    if (x && ss_lua_push_value(L, x)) {
        object->inside = query(error, &stacksplice_IID_IScriptErrorInfo);
        lua_setiuservalue(L, -2, 1);
    }
    if (object->inside) {
        object->inside->lpVtbl->AddInside(object->inside);
        object->inside->lpVtbl->Release(object->inside);
    } else {
        error->lpVtbl->AddRef(error);
        object->outside = error;
    }
    release(exception);
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
    object = lua_newuserdatauv(L, sizeof *object, 1);
    *object = (error_object){NULL, NULL};
    ss_lua_push_metatable(L, SS_LUA_ERROR_NAME, metamethods);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, identity);
    lua_remove(L, -2);
    hold(L, state, object, error);
    count_for_collector(L, state, error);
}

void ss_lua_pin_error_object(lua_State *L, ss_lua_state *state, int index)
{
    error_object *object = luaL_testudata(L, index, SS_LUA_ERROR_NAME);
    IUnknown *exception;
    ss_lua_exception *x;

    if (!object || !object->inside)
        return;
    index = lua_absindex(L, index);
    exception = ss_lua_error_exception((IUnknown *)object->inside);
    x = ss_lua_exception_from(exception, state);
    lua_getiuservalue(L, index, 1);
    /* The error holds its exception for life, so this reference need not be kept while pinning
       raises.  An exception without a pin has no outside reference but the one just taken. */
    release(exception);
    if (x)
        ss_lua_pin(L, x, -1);
    lua_pop(L, 1);
}
