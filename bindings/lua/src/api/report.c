/*
 * report: a message handler that returns the text for people of an error that nobody handled.
 *
 * Where Lua's own traceback tells all that is known, the text is what the standalone Lua prints.
 * Otherwise it is the combined report.
 */
#include "api/api.h"
#include "cross/cross.h"
#include "traceback/traceback.h"
#include "value/value.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <stacksplice/script.h>

SS_LUA_OWN int ss_lua_traceback(lua_State *L)
{
    return ss_lua_traceback_with(L, ss_lua_raised_at, SS_LUA_HERE());
}

/* What a stack has that Lua's traceback cannot show, read from the inside outward. */
typedef struct story {
    bool native; /* a native function of somebody else was met */
    bool more;   /* frames of other languages, of a dead coroutine, or of C below Lua */
} story;

/* Lua's traceback has the levels that a long stack leaves out, words for tail calls, and no native
   frames that could be missing. */
static bool is_known_gap(const stacksplice_frame *frame)
{
    return stacksplice_frames_left_out(&frame->address, 1) ||
           strcmp(frame->language, "native") == 0 ||
           (frame->reason && strcmp(frame->reason, SS_LUA_TAIL_CALLS) == 0);
}

static int read_frame(const stacksplice_frame *frame, void *data)
{
    story *now = data;

    switch (frame->kind) {
    case STACKSPLICE_FRAME_NATIVE:
        now->native |= frame->function && stacksplice_frame_role(frame) == STACKSPLICE_ROLE_OWN;
        break;
    case STACKSPLICE_FRAME_GAP:
        now->more |= !is_known_gap(frame);
        break;
    default:
        now->more |= now->native || strcmp(frame->language, "lua") != 0 ||
                     frame->trust == STACKSPLICE_TRUST_TRACEBACK;
    }
    return 0;
}

/* Whether ADDRESS is of a binary with nothing but the inside of an interpreter and its library: its
   name would change nothing, and finding it may open debug files of some megabytes. */
static bool is_inside(uintptr_t address)
{
    stacksplice_frame frame = {
        .size = sizeof frame, .kind = STACKSPLICE_FRAME_NATIVE, .language = "native"};
    Dl_info info;

    if (stacksplice_is_token(address) || !dladdr((void *)(address - 1), &info))
        return false;
    frame.module = info.dli_fname;
    return stacksplice_frame_role(&frame) != STACKSPLICE_ROLE_OWN;
}

/* Whether the stack of ERROR has more than Lua's traceback shows; true when it cannot be read. */
static bool has_more_frames(IUnknown *error)
{
    uint32_t max = stacksplice_max_frames(), count = 0;
    uintptr_t *frames = malloc(max * sizeof *frames);
    story now = {.more = !frames};

    if (frames && FAILED(stacksplice_error_stack(error, max, frames, &count)))
        now.more = true;
    while (count && !stacksplice_is_token(frames[count - 1]))
        count--; /* no frame of a script is outside of these */
    for (uint32_t i = 0; i < count && !now.more; i++)
        if (!is_inside(frames[i]))
            (void)stacksplice_resolve(frames[i], read_frame, &now);
    free(frames);
    return now.more;
}

/* Whether the field KEY of the error object at the top has anything in it. [-0, +0, m] */
static bool has_any(lua_State *L, const char *key)
{
    bool any = lua_getfield(L, -1, key) == LUA_TTABLE ? lua_rawlen(L, -1) > 0 : !lua_isnil(L, -1);

    lua_pop(L, 1);
    return any;
}

static bool is_of_lua(IUnknown *error)
{
    const char *language = NULL;

    return stacksplice_error_language(error, &language) == S_OK && strcmp(language, "lua") == 0;
}

/* Whether ERROR keeps local variables. */
static bool has_locals(IUnknown *error)
{
    IUnknown *exception = ss_lua_error_exception(error);
    const stacksplice_exception *x = stacksplice_exception_from(exception, NULL);
    uint32_t count = 0;

    if (x)
        (void)stacksplice_exception_locals(x, &count);
    ss_lua_release(exception);
    return count > 0;
}

/* Whether the error object at the top has more to tell than its message and Lua's traceback. */
static bool has_more(lua_State *L)
{
    IUnknown *error = ss_lua_to_error(L, -1);

    return !is_of_lua(error) || has_locals(error) || has_any(L, "cause") || has_any(L, "errors") ||
           has_any(L, "propagation") || has_any(L, "notes") || has_more_frames(error);
}

/* Whether the value at 1 was an error before: its stack is that of the first raise. */
static bool was_raised_before(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    return ss_lua_to_error(L, 1) || (state && ss_lua_has_identity(L, 1) && ss_lua_ties_find(L, 1));
}

/* A report ends its last line, a message does not. [-1, +1, m] */
static void drop_line_end(lua_State *L)
{
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);

    if (length && text[length - 1] == '\n') {
        lua_pushlstring(L, text, length - 1);
        lua_replace(L, -2);
    }
}

/* Push the message of the value at 1, whose error object or nil is at the top: the words of the
   standalone Lua for what has no text. [-0, +1, m] */
static void push_message(lua_State *L)
{
    if (lua_isnil(L, 1) || lua_type(L, 1) == LUA_TBOOLEAN)
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    else
        (void)luaL_tolstring(L, lua_isnil(L, -1) ? 1 : -1, NULL);
}

/* Arguments: the value, whether it was raised before, whether for a terminal.  Result: the text. */
static SS_LUA_BODY int report_protected(lua_State *L)
{
    enum { LEVEL = 3 }; /* outside of traceback, this function and the handler */
    ss_lua_origin origin = {.which = SS_LUA_IN_FLIGHT, .status = LUA_ERRRUN};

    ss_lua_push_error_of(L, ss_lua_state_open(L), 1, &origin);
    if (ss_lua_to_error(L, -1) && (lua_toboolean(L, 2) || has_more(L))) {
        ss_lua_push_report(L, ss_lua_to_error(L, -1), STACKSPLICE_FORMAT_TEXT, false,
                           lua_toboolean(L, 3));
        drop_line_end(L);
        return 1;
    }
    push_message(L);
    lua_pushcfunction(L, ss_lua_traceback);
    lua_insert(L, -2);
    lua_pushinteger(L, LEVEL);
    lua_call(L, 2, 1);
    return 1;
}

bool ss_lua_report(lua_State *L, const void *above, bool for_terminal)
{
    bool before = was_raised_before(L);

    lua_settop(L, 1);
    ss_lua_note_raise(L, above);
    if (!lua_checkstack(L, LUA_MINSTACK))
        return false;
    lua_pushcfunction(L, report_protected);
    lua_pushvalue(L, 1);
    lua_pushboolean(L, before);
    lua_pushboolean(L, for_terminal);
    if (lua_pcall(L, 3, 1, 0) == LUA_OK)
        return true;
    lua_settop(L, 1);
    return false;
}

SS_LUA_OWN int ss_lua_report_function(lua_State *L)
{
    lua_settop(L, 1);
    (void)ss_lua_report(L, SS_LUA_HERE(), false); /* nobody knows where it goes */
    return 1;
}

/* ---- What reports hide -------------------------------------------------------------------------*/

static void hide(lua_State *L, int argument, const char *name, const char *file)
{
    stacksplice_hresult hr = stacksplice_hide(name, file);

    if (hr == E_OUTOFMEMORY)
        (void)luaL_error(L, "no more can be hidden");
    if (FAILED(hr))
        (void)luaL_argerror(L, argument, "must have 1 to 1023 bytes, and a library no '/'");
}

/* The text that the table at ARGUMENT has as KEY, kept there; or NULL.  [-0, +1, e] */
static const char *text_field(lua_State *L, int argument, const char *key)
{
    lua_getfield(L, argument, key);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
        (void)luaL_error(L, "%s must be a string, not a %s", key, luaL_typename(L, -1));
    return lua_tostring(L, -1);
}

/* A module of one's own, wherever it is: a folder, or a file with any ending. */
static void hide_module(lua_State *L, int argument, const char *module)
{
    enum { LONGEST = 1000 };
    char path[LONGEST + sizeof "//"] = "/";
    size_t length = strlen(module);

    luaL_argcheck(L, length && length <= LONGEST, argument, "module must have 1 to 1000 bytes");
    for (size_t i = 0; i < length; i++)
        path[i + 1] = module[i] == '.' ? '/' : module[i];
    path[length + 1] = '/';
    hide(L, argument, module, path);
    path[length + 1] = '.';
    hide(L, argument, module, path);
}

SS_LUA_OWN int ss_lua_hide_function(lua_State *L)
{
    int count = lua_gettop(L);

    luaL_argcheck(L, count > 0, 1, "a library, or a table with module or file expected");
    for (int i = 1; i <= count; i++) {
        const char *module, *file;

        luaL_checkstack(L, LUA_MINSTACK, NULL);
        if (lua_type(L, i) == LUA_TSTRING) {
            hide(L, i, lua_tostring(L, i), NULL);
            continue;
        }
        luaL_checktype(L, i, LUA_TTABLE);
        module = text_field(L, i, "module");
        file = text_field(L, i, "file");
        luaL_argcheck(L, module || file, i, "module or file expected");
        if (module)
            hide_module(L, i, module);
        if (file)
            hide(L, i, file, file);
    }
    return 0;
}
