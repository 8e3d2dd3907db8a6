/* What a capture must not do to Lua, and captures at bad moments. */
#include "frames.h"
#include "libraries.h"
#include "lua_state.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_FRAMES = 512 };

static unsigned long allocations;
static bool capture_on_allocation;
static unsigned captures;

typedef struct text {
    char text[2000];
} text;

static int add_frame(const stacksplice_frame *frame, void *data)
{
    text *out = data;
    size_t used = strlen(out->text);

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(out->text + used, sizeof out->text - used, "%s:%u%s ", frame->function,
                       frame->line, frame->trust == STACKSPLICE_TRUST_INFERRED ? "?" : "");
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(out->text + used, sizeof out->text - used, "gap:%s ", frame->reason);
    return 0;
}

static text captured_text(void)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0;
    text out = {""};

    assert_true(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL) >= 0);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, &out);
    return out;
}

static text last;

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    allocations++;
    if (capture_on_allocation) {
        capture_on_allocation = false;
        last = captured_text();
        captures++;
        capture_on_allocation = captures < 200;
    }
    return realloc(block, new_size);
}

static lua_State *new_state(void)
{
    return fill_state(NEW_STATE(allocate, NULL));
}

static void run(lua_State *L, const char *script)
{
    run_chunk(L, "@captures.lua", script, 0);
}

/* ---- Nothing of Lua changes ------------------------------------------------------------------*/

/* Captures with every number of free slots that a C function can have left. */
static int capture_quietly(lua_State *L)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count;
    int top = lua_gettop(L);

    for (int used = 0; used < LUA_MINSTACK; used++) {
        unsigned long before = allocations;
        int memory = lua_gc(L, LUA_GCCOUNT, 0) * 1024 + lua_gc(L, LUA_GCCOUNTB, 0);

        errno = 77;
        assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
        assert_int_equal(errno, 77);
        assert_int_equal(allocations, before);
        assert_int_equal(lua_gc(L, LUA_GCCOUNT, 0) * 1024 + lua_gc(L, LUA_GCCOUNTB, 0), memory);
        assert_int_equal(lua_gettop(L), top + used);
        lua_pushinteger(L, used);
    }
    return 0;
}

TEST(test_a_capture_allocates_nothing_in_lua)
{
    lua_State *L = new_state();

    lua_register(L, "capture_quietly", capture_quietly);
    run(L, "local function f(...) capture_quietly(...) return 1 end\n"
           "pcall(f) pcall(f, 1, 2, 3)\n"
           "coroutine.wrap(function() f() pcall(f) capture_quietly() end)()\n"
           "setmetatable({}, {__index = capture_quietly}).x = nil\n"
           "local x = setmetatable({}, {__index = capture_quietly}).x");
    lua_close(L);
}

/* ---- Captures inside of Lua ------------------------------------------------------------------*/

static int call(lua_State *L)
{
    lua_call(L, 0, 0);
    AFTER();
    return 0;
}

TEST(test_an_allocator_may_capture)
{
    lua_State *L = new_state();

    lua_register(L, "call", call);
    run(L, "function work()\nlocal t = {} for i = 1, 100 do t[i] = {i} end\nreturn 1 end\n"
           "function outer() call(work) return 1 end");
    lua_getglobal(L, "outer");
    captures = 0;
    capture_on_allocation = true;
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    capture_on_allocation = false;
    assert_true(captures > 100);
    /* Lua's stack is in use, so nothing is looked up in it: functions called by C have no name. */
#if SS_LUA_JIT
    assert_string_equal(last.text, "gap:callers unknown: this code has no unwind data "
                                   "gap:JIT-compiled: entered in function <captures.lua:1> "
                                   "call:0 function <captures.lua:4>:4 ");
#else
    assert_string_equal(last.text, "function <captures.lua:1>:2? function <captures.lua:4>:4 ");
#endif
    lua_close(L);
}

TEST(test_an_allocator_may_capture_anywhere)
{
    lua_State *L = new_state();

    captures = 0;
    capture_on_allocation = true;
    run(L,
        "local co = coroutine.wrap(function() for i = 1, 50 do local x = {i .. 'x'} end end) co()\n"
        "local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end deep(3000)\n"
        "table.sort({3, 1, 2}, function(a, b) local _ = {} return a < b end)\n"
        "string.rep('x', 10000) collectgarbage()\n"
        "pcall(error, setmetatable({}, {__tostring = function() return 'x' .. 1 end}))\n"
        "stacksplice.pcall(error, {}) stacksplice.traceback('x') stacksplice.capture()");
    capture_on_allocation = false;
    assert_int_equal(captures, 200);
    lua_close(L);
}

/* ---- Code that is unloaded -------------------------------------------------------------------*/

#ifdef FIRST_LIBRARY /* not where this file is compiled for other Luas */
static int capture_by_script(void *data)
{
    run_chunk(data, "@unloaded.lua", "saved = stacksplice.capture()", 0);
    return 1;
}

/* The plugin's entry calls what it is given. */
static void *call_plugin(const char *path, lua_State *L)
{
    void *library = open_library(path);
    int (*entry)(int (*f)(void *), void *data);

    (void)find_in(library, "plugin_entry", &entry);
    if (L)
        (void)entry(capture_by_script, L);
    return library;
}

STATE_TEST(test_stack_that_is_read_later_keeps_its_modules)
{
    lua_State *L = *state;
    void *library = call_plugin(FIRST_LIBRARY, L);

    assert_int_equal(dlclose(library), 0);
    library = call_plugin(SECOND_LIBRARY, NULL);
    run_chunk(L, "@unloaded.lua",
              "local modules = {} for i = 1, #saved do modules[i] = saved[i].module or '' end\n"
              "return table.concat(modules, ' ')",
              1);
    assert_non_null(strstr(lua_tostring(L, -1), "unloaded_first"));
    assert_null(strstr(lua_tostring(L, -1), "unloaded_second"));
    assert_int_equal(dlclose(library), 0);
}
#endif
