/* The fields, methods and metamethods of an error object. */
#include "value/error_object.h"

#include <stacksplice/read.h>

#include <string.h>

static IUnknown *check_error(lua_State *L)
{
    IUnknown *error = ss_lua_to_error(L, 1);

    luaL_argexpected(L, error, 1, SS_LUA_ERROR_NAME);
    return error;
}

/* ---- Fields and methods ----------------------------------------------------------------------*/

/* The report of the error object at 1; its argument selects whether it has all frames. */
static int error_report(lua_State *L, stacksplice_format_kind kind)
{
    ss_lua_push_report(L, check_error(L), kind, lua_toboolean(L, 2));
    return 1;
}

static int error_text(lua_State *L)
{
    return error_report(L, STACKSPLICE_FORMAT_TEXT);
}

static int error_json(lua_State *L)
{
    return error_report(L, STACKSPLICE_FORMAT_JSON);
}

/* Push the whole name of its type; push nothing and return false when it has none. [-0, +(0|1),
   m] */
static bool push_type_name(lua_State *L, IUnknown *error)
{
    ss_lua_push_member(L, error, STACKSPLICE_READ_DETAILS, "type");
    if (!lua_isnil(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

static int error_tostring(lua_State *L)
{
    IUnknown *error = check_error(L);
    const char *language = "native";

    (void)stacksplice_error_language(error, &language);
    if (strcmp(language, "lua") == 0 || !push_type_name(L, error)) {
        ss_lua_push_member(L, error, STACKSPLICE_READ_DETAILS, "message");
        return 1;
    }
    ss_lua_push_member(L, error, STACKSPLICE_READ_DETAILS, "message");
    if (lua_rawlen(L, -1)) {
        lua_pushliteral(L, ": ");
        lua_insert(L, -2);
        lua_concat(L, 3);
    } else {
        lua_pop(L, 1);
    }
    return 1;
}

/* Concatenate as a message that is a string would. */
static int error_concat(lua_State *L)
{
    (void)luaL_tolstring(L, 1, NULL);
    (void)luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

static int error_equal(lua_State *L)
{
    IUnknown *a = ss_lua_to_error(L, 1), *b = ss_lua_to_error(L, 2);

    lua_pushboolean(L, a && a == b);
    return 1;
}

static int get_value(lua_State *L, IUnknown *error)
{
    (void)error;
    lua_getiuservalue(L, 1, SS_LUA_VALUE);
    return 1;
}

/* Push the error object of what HOLDER below the top has, or nil, and remove the holder. */
static void push_held(lua_State *L, IUnknown **holder)
{
    if (*holder)
        ss_lua_push_error(L, ss_lua_state_open(L), *holder);
    else
        lua_pushnil(L);
    ss_lua_drop_holder(L, -2);
}

/* An error object knows the cause of an error that was born here; other errors hold their causes
   from outside. */
static int get_cause(lua_State *L, IUnknown *error)
{
    IUnknown **holder;

    if (lua_getiuservalue(L, 1, SS_LUA_CAUSE) == LUA_TUSERDATA || ss_lua_is_own_error(L, 1))
        return 1;
    holder = ss_lua_push_holder(L);
    (void)stacksplice_error_cause(error, (IRestrictedErrorInfo **)holder, NULL);
    push_held(L, holder);
    return 1;
}

/* Whether the cause was given, or was only being handled. */
static int get_relation(lua_State *L, IUnknown *error)
{
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    IRestrictedErrorInfo *cause = NULL;

    if (ss_lua_is_own_error(L, 1)) { /* do not hold its cause before its value */
        if (lua_getiuservalue(L, 1, SS_LUA_CAUSE) == LUA_TUSERDATA)
            lua_pushliteral(L, "cause");
        return 1;
    }
    (void)stacksplice_error_cause(error, &cause, &relation);
    ss_lua_release(cause);
    if (relation == STACKSPLICE_RELATION_NONE)
        lua_pushnil(L);
    else
        lua_pushstring(L, relation == STACKSPLICE_RELATION_CONTEXT ? "context" : "cause");
    return 1;
}

/* The members of a group; nil for any other error. */
static int get_errors(lua_State *L, IUnknown *error)
{
    uint32_t count = 0;

    if (stacksplice_error_group(error, &count, NULL) != S_OK) {
        lua_pushnil(L);
        return 1;
    }
    lua_newtable(L);
    for (uint32_t i = 0; i < count; i++) {
        IUnknown **holder = ss_lua_push_holder(L);

        (void)stacksplice_error_member(error, i, (IRestrictedErrorInfo **)holder);
        push_held(L, holder);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int error_add_note(lua_State *L)
{
    IUnknown *error = check_error(L);
    size_t length;
    const char *text = luaL_checklstring(L, 2, &length);

    if (stacksplice_add_note(error, text, length) == E_OUTOFMEMORY)
        return luaL_error(L, "not enough memory");
    lua_settop(L, 1);
    return 1;
}

/* Unsigned, as the walk gives it. */
static int get_hresult(lua_State *L, IUnknown *error)
{
    lua_pushinteger(L, (uint32_t)ss_lua_error_hresult(error));
    return 1;
}

/* The errno for its HRESULT; for a Python OSError that of the exception. */
static int get_errno(lua_State *L, IUnknown *error)
{
    int number = stacksplice_errno_from_hresult(ss_lua_error_hresult(error));

    if (number)
        lua_pushinteger(L, number);
    else
        lua_pushnil(L);
    return 1;
}

static int get_language(lua_State *L, IUnknown *error)
{
    const char *language = "native";

    (void)stacksplice_error_language(error, &language);
    lua_pushstring(L, language);
    return 1;
}

/* Push the names of the error's type and of its base types. */
static int get_type_names(lua_State *L, IUnknown *error)
{
    IUnknown **holder = ss_lua_push_holder(L), *exception = ss_lua_error_exception(error);
    IScriptExceptionType *type = ss_lua_query(exception, &stacksplice_IID_IScriptExceptionType);
    const char *name;
    lua_Integer count = 0;

    *holder = (IUnknown *)type; /* keeps its names alive */
    ss_lua_release(exception);
    lua_newtable(L);
    while (type && (name = type->lpVtbl->GetName(type, (uint32_t)count)) != NULL) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, ++count);
    }
    ss_lua_drop_holder(L, -2);
    if (count == 0 && push_type_name(L, error))
        lua_rawseti(L, -2, 1);
    return 1;
}

/* Whether NAME is one of the names, or the last part of one with a module. */
static int error_isinstance(lua_State *L)
{
    IUnknown *error = check_error(L);
    const char *wanted = luaL_checkstring(L, 2), *name;
    size_t length = strlen(wanted), whole;
    bool found = false;

    (void)get_type_names(L, error);
    for (lua_Integer i = 1; !found && lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
        name = lua_tolstring(L, -1, &whole);
        found = whole >= length && strcmp(name + whole - length, wanted) == 0 &&
                (whole == length || name[whole - length - 1] == '.');
        lua_pop(L, 1);
    }
    lua_pushboolean(L, found);
    return 1;
}

/* Fields read by a function of their own, or by the core's walk. */
static const struct {
    const char *name;
    int (*get)(lua_State *L, IUnknown *error);
    uint32_t part;
    const char *key;
} fields[] = {
    {"cause", get_cause, 0, NULL},
    {"errno", get_errno, 0, NULL},
    {"errors", get_errors, 0, NULL},
    {"fingerprint", NULL, STACKSPLICE_READ_FINGERPRINT, "fingerprint"},
    {"hresult", get_hresult, 0, NULL},
    {"language", get_language, 0, NULL},
    {"loose_fingerprint", NULL, STACKSPLICE_READ_FINGERPRINT, "loose_fingerprint"},
    {"message", NULL, STACKSPLICE_READ_DETAILS, "message"},
    {"notes", NULL, STACKSPLICE_READ_NOTES, "notes"},
    {"propagation", NULL, STACKSPLICE_READ_PROPAGATION, "propagation"},
    {"relation", get_relation, 0, NULL},
    {"stack", NULL, STACKSPLICE_READ_STACK, "stack"},
    {"thread_id", NULL, STACKSPLICE_READ_DETAILS, "thread_id"},
    {"type_name", NULL, STACKSPLICE_READ_DETAILS, "type"},
    {"type_names", get_type_names, 0, NULL},
    {"value", get_value, 0, NULL},
};

/* Push the field INDEX of the table. [-0, +1, e] */
static int push_field(lua_State *L, IUnknown *error, size_t index)
{
    if (fields[index].get)
        return fields[index].get(L, error);
    ss_lua_push_member(L, error, fields[index].part, fields[index].key);
    return 1;
}

static const luaL_Reg methods[] = {
    {"add_note", error_add_note},
    {"isinstance", error_isinstance},
    {"json", error_json},
    {"text", error_text},
    {NULL, NULL},
};

static int error_index(lua_State *L)
{
    IUnknown *error = check_error(L);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(key, fields[i].name) == 0)
            return push_field(L, error, i);
    for (const luaL_Reg *method = methods; method->name; method++)
        if (strcmp(key, method->name) == 0) {
            lua_pushcfunction(L, method->func);
            return 1;
        }
    lua_pushnil(L);
    return 1;
}

static const luaL_Reg metamethods[] = {
    {"__gc", ss_lua_collect_hold},  {"__index", error_index},   {"__eq", error_equal},
    {"__tostring", error_tostring}, {"__concat", error_concat}, {NULL, NULL},
};

void ss_lua_push_error(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    IScriptErrorInfo *info = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);

    ss_lua_release(info); /* the caller's reference is enough */
    ss_lua_push_error_object(L, state, info, metamethods);
}

/* The error of a value as its error object. */
void ss_lua_push_made_error(lua_State *L, ss_lua_state *state, IUnknown **holder,
                            stacksplice_ties *ties)
{
    if (FAILED(stacksplice_make_error(ties, (IScriptErrorInfo **)holder)))
        luaL_error(L, "not enough memory");
    if (*holder)
        ss_lua_push_error(L, state, *holder);
    else
        lua_pushnil(L);
    ss_lua_drop_holder(L, -2);
}
