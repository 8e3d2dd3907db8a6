#include "oracle.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include <stacksplice/lua.h>

#include "version/compat.h"

enum { MAX_FRAMES = 1024, MAX_CROSSINGS = 64 };

#define LABEL "has no native frame"
#define CALL_MISSED "unrecognized call between Lua and C"
#define TAIL_CALLS "Lua tail calls replaced the frames of the callers"

const char *oracle_scenario;
oracle_counts oracle;
bool oracle_site_is_missed, oracle_names_may_come_late;
oracle_state_name oracle_name_state;

typedef struct crossing {
    lua_State *from;
    int depth; /* of FROM's stack while it is away */
    int base;  /* what TO had before */
} crossing;

static crossing crossings[MAX_CROSSINGS];
static int crossing_count;

static int depth_of(lua_State *L)
{
    lua_Debug activation;
    int low = 0, high = 1;

    while (lua_getstack(L, high, &activation))
        high *= 2;
    while (low < high) {
        int middle = (low + high) / 2;

        if (lua_getstack(L, middle, &activation))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void oracle_enter(lua_State *from, lua_State *to, bool fresh, int extra)
{
    crossings[crossing_count++] =
        (crossing){from, depth_of(from) + extra, fresh ? 0 : depth_of(to)};
}

void oracle_leave(void)
{
    crossing_count--;
}

void oracle_begin(const char *scenario)
{
    memset(&oracle, 0, sizeof oracle);
    oracle_scenario = scenario;
    crossing_count = 0;
}

void oracle_complain(const char *what, const char *expected, const char *got)
{
    oracle.failures++;
    (void)fprintf(stderr, "%s: %s: expected \"%s\", got \"%s\"\n", oracle_scenario, what, expected,
                  got);
}

/* ---- What was captured -----------------------------------------------------------------------*/

typedef struct seen_frame {
    stacksplice_frame_kind kind;
    stacksplice_trust trust;
    char function[128], file[512], interpreter[32], reason[96];
    uint32_t line;
} seen_frame;

/* The captured frames and how far they have been compared. */
typedef struct reader {
    uintptr_t frames[MAX_FRAMES];
    uint32_t count, at;
    seen_frame script; /* the next frame that is none of native code */
    uint32_t script_at;
    bool after_gap; /* what is expected may be missing */
} reader;

static void copy(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from ? from : "");
}

static int read_frame(const stacksplice_frame *frame, void *data)
{
    seen_frame *out = data;

    out->kind = frame->kind;
    out->trust = frame->trust;
    out->line = frame->line;
    copy(out->function, sizeof out->function, frame->function);
    copy(out->file, sizeof out->file, frame->file);
    copy(out->interpreter, sizeof out->interpreter, frame->interpreter);
    copy(out->reason, sizeof out->reason, frame->reason);
    return 1;
}

/* Find the next frame that is not native; false at the end.  Gaps are never expected. */
static bool next_script(reader *r)
{
    for (; r->script_at < r->count; r->script_at++) {
        if (!is_token(r->frames[r->script_at]))
            continue;
        memset(&r->script, 0, sizeof r->script);
        (void)stacksplice_resolve(r->frames[r->script_at], read_frame, &r->script);
        if (r->script.kind == STACKSPLICE_FRAME_SCRIPT)
            return true;
        if (oracle_site_is_missed && strcmp(r->script.reason, CALL_MISSED) == 0) {
            oracle.gaps++;
            r->after_gap = true;
        } else {
            oracle_complain("gap", "none", r->script.reason);
        }
    }
    return false;
}

static void pass_script(reader *r)
{
    r->at = ++r->script_at;
}

/* A gap says that the function just passed was entered by a tail call, and only then. */
static void compare_tail_call(reader *r, bool expected)
{
    seen_frame next = {0};
    bool said;

    if (r->at < r->count && is_token(r->frames[r->at]))
        (void)stacksplice_resolve(r->frames[r->at], read_frame, &next);
    said = next.kind == STACKSPLICE_FRAME_GAP && strcmp(next.reason, TAIL_CALLS) == 0;
    if (said != expected)
        oracle_complain("tail call", expected ? TAIL_CALLS : "none", next.reason);
    if (said) {
        pass_script(r);
        oracle.tails++;
    }
}

/* ---- What Lua says ---------------------------------------------------------------------------*/

#if LUA_VERSION_NUM < 503
/* The name that a loaded module has for the function, as luaL_traceback of Lua 5.3 finds it. */
static bool name_in_modules(lua_State *of, int level, char *name, size_t size)
{
    int top = lua_gettop(of);
    lua_Debug activation;
    bool found = false;

    if (!lua_checkstack(of, 8) || !lua_getstack(of, level, &activation) ||
        !lua_getinfo(of, "f", &activation))
        return false;
    lua_getfield(of, LUA_REGISTRYINDEX, "_LOADED");
    for (lua_pushnil(of); !found && lua_next(of, top + 2); lua_settop(of, top + 3)) {
        if (lua_type(of, top + 3) != LUA_TSTRING || !lua_istable(of, top + 4))
            continue;
        for (lua_pushnil(of); !found && lua_next(of, top + 4); lua_settop(of, top + 5)) {
            const char *module = lua_tostring(of, top + 3);

            found = lua_type(of, top + 5) == LUA_TSTRING && lua_rawequal(of, top + 1, top + 6);
            if (found)
                (void)snprintf(name, size, "%s%s%s", strcmp(module, "_G") ? module : "",
                               strcmp(module, "_G") ? "." : "", lua_tostring(of, top + 5));
        }
    }
    lua_settop(of, top);
    return found;
}

static void name_by_traceback(lua_State *of, int level, char *name, size_t size)
{
    lua_Debug activation;

    if (name_in_modules(of, level, name, size) || !lua_getstack(of, level, &activation))
        return;
    lua_getinfo(of, "S", &activation);
    if (*activation.what == 'L')
        (void)snprintf(name, size, "function <%s:%d>", activation.short_src,
                       activation.linedefined);
    else
        copy(name, size, *activation.what == 'm' ? "main chunk" : "?");
}
#else
/* The function's name as the standard traceback has it where lua_getinfo has none. */
static void name_by_traceback(lua_State *of, int level, char *name, size_t size)
{
    const char *in;

    copy(name, size, "?");
    if (!lua_checkstack(of, 12))
        return;
    luaL_traceback(of, of, NULL, level);
    in = strstr(lua_tostring(of, -1), ": in ");
    copy(name, size, in ? in + 5 : "?");
    name[strcspn(name, "\n")] = '\0';
    if (strncmp(name, "function '", 10) == 0) {
        memmove(name, name + 10, strlen(name + 10) + 1);
        name[strcspn(name, "'")] = '\0';
    }
    lua_pop(of, 1);
}
#endif

/* What has a number in a table, or is a hook, has no name. */
static bool has_name(const lua_Debug *activation)
{
    return *activation->namewhat && activation->name && strcmp(activation->name, "?") &&
           strcmp(activation->name, "integer index");
}

/* Lua 5.5 itself calls a hook "hook '?'", also where a global variable has the function. */
static bool name_of_global(lua_State *of, const lua_Debug *activation, char *name, size_t size)
{
    lua_Debug same = *activation;
    bool found = false;

    if (!lua_checkstack(of, 6) || !lua_getinfo(of, "f", &same))
        return false;
    lua_pushglobaltable(of);
    lua_pushnil(of);
    while (!found && lua_next(of, -2)) {
        found = lua_type(of, -2) == LUA_TSTRING && lua_rawequal(of, -1, -4);
        if (found)
            copy(name, size, lua_tostring(of, -2));
        lua_pop(of, 1);
    }
    lua_pop(of, found ? 3 : 2);
    return found;
}

#if SS_LUA_JIT
/* Whether the value at the top is another function than that at INDEX.  [-1, +0, -] */
static bool is_other(lua_State *of, int index)
{
    bool is = lua_isfunction(of, -1) && !lua_rawequal(of, -1, index);

    lua_pop(of, 1);
    return is;
}

/* A tail call leaves nothing in LuaJIT, which names what runs by the call that began the frame.  Whether
   the variable that this call named has another function. */
static bool is_of_another(lua_State *of, int level, const lua_Debug *activation)
{
    lua_Debug running = *activation, caller;
    int top = lua_gettop(of);
    const char *name;
    bool is = false;

    if (!lua_getstack(of, level + 1, &caller) || !lua_checkstack(of, 8))
        return false;
    lua_getinfo(of, "f", &running);
    lua_getinfo(of, "f", &caller);
    if (!lua_iscfunction(of, top + 2) && !strcmp(activation->namewhat, "local"))
        for (int n = 1; (name = lua_getlocal(of, &caller, n)); n++)
            is = is_other(of, top + 1) ? is || !strcmp(name, activation->name)
                                       : is && strcmp(name, activation->name);
    if (!lua_iscfunction(of, top + 2) && !strcmp(activation->namewhat, "upvalue"))
        for (int n = 1; (name = lua_getupvalue(of, top + 2, n)); n++)
            is |= is_other(of, top + 1) && !strcmp(name, activation->name);
    if (!lua_iscfunction(of, top + 2) && !strcmp(activation->namewhat, "global")) {
        lua_getfenv(of, top + 2);
        lua_pushstring(of, activation->name);
        lua_rawget(of, -2);
        is = is_other(of, top + 1);
    }
    lua_settop(of, top);
    return is;
}
#else
static bool is_of_another(lua_State *of, int level, const lua_Debug *activation)
{
    (void)of;
    (void)level;
    (void)activation;
    return false;
}
#endif

static void name_of(lua_State *of, int level, const lua_Debug *activation, char *name, size_t size)
{
    if (has_name(activation) && !is_of_another(of, level, activation)) {
        (void)snprintf(name, size,
                       strcmp(activation->namewhat, "metamethod") ? "%s" : "metamethod '%s'",
                       activation->name);
        return;
    }
    name_by_traceback(of, level, name, size);
    if (!*activation->namewhat || !strchr(name, '\'') || name_of_global(of, activation, name, size))
        return;
    if (*activation->what == 'C')
        copy(name, size, "?");
    else
        (void)snprintf(name, size, "function <%s:%d>", activation->short_src,
                       activation->linedefined);
}

static uintptr_t c_function_of(lua_State *of, lua_Debug *activation)
{
    uintptr_t function = 0;

    if (lua_checkstack(of, 2) && lua_getinfo(of, "f", activation)) {
        function = (uintptr_t)lua_tocfunction(of, -1);
        lua_pop(of, 1);
    }
    return function;
}

static const char *state_name(lua_State *L)
{
    return oracle_name_state ? oracle_name_state(L) : "";
}

/* ---- Comparing -------------------------------------------------------------------------------*/

/* Names that only loaded modules give are asked of a state that rests, which is at a site. */
static bool is_nameless(const reader *r, const lua_Debug *activation)
{
    return (oracle_site_is_missed || oracle_names_may_come_late) && !has_name(activation) &&
           (int)r->script.line == activation->currentline &&
           strncmp(r->script.function, "function <", 10) == 0;
}

/* LuaJIT's own name stays where a coroutine has no room to look the variable up. */
static bool has_old_name(const reader *r, lua_State *of, int level, const lua_Debug *activation)
{
    return has_name(activation) && (int)r->script.line == activation->currentline &&
           strcmp(r->script.function, activation->name) == 0 &&
           is_of_another(of, level, activation);
}

static void compare_script(reader *r, lua_State *of, int level, const lua_Debug *activation,
                           bool tail_called)
{
    char name[128], expected[800], got[800];
    const char *file = *activation->source == '@' ? activation->source + 1 : activation->short_src;
    int line = activation->currentline > 0 ? activation->currentline : 0;

    name_of(of, level, activation, name, sizeof name);
    (void)snprintf(expected, sizeof expected, "%s:%d %s %s exact", file, line, name,
                   state_name(of));
    if (!next_script(r)) {
        if (!r->after_gap)
            oracle_complain("frame", expected, "end of the stack");
        return;
    }
    if (oracle_site_is_missed && r->script.trust == STACKSPLICE_TRUST_INFERRED) {
        oracle.inferred++;
        r->script.trust = STACKSPLICE_TRUST_EXACT;
    }
    (void)snprintf(got, sizeof got, "%s:%u %s %s %s", r->script.file, r->script.line,
                   r->script.function, r->script.interpreter,
                   r->script.trust == STACKSPLICE_TRUST_EXACT ? "exact" : "not exact");
    if (strcmp(expected, got) == 0 || is_nameless(r, activation) ||
        has_old_name(r, of, level, activation))
        oracle.lua++;
    else if (r->after_gap)
        return; /* the frame found here must be one of those that are expected next */
    else
        oracle_complain("frame", expected, got);
    pass_script(r);
    compare_tail_call(r, tail_called);
}

/* A native frame in front of the next script frame; that of FUNCTION if there is one. */
static bool take_native(reader *r, uintptr_t function)
{
    bool more = next_script(r);
    uint32_t end = more ? r->script_at : r->count;

    for (uint32_t i = r->at; i < end; i++) {
        uintptr_t code = r->frames[i];

        if (!is_token(code) &&
            (uintptr_t)_Unwind_FindEnclosingFunction((void *)(code - 1)) == function) {
            r->at = i + 1;
            oracle.exact++;
            return true;
        }
    }
    if (more && strcmp(r->script.reason, LABEL) == 0)
        return false;
    if (r->at == end)
        return false;
    r->at++;
    oracle.adopted++;
    return true;
}

static bool is_label(const reader *r, lua_State *of, const char *name)
{
    /* Names that nothing at hand gives are asked of a state that rests: at a site. */
    bool named = strcmp(r->script.function, name) == 0 ||
                 ((oracle_site_is_missed || (SS_LUA_JIT && lua_gethook(of))) &&
                  strcmp(r->script.function, "?") == 0);

    return named && strcmp(r->script.reason, LABEL) == 0 && strcmp(r->script.file, "[C]") == 0 &&
           strcmp(r->script.interpreter, state_name(of)) == 0;
}

static void compare_c(reader *r, lua_State *of, int level, lua_Debug *activation)
{
    char name[128];

    name_of(of, level, activation, name, sizeof name);
    if (r->after_gap) {
        if (next_script(r) && is_label(r, of, name))
            pass_script(r);
        return;
    }
    if (take_native(r, c_function_of(of, activation)))
        return;
    if (!next_script(r)) {
        if (!r->after_gap)
            oracle_complain("C function", name, "neither a native frame nor a label");
        return;
    }
    if (!is_label(r, of, name))
        oracle_complain("label", name, r->script.function);
    oracle.labelled++;
    pass_script(r);
}

/* Whether a tail call led to the activation at *LEVEL; in Lua 5.1 levels of their own say so, which
   are passed. */
static bool pass_tail_calls(lua_State *of, int *level, const lua_Debug *activation)
{
#if LUA_VERSION_NUM == 501
    lua_Debug outer;
    int first = *level;

    while (lua_getstack(of, *level + 1, &outer) && lua_getinfo(of, "S", &outer) &&
           *outer.what == 't')
        ++*level;
    return *level > first;
#else
    return activation->istailcall;
#endif
}

/* The activations of one state in one stretch: LEVEL and outward up to, but without, END. */
static void compare_stretch(reader *r, lua_State *of, int level, int end)
{
    lua_Debug activation;

    for (; level < end && lua_getstack(of, level, &activation); level++) {
        int at = level;
        bool tail_called;

        lua_getinfo(of, SS_LUA_ALL_INFO, &activation);
        tail_called = pass_tail_calls(of, &level, &activation);
        if (*activation.what == 'C')
            compare_c(r, of, at, &activation);
        else
            compare_script(r, of, at, &activation, tail_called);
    }
}

void oracle_check(lua_State *L)
{
    static reader r;
    lua_State *of = L;
    int level = 0;

    memset(&r, 0, sizeof r);
    oracle.checks++;
    if (FAILED(stacksplice_capture(0, MAX_FRAMES, r.frames, &r.count, NULL))) {
        oracle_complain("capture", "success", "failure");
        return;
    }
    for (int i = crossing_count; i >= 0; i--) {
        int base = i > 0 ? crossings[i - 1].base : 0;

        compare_stretch(&r, of, level, depth_of(of) - base);
        if (i > 0) {
            of = crossings[i - 1].from;
            level = depth_of(of) - crossings[i - 1].depth;
        }
    }
    if (next_script(&r))
        oracle_complain("frame", "end of the stack", r.script.function);
}
