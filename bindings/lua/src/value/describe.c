/* What is kept of an error value: its message, its type, its HRESULT, local variables; and the exception. */
#include "shared/value_text.h"
#include "value/value.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Safe text --------------------------------------------------------------------------------*/

/* Texts of values that run no code of scripts: no metamethod is called, nothing is allocated in
   Lua. */

enum { SLOTS = 4 }; /* of Lua's stack for one table */

static void put_value(lua_State *L, int index, ss_value_text *to);

static void put_number(lua_State *L, int index, ss_value_text *to)
{
    char text[32];

    if (lua_isinteger(L, index)) {
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, index));
        ss_value_put(to, text);
    } else {
        ss_value_lua_float(to, (double)lua_tonumber(L, index));
    }
}

static void put_string(lua_State *L, int index, ss_value_text *to)
{
    size_t length;
    const char *text = lua_tolstring(L, index, &length);

    ss_value_quoted(to, &ss_value_of_lua, text, length, length);
}

/* Write what is in front of the value of the key at INDEX; returns it if it is a string. */
static const char *put_key(lua_State *L, int index, ss_value_text *to)
{
    size_t length = 0;
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;

    if (text && ss_value_is_lua_name(text, length)) {
        ss_value_put(to, text);
    } else {
        ss_value_put(to, "[");
        put_value(L, index, to);
        ss_value_put(to, "]");
    }
    ss_value_put(to, " = ");
    return text;
}

/* Write the key and the value at the top; false: no more are written. */
static bool put_item(lua_State *L, ss_value_text *to, lua_Integer *in_sequence)
{
    int value = lua_gettop(L), key = value - 1;
    const char *name = NULL;

    if (!ss_value_item(to))
        return false;
    if (lua_isinteger(L, key) && lua_tointeger(L, key) == *in_sequence + 1)
        ++*in_sequence;
    else
        name = put_key(L, key, to);
    if (!name || !ss_value_secret(to, name, "\""))
        put_value(L, value, to);
    return ss_value_fits(to);
}

static void put_table(lua_State *L, int index, ss_value_text *to)
{
    int top = lua_gettop(L);
    lua_Integer in_sequence = 0;

    ss_value_begin(to, "{");
    if (lua_checkstack(L, SLOTS)) {
        lua_pushnil(L);
        while (lua_next(L, index) && put_item(L, to, &in_sequence))
            lua_pop(L, 1);
        lua_settop(L, top);
    } else {
        ss_value_leave_out(to);
    }
    ss_value_end(to, "}");
}

static void put_value(lua_State *L, int index, ss_value_text *to)
{
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        ss_value_put(to, "nil");
        break;
    case LUA_TBOOLEAN:
        ss_value_put(to, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        put_number(L, index, to);
        break;
    case LUA_TSTRING:
        put_string(L, index, to);
        break;
    case LUA_TTABLE:
        put_table(L, index, to);
        break;
    default:
        ss_value_put(to, "<");
        ss_value_put(to, lua_typename(L, lua_type(L, index)));
        ss_value_put(to, ">");
    }
}

/* ---- Local variables --------------------------------------------------------------------------*/

/* The local variables of the activations that an error passes, taken while they are alive. */

enum {
    LOCAL_VARIABLES = 20, /* of an activation */
    LOCAL_FRAMES = 32,    /* of a stack: the innermost */
    LOCAL_SEEN = 128      /* activations of a stack: half of them are the innermost */
};

typedef struct kept_locals {
    ss_lua_activation_log log; /* for ss_lua_capture */
    ss_lua_gathered texts;
    uint32_t count;
    stacksplice_kept_local all[LOCAL_FRAMES * (LOCAL_VARIABLES + 1) + 1]; /* with remarks */
    ss_lua_seen seen[LOCAL_SEEN];                                         /* of the log */
} kept_locals;

enum { SLOTS_FOR_LOCALS = 2 };

/* NULL if the errors of STATE have no variables, or without memory. */
static kept_locals *locals_new(const ss_lua_state *state)
{
    bool wanted = state->shows_locals ||
                  atomic_load_explicit(&ss_lua_the_shared->shows_locals, memory_order_relaxed);
    kept_locals *locals = wanted ? malloc(sizeof *locals) : NULL;

    if (!locals)
        return NULL;
    locals->count = 0;
    locals->texts = (ss_lua_gathered){0};
    locals->log = (ss_lua_activation_log){.seen = locals->seen, .capacity = LOCAL_SEEN};
    return locals;
}

static void locals_free(kept_locals *locals)
{
    if (locals)
        ss_lua_gathered_free(&locals->texts);
    free(locals);
}

/* The place of NAME among those of this activation, from BEGIN on: a variable hides an earlier one
   of its name.  NULL: there are too many. */
static stacksplice_kept_local *place_of(kept_locals *locals, uint32_t begin, const char *name)
{
    for (uint32_t i = begin; i < locals->count; i++) {
        if (!strcmp(locals->all[i].local.name, name))
            return &locals->all[i];
    }
    return locals->count - begin < LOCAL_VARIABLES ? &locals->all[locals->count++] : NULL;
}

/* Until the texts have their place, a text is its offset. */
static void put_local(kept_locals *locals, stacksplice_kept_local *place, uint32_t element,
                      const char *name, const char *value, size_t length)
{
    place->element = element;
    place->local.name = name;
    place->local.value = (stacksplice_document_text){(const char *)locals->texts.length, length};
    (void)ss_lua_gather(value, length, &locals->texts);
}

/* False if there are too many. */
static bool add_local(kept_locals *locals, uint32_t begin, uint32_t element, const char *name,
                      lua_State *L)
{
    stacksplice_kept_local *place = place_of(locals, begin, name);
    ss_value_text text;

    if (!place)
        return false;
    ss_value_text_init(&text, false);
    put_value(L, lua_gettop(L), &text);
    put_local(locals, place, element, name, text.bytes, text.length);
    return true;
}

static void add_remark(kept_locals *locals, uint32_t element, const char *remark)
{
    put_local(locals, &locals->all[locals->count++], element, SS_VALUE_REMARK, remark,
              strlen(remark));
}

static int by_name(const void *left, const void *right)
{
    const stacksplice_kept_local *a = left, *b = right;

    return strcmp(a->local.name, b->local.name);
}

/* Lua's own values among them have a name in brackets. */
static void take_frame(kept_locals *locals, uint32_t element, const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};
    uint32_t begin = locals->count;
    bool more = false;
    const char *name;

    if (!lua_checkstack(seen->L, SLOTS_FOR_LOCALS))
        return;
    for (int n = 1; (name = lua_getlocal(seen->L, &activation, n)) != NULL; n++) {
        if (*name != '(')
            more |= !add_local(locals, begin, element, name, seen->L);
        lua_pop(seen->L, 1);
    }
    qsort(locals->all + begin, locals->count - begin, sizeof *locals->all, by_name);
    if (more)
        add_remark(locals, element, SS_VALUE_MORE);
}

/* Whether that activation is a function in Lua, which has variables, or may have. */
static bool is_in_lua(const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};

    return lua_getinfo(seen->L, "S", &activation) && *activation.what != 'C';
}

/* Say so if the stack of PARTS has functions in Lua from AT outward, which are among those the log has from
   BEGIN on. */
static void remark_outward(kept_locals *locals, const stacksplice_exception_parts *parts,
                           uint32_t at, uint32_t begin)
{
    uint32_t end =
        locals->log.count < locals->log.capacity ? locals->log.count : locals->log.capacity;

    for (; at < parts->frame_count; at++)
        for (uint32_t i = begin; i < end; i++)
            if (locals->seen[i].element == parts->frames[at] && is_in_lua(&locals->seen[i])) {
                add_remark(locals, at, SS_VALUE_OUTWARD);
                return;
            }
}

/* Add those of the stack of PARTS, which was captured with the log. [-0, +0, -] */
static void locals_take(kept_locals *locals, stacksplice_exception_parts *parts)
{
    uint32_t seen = 0, at = 0, frames = 0, before;
    uint32_t most = locals->log.capacity / 2;
    uint32_t inner = locals->log.count < most ? locals->log.count : most;

    for (; seen < inner && frames < LOCAL_FRAMES; seen++) {
        const ss_lua_seen *one = ss_lua_seen_at(&locals->log, seen);
        uint32_t found = at;

        while (found < parts->frame_count && parts->frames[found] != one->element)
            found++;
        if (found == parts->frame_count)
            continue;
        before = locals->count;
        take_frame(locals, found, one);
        frames += locals->count > before; /* C functions have no variables */
        at = found + 1;
    }
    remark_outward(locals, parts, at, seen);
    if (locals->texts.failed)
        return; /* an error without them is still an error */
    for (uint32_t i = 0; i < locals->count; i++) {
        stacksplice_document_text *value = &locals->all[i].local.value;

        value->text = locals->texts.text + (size_t)value->text;
    }
    parts->locals = locals->all;
    parts->local_count = locals->count;
}

/* ---- Fields ----------------------------------------------------------------------------------*/

/*
 * The fields of a table that was raised, as the message of its error:
 *     {code = 2, text = "no price"}
 *
 * Everything is read raw and written into C memory: nothing here runs code of the script, raises or
 * allocates in Lua.
 */

enum { MOST_FIELDS = 24 };

/* The fields that have a name, each written as one text that ends with NUL. */
typedef struct named {
    ss_lua_gathered texts;
    size_t starts[MOST_FIELDS];
    int count;
    bool more;
} named;

static void add(ss_lua_gathered *out, const char *text)
{
    (void)ss_lua_gather(text, strlen(text), out);
}

/* The value at INDEX; a table, a function and the like by their type alone: an address would be
   another one in each run. */
static void add_value(lua_State *L, int index, ss_lua_gathered *out)
{
    int type = lua_type(L, index);
    ss_value_text text;

    if (type == LUA_TTABLE) {
        add(out, "{...}");
    } else if (type > LUA_TTABLE || type == LUA_TLIGHTUSERDATA) {
        add(out, lua_typename(L, type));
    } else {
        ss_value_text_init(&text, true);
        put_value(L, lua_absindex(L, index), &text);
        (void)ss_lua_gather(text.bytes, text.length, out);
    }
}

static void add_key(lua_State *L, int index, ss_lua_gathered *out)
{
    size_t length;
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;

    if (text && ss_value_is_lua_name(text, length)) {
        add(out, text);
        return;
    }
    add(out, "[");
    add_value(L, index, out);
    add(out, "]");
}

/* The values 1, 2, 3, ... up to the first nil.  Returns how many were seen. [-0, +0, -], 1 slot */
static lua_Integer add_sequence(lua_State *L, int index, ss_lua_gathered *out)
{
    for (lua_Integer i = 1;; i++) {
        bool there = lua_rawgeti(L, index, i) != LUA_TNIL;

        if (there && i <= MOST_FIELDS) {
            add(out, i > 1 ? ", " : "");
            add_value(L, -1, out);
        }
        lua_pop(L, 1);
        if (!there)
            return i - 1;
        if (i > MOST_FIELDS) {
            add(out, ", ...");
            return INT64_MAX; /* the rest is not shown one by one */
        }
    }
}

/* The other fields; the table has COUNT values in a row. [-0, +0, -], 2 slots */
static void gather_named(lua_State *L, int index, lua_Integer count, named *fields)
{
    lua_pushnil(L);
    while (lua_next(L, index)) {
        bool in_row =
            lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= count;

        if (!in_row && fields->count == MOST_FIELDS) {
            fields->more = true;
            lua_pop(L, 2);
            return;
        }
        if (!in_row) {
            fields->starts[fields->count++] = fields->texts.length;
            add_key(L, -2, &fields->texts);
            add(&fields->texts, " = ");
            add_value(L, -1, &fields->texts);
            (void)ss_lua_gather("", 1, &fields->texts);
        }
        lua_pop(L, 1);
    }
}

/* The order of a table's fields is another one in each run; that of a message is not. */
static void sort(named *fields)
{
    for (int i = 1; i < fields->count; i++) {
        size_t start = fields->starts[i];
        int to = i;

        for (; to > 0 &&
               strcmp(fields->texts.text + fields->starts[to - 1], fields->texts.text + start) > 0;
             to--)
            fields->starts[to] = fields->starts[to - 1];
        fields->starts[to] = start;
    }
}

/* Push the fields of the table at INDEX: its values 1, 2, ... first, then the others in the order
   of their names.  A nested table is shown as {...}.  Without fields, say what it is. [-0, +1, m],
   3 slots */
static void push_fields(lua_State *L, int index)
{
    ss_lua_gathered out = {0};
    named fields = {.count = 0};

    index = lua_absindex(L, index);
    add(&out, "{");
    gather_named(L, index, add_sequence(L, index, &out), &fields);
    if (fields.texts.failed)
        out.failed = true;
    else
        sort(&fields);
    for (int i = 0; i < fields.count && !out.failed; i++) {
        add(&out, out.length > 1 ? ", " : "");
        add(&out, fields.texts.text + fields.starts[i]);
    }
    free(fields.texts.text);
    if (out.length == 1) {
        out.length = 0;
        add(&out, "(error object is a table value)"); /* the words of the standalone Lua */
    } else {
        add(&out, fields.more ? ", ...}" : "}");
    }
    ss_lua_push_gathered(L, &out);
}

/* ---- Describe --------------------------------------------------------------------------------*/

enum { NEAR_FRAMES = 512 };

/* Whether asking the value for its text may run script code; strings have a metatable, but are
   their own text. [-0, +0, -], 1 slot */
static bool has_metatable(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TSTRING || !lua_getmetatable(L, index))
        return false;
    lua_pop(L, 1);
    return true;
}

/*
 * Call the function below NARGS values, which runs a metamethod, for its result.  Where that is a function
 * of ours, we may come back here, and LuaJIT counts no calls of C: the stack of C would end first.
 * [-(nargs + 1), +1, m]
 */
static int call_metamethod(lua_State *L, int nargs)
{
    enum { MOST_METAMETHODS = 20 };
    ss_lua_state *state = ss_lua_state_find(L);
    int status;

    if (state->metamethods == MOST_METAMETHODS) {
        lua_pop(L, nargs + 1);
        lua_pushliteral(L, "C stack overflow");
        return LUA_ERRRUN;
    }
    state->metamethods++;
    status = lua_pcall(L, nargs, 1, 0);
    state->metamethods--;
    return status;
}

static int tostring_protected(lua_State *L)
{
    (void)luaL_tolstring(L, 1, NULL);
    return 1;
}

/* Push the message of a value that has no text. [-0, +1, m] */
static void push_shape(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TTABLE)
        push_fields(L, index);
    else
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, index));
}

/* Push the message of a value without a text of its own and return true.  Its address, which
   tostring gives, would be another one in each run. [-0, +(0|1), m], 4 slots */
static bool push_textless(lua_State *L, int index)
{
    int type = lua_type(L, index);

    if (type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER)
        return false;
    if (luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
        lua_pop(L, 1);
        return false;
    }
    push_shape(L, index);
    return true;
}

/* Replace what __tostring raised, at the top, by the message of the value at INDEX, with the reason.
   [-1, +1, m] */
static void push_unprintable(lua_State *L, int index)
{
    const char *reason = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;

    push_shape(L, index);
    if (reason)
        lua_pushfstring(L, "%s (its __tostring failed: %s)", lua_tostring(L, -1), reason);
    else
        lua_pushfstring(L, "%s (its __tostring failed with a %s value)", lua_tostring(L, -1),
                        luaL_typename(L, -2));
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* Push the message; the value's own __tostring may fail, if it is SCRIPTED. [-0, +1, m] */
static void push_message(lua_State *L, int index, bool scripted)
{
    if (lua_type(L, index) == LUA_TSTRING) {
        lua_pushvalue(L, index);
        return;
    }
    if (ss_lua_is_guest(L, index)) {
        lua_pushliteral(L, "(error object of another language)");
        return;
    }
    if (push_textless(L, index))
        return;
    if (!scripted) {
        (void)luaL_tolstring(L, index, NULL);
        return;
    }
    lua_pushcfunction(L, tostring_protected);
    lua_pushvalue(L, index);
    if (call_metamethod(L, 1) != LUA_OK)
        push_unprintable(L, index); /* luaL_tolstring raises for what is no string */
}

/* Push "table", or the __name of its metatable. [-0, +1, m] */
static const char *push_type_name(lua_State *L, int index)
{
    int type = luaL_getmetafield(L, index, "__name");

    if (type == LUA_TSTRING)
        return lua_tostring(L, -1);
    if (type != LUA_TNIL)
        lua_pop(L, 1);
    lua_pushstring(L, luaL_typename(L, index));
    return lua_tostring(L, -1);
}

static HRESULT status_hresult(int status)
{
    switch (status) {
    case LUA_ERRMEM:
        return E_OUTOFMEMORY;
    case LUA_ERRERR:
        return E_UNEXPECTED;
    case LUA_ERRSYNTAX:
        return (HRESULT)0x80020101; /* SCRIPT_E_REPORTED */
    default:
        return E_FAIL;
    }
}

static int get_field_protected(lua_State *L)
{
    (void)lua_gettable(L, 1);
    return 1;
}

void ss_lua_push_field(lua_State *L, int index, const char *key)
{
    if (lua_type(L, index) == LUA_TTABLE) {
        index = lua_absindex(L, index);
        lua_pushstring(L, key);
        lua_rawget(L, index);
        return;
    }
    if (ss_lua_is_guest(L, index)) {
        lua_pushnil(L);
        return;
    }
    index = lua_absindex(L, index);
    lua_pushcfunction(L, get_field_protected);
    lua_pushvalue(L, index);
    lua_pushstring(L, key);
    if (call_metamethod(L, 2) != LUA_OK) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
}

/* An integer field "hresult" that is a failure, signed or unsigned; else the HRESULT of the
   status. */
static HRESULT value_hresult(lua_State *L, int index, int status)
{
    HRESULT hr = status_hresult(status);
    lua_Integer number;

    if (lua_type(L, index) != LUA_TTABLE && lua_type(L, index) != LUA_TUSERDATA)
        return hr;
    ss_lua_push_field(L, index, "hresult");
    number = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    if (number >= INT32_MIN && number <= UINT32_MAX && (int32_t)(uint32_t)number < 0)
        hr = (HRESULT)(uint32_t)number;
    lua_pop(L, 1);
    return hr;
}

/* ---- Making an exception ---------------------------------------------------------------------*/

/* The parts of the exception for the value at INDEX; pushes their texts.  TYPE is for the name.
   [-0, +2, m] */
static stacksplice_exception_parts push_parts(lua_State *L, int index, bool scripted,
                                              const char **type)
{
    stacksplice_exception_parts parts = {.size = sizeof parts, .types = type, .type_count = 1};

    push_message(L, index, scripted);
    parts.message = lua_tolstring(L, -1, &parts.message_length);
    *type = push_type_name(L, index);
    return parts;
}

/* Capture into FRAMES, which has room for MAX elements, or for three times as many with a DEAD
   coroutine; with room for what was CAUGHT before, or that is NULL. */
static uint32_t take_stack(lua_State *L, const ss_lua_origin *origin, lua_State *dead,
                           const ss_lua_caught *caught, uint32_t max, uintptr_t *frames,
                           ss_lua_activation_log *log)
{
    uint32_t count = 0, before;

    if (caught) {
        memcpy(frames, caught->frames, caught->count * sizeof *frames);
        count = caught->count;
        if (!origin->is_context)
            frames[count++] = ss_lua_gap(SS_LUA_CAUGHT_HERE);
    }
    before = count;
    if (dead && origin->has_lost)
        frames[count++] = ss_lua_gap("functions that C called here may be missing: LuaJIT drops "
                                     "them where a coroutine fails");
    if (dead)
        count += ss_lua_dead_frames(dead, max + 4, frames + count, log);
    if (origin->unwound) {
        frames[count] =
            ss_lua_gap(count > before ? STACKSPLICE_GAP_ENDED : STACKSPLICE_GAP_RETURNED);
        count++;
    }
    count +=
        ss_lua_capture(L, origin->above, dead || caught ? max : max - count, frames + count, log);
    return stacksplice_copy_ends(frames, count, max, frames);
}

/* Clears *DATA if FRAME is at its place: then a script raised a text that only looks like one about
   wrong syntax. */
static int find_place(const stacksplice_frame *frame, void *data)
{
    const ss_lua_syntax **syntax = data;
    const char *file = frame->file ? frame->file : "", *end = (*syntax)->file;

    if (!(*syntax)->is_file && *end == '.') { /* dots in place of the beginning */
        end += strspn(end, ".");
        file += strlen(file) > strlen(end) ? strlen(file) - strlen(end) : 0;
    }
    if (frame->line == (uint32_t)(*syntax)->line && !strcmp(file, end))
        *syntax = NULL;
    return !*syntax;
}

/* Put the place of SYNTAX inward of the COUNT elements at FRAMES + 1: no activation has it.  Returns
   whether it belongs there. */
static bool put_syntax(const ss_lua_state *state, const ss_lua_syntax *syntax, const char *line,
                       uintptr_t *frames, uint32_t count)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_TRACEBACK,
                                         .language = "lua",
                                         .interpreter = *state->name ? state->name : NULL,
                                         .file = syntax->file,
                                         .chunk = !syntax->is_file,
                                         .line = (uint32_t)syntax->line,
                                         .calls = *syntax->word ? syntax->word : NULL,
                                         .source = line};

    for (uint32_t i = 1; i <= count && syntax; i++)
        (void)stacksplice_resolve(frames[i], find_place, &syntax);
    return syntax && stacksplice_intern(&info, frames) == S_OK;
}

enum { MOST_LEVELS = 8, MOST_VALUES = 50 }; /* among which a text is looked for */

/* What put_syntax does, with the line or the whole name that a string on the stack of L has: an argument of
   `dofile`, or a variable of who called `load`. */
static SS_LUA_NOINLINE bool find_syntax(lua_State *L, const ss_lua_state *state,
                                        ss_lua_syntax *syntax, const char *line, uintptr_t *frames,
                                        uint32_t count)
{
    char found[SS_LUA_LINE_ROOM];
    int top = lua_gettop(L);
    bool is_found = line || syntax->is_file || !lua_checkstack(L, 1);
    lua_Debug level;

    for (int i = 0; !is_found && i < MOST_LEVELS && lua_getstack(L, i, &level); i++) {
        for (int n = 1; !is_found && n <= MOST_VALUES && lua_getlocal(L, &level, n); n++) {
            size_t length = 0;
            const char *text =
                lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;

            is_found = text && ss_lua_syntax_is_of(syntax, text, length, found);
            lua_settop(L, top);
        }
        if (is_found && !syntax->is_file)
            line = found;
    }
    return put_syntax(state, syntax, line, frames, count);
}

/* Lua owns the texts of PARTS. */
static stacksplice_exception *new_exception(lua_State *L, ss_lua_state *state,
                                            stacksplice_exception_parts *parts,
                                            const ss_lua_origin *origin)
{
    uint32_t limit = stacksplice_max_frames();
    uintptr_t near[NEAR_FRAMES], *far = NULL, *frames;
    kept_locals *locals = locals_new(state);
    ss_lua_syntax syntax;
    bool wrong, placed;
    stacksplice_exception *x;

    if (limit > NEAR_FRAMES || origin->dead || origin->caught)
        far = malloc((3 * (size_t)limit + SS_LUA_CAUGHT_FRAMES + 8) * sizeof *far);
    if (!far && limit > NEAR_FRAMES)
        limit = NEAR_FRAMES;
    frames = far ? far : near;
    wrong = limit > 1 && ss_lua_syntax_of(parts->message, parts->message_length, &syntax);
    parts->frame_count =
        take_stack(L, origin, far ? origin->dead : NULL, far ? origin->caught : NULL, limit - wrong,
                   frames + wrong, locals ? &locals->log : NULL);
    placed = wrong && find_syntax(origin->dead ? origin->dead : L, state, &syntax, origin->line,
                                  frames, parts->frame_count);
    parts->frames = frames + (wrong && !placed);
    parts->frame_count += placed;
    if (locals)
        locals_take(locals, parts);
    x = stacksplice_exception_new(ss_lua_owner(state), parts);
    locals_free(locals);
    free(far);
    if (!x)
        luaL_error(L, "not enough memory");
    return x;
}

/* How long a message is without the last TAIL bytes. */
static size_t without_tail(size_t length, size_t tail)
{
    return tail < length ? length - tail : length;
}

/* The value at INDEX, without identity, is the last one, and has MADE, whose reference moves.
   [-0, +0, m] */
static stacksplice_ties *make_last(lua_State *L, ss_lua_state *state, stacksplice_ties *made,
                                   int index)
{
    ss_lua_set_last(state, made);
    stacksplice_ties_drop(made);
    ss_lua_pin_alone(L, state->last.exception, index);
    return &state->last;
}

stacksplice_ties *ss_lua_ties_make(lua_State *L, ss_lua_state *state, int index,
                                   const ss_lua_origin *origin)
{
    stacksplice_ties *ties = ss_lua_ties_known(L, state, index, origin), made = {NULL, NULL, 0};
    stacksplice_exception_parts parts;
    bool identity = ss_lua_has_identity(L, index), scripted = has_metatable(L, index);
    int top = lua_gettop(L);
    const char *type;

    if (ties)
        return ties;
    index = lua_absindex(L, index);
    parts = push_parts(L, index, scripted, &type);
    if (origin->caught && lua_type(L, index) == LUA_TSTRING)
        parts.message_length = without_tail(parts.message_length, origin->caught->tail);
    parts.hresult = origin->hresult ? origin->hresult : value_hresult(L, index, origin->status);
    /* Its __tostring may have originated its error. */
    ties = scripted && identity ? ss_lua_ties_find(L, index) : NULL;
    if (!ties && identity) {
        ties = ss_lua_tie(L, state, index);
        stacksplice_ties_set_exception(ties, new_exception(L, state, &parts, origin));
    } else if (!ties) {
        made.exception = new_exception(L, state, &parts, origin);
        ties = make_last(L, state, &made, index);
    }
    lua_settop(L, top);
    return ties;
}

uintptr_t *ss_lua_copy_stack(stacksplice_exception *x, uint32_t *count)
{
    ILanguageExceptionStackBackTrace *stack =
        ss_lua_query(stacksplice_exception_unknown(x), &IID_ILanguageExceptionStackBackTrace);
    ULONG most = stacksplice_max_frames(), found = 0;
    uintptr_t *frames = stack ? malloc(most * sizeof *frames) : NULL;

    if (frames && FAILED(stack->lpVtbl->GetStackBackTrace(stack, most, frames, &found)))
        found = 0;
    ss_lua_release(stack);
    *count = (uint32_t)found;
    return frames;
}

/* This allocates nothing in Lua, so that no finalizer runs meanwhile. */
void ss_lua_rename_last(lua_State *L, ss_lua_state *state, const stacksplice_ties *ties, int index,
                        size_t tail)
{
    stacksplice_exception *x = ties->exception;
    IScriptException *script =
        ss_lua_query(stacksplice_exception_unknown(x), &stacksplice_IID_IScriptException);
    const char *type = script ? script->lpVtbl->GetTypeName(script, 0) : NULL;
    stacksplice_exception_parts parts = {
        .size = sizeof parts, .types = &type, .type_count = !!type};
    stacksplice_ties renamed = {NULL, NULL, 0};
    uintptr_t *frames = ss_lua_copy_stack(x, &parts.frame_count);

    parts.message = lua_tolstring(L, index, &parts.message_length);
    parts.message_length = without_tail(parts.message_length, tail);
    parts.hresult = stacksplice_exception_hresult(x);
    parts.frames = frames;
    parts.locals = stacksplice_exception_locals(x, &parts.local_count);
    renamed.exception = stacksplice_exception_new(ss_lua_owner(state), &parts);
    free(frames);
    ss_lua_release(script);
    if (!renamed.exception)
        luaL_error(L, "not enough memory");
    (void)make_last(L, state, &renamed, index);
}
