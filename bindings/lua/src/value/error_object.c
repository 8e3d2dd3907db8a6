/*
 * Error objects: how a script sees an error of this library, and how an error that is not Lua's is
 * raised in Lua.
 *
 * Tables from what the core's walk (stacksplice/read.h) delivers, with the names of debug.getinfo
 * where those exist.  Lua must not raise through the core: we record the walk in C memory, and play
 * it back afterwards.
 */
#include "value/value.h"

#include <stacksplice/read.h>
#include <stdlib.h>
#include <string.h>

/* ---- Recording -------------------------------------------------------------------------------*/

typedef enum event_type { BEGIN, END, BOOLEAN, INTEGER, TEXT } event_type;

typedef struct event {
    event_type type;
    const char *key; /* or NULL */
    uint64_t value;  /* a text's length; its bytes follow */
} event;

typedef struct recorder {
    stacksplice_visitor visitor;
    ss_lua_gathered out;
    const char *wanted; /* the member that is read */
    unsigned depth;     /* 1 in the object itself */
} recorder;

/* Add an event, with room for LENGTH bytes after it, which are not added yet; NULL without
   memory. */
static char *add_event(recorder *r, event_type type, const char *key, uint64_t value, size_t length)
{
    const event e = {type, key, value};
    char *room = r->out.failed ? NULL : ss_lua_gather_room(&r->out, sizeof e + length);

    if (!room)
        return NULL;
    memcpy(room, &e, sizeof e);
    r->out.length += sizeof e;
    return room + sizeof e;
}

/* Whether this is a value of the object that nobody asked for.  A stack's count follows the stack; few
   parts have arrays and objects that nobody asked for. */
static bool is_other(const recorder *r, const char *key)
{
    return r->depth == 1 && key && strcmp(key, r->wanted) && strcmp(key, "frames_left_out");
}

static int record(stacksplice_visitor *self, event_type type, const char *key, uint64_t value)
{
    recorder *r = (recorder *)self;

    return !is_other(r, key) && !add_event(r, type, key, value, 0);
}

static int record_begin(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    recorder *r = (recorder *)self;

    (void)container;
    return r->depth++ > 0 && !add_event(r, BEGIN, key, 0, 0);
}

static int record_end(stacksplice_visitor *self, stacksplice_container container)
{
    recorder *r = (recorder *)self;

    (void)container;
    return --r->depth > 0 && !add_event(r, END, NULL, 0, 0);
}

/* In Lua that is a field which is not there. */
static int record_null(stacksplice_visitor *self, const char *key)
{
    (void)self;
    (void)key;
    return 0;
}

static int record_boolean(stacksplice_visitor *self, const char *key, int value)
{
    return record(self, BOOLEAN, key, value != 0);
}

static int record_integer(stacksplice_visitor *self, const char *key, int64_t value)
{
    return record(self, INTEGER, key, (uint64_t)value);
}

static int record_hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    (void)digits;
    return record(self, INTEGER, key, value);
}

static int record_utf8(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    recorder *r = (recorder *)self;
    char *room;

    if (is_other(r, key))
        return 0;
    room = add_event(r, TEXT, key, length, length);
    if (!room)
        return 1;
    memcpy(room, text, length);
    r->out.length += length;
    return 0;
}

/* Its UTF-8 length is known only when it has been written. */
static int record_utf16(stacksplice_visitor *self, const char *key, const uint16_t *text,
                        size_t length)
{
    recorder *r = (recorder *)self;
    size_t most = length * 3 + 1;
    uint64_t written;
    char *room;

    if (is_other(r, key))
        return 0;
    room = add_event(r, TEXT, key, 0, most);
    if (!room)
        return 1;
    written = stacksplice_utf8(text, (uint32_t)length, room, most);
    memcpy(room - sizeof(event) + offsetof(event, value), &written, sizeof written);
    r->out.length += written;
    return 0;
}

static recorder begin_recording(const char *wanted)
{
    return (recorder){.visitor = {.size = sizeof(stacksplice_visitor),
                                  .begin = record_begin,
                                  .end = record_end,
                                  .null = record_null,
                                  .boolean = record_boolean,
                                  .integer = record_integer,
                                  .hex = record_hex,
                                  .utf8 = record_utf8,
                                  .utf16 = record_utf16},
                      .wanted = wanted};
}

/* ---- Playing back ----------------------------------------------------------------------------*/

static const char *name_in_lua(const char *key)
{
    static const char *const names[][2] = {
        {"function", "name"},    {"file", "source"},          {"line", "currentline"},
        {"end_line", "endline"}, {"end_column", "endcolumn"}, {"module_offset", "offset"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (*key == *names[i][0] && strcmp(key, names[i][0]) == 0)
            return names[i][1];
    }
    return key;
}

/* Make the value at the top a member of the table at INDEX. [-1, +0, m] */
static void set(lua_State *L, int index, const char *key)
{
    if (key)
        lua_setfield(L, index, name_in_lua(key));
    else
        lua_rawseti(L, index, (lua_Integer)lua_rawlen(L, index) + 1);
}

/* As many as most frames have: a table that grows field by field costs a third more. */
enum { FRAME_FIELDS = 11 };

/* Push a new table, a member of the table at the top.  Without a key it is a frame's or a node's.
   [-0, +1, m] */
static void push_table(lua_State *L, const char *key)
{
    lua_createtable(L, 0, key ? 0 : FRAME_FIELDS);
    lua_pushvalue(L, -1);
    set(L, -3, key);
}

/* Set the flags that a frame lacks to false. */
static void set_flags(lua_State *L)
{
    static const char *const flags[] = {"inlined", "asynchronous", "glue"};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, flags[i]);
    }
}

static void play_text(lua_State *L, const event *e, const char *text)
{
    if (e->key && strcmp(e->key, "kind") == 0) /* a frame begins */
        set_flags(L);
    lua_pushlstring(L, text, e->value);
    set(L, -2, e->key);
}

static void play_integer(lua_State *L, const event *e)
{
    bool of_stack = e->key && strcmp(e->key, "frames_left_out") == 0;

    if (of_stack)
        lua_getfield(L, -1, "stack");
    lua_pushinteger(L, (lua_Integer)e->value);
    set(L, -2, e->key);
    if (of_stack)
        lua_pop(L, 1);
}

/* Play the event into the table at the top. */
static void play(lua_State *L, const event *e, const char *text)
{
    switch (e->type) {
    case BEGIN:
        push_table(L, e->key);
        break;
    case END:
        lua_pop(L, 1);
        break;
    case BOOLEAN:
        lua_pushboolean(L, e->value != 0);
        set(L, -2, e->key);
        break;
    case INTEGER:
        play_integer(L, e);
        break;
    case TEXT:
        play_text(L, e, text);
        break;
    }
}

/* Argument: the record of one object.  Result: its table. */
static int play_back(lua_State *L)
{
    const ss_lua_gathered *out = lua_touserdata(L, 1);
    event e;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    lua_createtable(L, 0, 1);
    for (size_t at = 0; at < out->length; at += e.type == TEXT ? e.value : 0) {
        memcpy(&e, out->text + at, sizeof e);
        at += sizeof e;
        play(L, &e, out->text + at);
    }
    return 1;
}

/* Push what R recorded, nil when there is nothing, and free the record even if something raises.
   [-0, +1, m] */
static void push_recorded(lua_State *L, recorder *r)
{
    int status = LUA_OK;

    if (!r->out.failed) {
        lua_pushcfunction(L, play_back);
        lua_pushlightuserdata(L, &r->out);
        status = lua_pcall(L, 1, 1, 0);
    }
    free(r->out.text);
    if (r->out.failed)
        luaL_error(L, "not enough memory");
    if (status != LUA_OK)
        lua_error(L);
    lua_getfield(L, -1, r->wanted);
    lua_remove(L, -2);
}

/* ---- Stacks and errors -----------------------------------------------------------------------*/

void ss_lua_push_frames(lua_State *L, const uintptr_t *frames, uint32_t count)
{
    recorder r = begin_recording("stack");

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    (void)stacksplice_stack_visit(frames, count, NULL, &r.visitor);
    push_recorded(L, &r);
}

/* Push the member KEY of ERROR, in PART, with the names of stacksplice/read.h; nil when there is
   none. [-0, +1, m] */
static void push_member(lua_State *L, IUnknown *error, uint32_t part, const char *key)
{
    const stacksplice_read_options options = {
        .size = sizeof options, .parts = part, .without_source = 1};
    recorder r = begin_recording(key);

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    (void)stacksplice_error_visit(error, &options, &r.visitor);
    push_recorded(L, &r);
}

/* ---- Fields, methods and metamethods ----------------------------------------------------------*/

/* Whether the error object at INDEX belongs to a value of this state. */
static bool is_own_error(lua_State *L, int index)
{
    ss_lua_hold *const *hold = luaL_testudata(L, index, SS_LUA_ERROR_NAME);

    return hold && *hold && (*hold)->ties.exception;
}

static IUnknown *check_error(lua_State *L)
{
    IUnknown *error = ss_lua_to_error(L, 1);

    luaL_argexpected(L, error, 1, SS_LUA_ERROR_NAME);
    return error;
}

/* The report of the error object at 1; its argument selects whether it has all frames. */
static int error_report(lua_State *L, stacksplice_format_kind kind)
{
    ss_lua_push_report(L, check_error(L), kind, lua_toboolean(L, 2), false);
    return 1;
}

static int error_text(lua_State *L)
{
    return error_report(L, STACKSPLICE_FORMAT_TEXT);
}

static int error_json(lua_State *L)
{
    bool brief = false;

    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "brief");
        brief = lua_toboolean(L, -1);
        lua_settop(L, 1);
    }
    return error_report(L, brief ? STACKSPLICE_FORMAT_BRIEF_JSON : STACKSPLICE_FORMAT_JSON);
}

/* Push the whole name of its type; push nothing and return false when it has none. [-0, +(0|1),
   m] */
static bool push_type_name(lua_State *L, IUnknown *error)
{
    push_member(L, error, STACKSPLICE_READ_DETAILS, "type");
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
        push_member(L, error, STACKSPLICE_READ_DETAILS, "message");
        return 1;
    }
    push_member(L, error, STACKSPLICE_READ_DETAILS, "message");
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

    if (lua_getiuservalue(L, 1, SS_LUA_CAUSE) == LUA_TUSERDATA || is_own_error(L, 1))
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

    if (is_own_error(L, 1)) /* do not hold its cause before its value */
        ss_lua_pin(L, 1, ss_lua_ties_find(L, 1));
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
    IScriptException *script = ss_lua_query(exception, &stacksplice_IID_IScriptException);
    const char *name;
    lua_Integer count = 0;

    *holder = (IUnknown *)script; /* keeps its names alive */
    ss_lua_release(exception);
    lua_newtable(L);
    while (script && (name = script->lpVtbl->GetTypeName(script, (uint32_t)count)) != NULL) {
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
    {"hresult", NULL, STACKSPLICE_READ_DETAILS, "hresult"},
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
    push_member(L, error, fields[index].part, fields[index].key);
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

/* ---- Making ----------------------------------------------------------------------------------*/

/* The values of its causes live as long as an error; strings among them have no other owner. */
static void hold_cause(lua_State *L, ss_lua_state *state, const stacksplice_exception *x)
{
    IScriptErrorInfo *cause = stacksplice_exception_related(x, 0);

    if (!cause)
        return;
    ss_lua_push_error(L, state, (IUnknown *)cause);
    lua_setiuservalue(L, -2, SS_LUA_CAUSE);
}

/*
 * Push a new error object for ERROR, which owns what it holds from then on, even if something
 * raises.  If the error's value belongs to this state, it holds the error inside and the value as
 * its user value: Lua's collector sees every cycle.  It holds any other error outside, which keeps
 * the first originator's object alive. [-0, +1, m]
 */
static void push_new(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error)
{
    static const ss_lua_hold_kind kind = {SS_LUA_ERROR_NAME, metamethods, SS_LUA_VALUE};
    stacksplice_exception *x = stacksplice_own_exception(ss_lua_owner(state), (IUnknown *)error);
    ss_lua_hold *hold = ss_lua_push_hold(L, state, &kind);
    bool own = x && ss_lua_push_value(L, x);

    if (own) {
        lua_setiuservalue(L, -2, SS_LUA_VALUE);
        stacksplice_exception_ref(x);
        stacksplice_ties_set_exception(&hold->ties, x);
    }
    stacksplice_ties_set_error(&hold->ties, error, !own);
    if (own)
        hold_cause(L, state, x);
}

/*
 * Lua's collector sees only the few bytes of the object, so a script that only makes errors would
 * accumulate them between two cycles.  Roughly, an error has a stack, its language exception the
 * same stack, and a propagation node another.
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

/* After a collection captures must ask for the weak references of tokens.  So plant a new GC canary
   at once if we caused the collection. [-0, +0, m] */
static void count_for_collector(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    int running = lua_gc(L, LUA_GCISRUNNING, 0);

    if (!running)
        return;
    if (running > 0) {
        ss_lua_count_kib(L, error_kib(error));
    } else { /* 5.1 cannot tell, and a step would start what a script has stopped: it gets garbage */
        (void)lua_newuserdatauv(L, (size_t)error_kib(error) * 1024, 0);
        lua_pop(L, 1);
    }
    if (!ss_lua_gc_canary_lives(L, state))
        ss_lua_plant_gc_canary(L, state);
}

/* Push the error object for ERROR in the table at INDEX; push nothing and return false when it has
   none. [-0, +(0|1), -] */
static bool push_known(lua_State *L, int index, const IScriptErrorInfo *error)
{
    if (lua_rawgetp(L, index, error) == LUA_TUSERDATA && ss_lua_to_error(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* The object enters the table when it is complete; a finalizer may have entered another by then. */
static void push_error_object(lua_State *L, ss_lua_state *state, IScriptErrorInfo *error)
{
    int errors;

    luaL_checkstack(L, 8, "stacksplice");
    ss_lua_push_table(L, SS_LUA_ERRORS);
    errors = lua_gettop(L);
    if (!push_known(L, errors, error)) {
        push_new(L, state, error);
        if (!push_known(L, errors, error)) {
            lua_pushvalue(L, -1);
            lua_rawsetp(L, errors, error);
            count_for_collector(L, state, (IUnknown *)error);
        }
    }
    lua_replace(L, errors);
    lua_settop(L, errors);
}

void ss_lua_push_error(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    IScriptErrorInfo *info = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);

    ss_lua_release(info); /* the caller's reference is enough */
    push_error_object(L, state, info);
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
