/* LuaJIT's calls of C without its API, from its loop and from code that it has compiled, and back. */
#include "frames.h"
#include "lua_state.h"

#include <stdbool.h>
#include <stdio.h>

enum { MAX_FRAMES = 200, TEXTS = 4 };

static struct {
    char text[1000];
    unsigned count;
} seen[TEXTS]; /* the distinct stacks, in the order in which they came */

static int add_frame(const stacksplice_frame *frame, void *data)
{
    char *text = data;
    size_t used = strlen(text);

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(text + used, sizeof seen[0].text - used, "%s:%u%s ", frame->function,
                       frame->line, frame->trust == STACKSPLICE_TRUST_EXACT ? "" : "?");
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(text + used, sizeof seen[0].text - used, "gap:%s ", frame->reason);
    return 0;
}

/* As LuaJIT's FFI calls it. */
static void look(void)
{
    uintptr_t frames[MAX_FRAMES];
    char text[sizeof seen[0].text] = "";
    uint32_t count = 0;
    int i = 0;

    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    for (uint32_t f = 0; f < count; f++)
        (void)stacksplice_resolve(frames[f], add_frame, text);
    while (i < TEXTS - 1 && seen[i].count && strcmp(seen[i].text, text) != 0)
        i++;
    (void)snprintf(seen[i].text, sizeof seen[i].text, "%s", text);
    seen[i].count++;
}

static void call_back(void (*function)(void))
{
    function();
    AFTER();
}

static void run(const char *mode, const char *script)
{
    static const char begin[] = "local ffi = require 'ffi'\n"
                                "local look = ffi.cast('void (*)(void)', address_of_look)\n"
                                "local call_back = ffi.cast('void (*)(void (*)(void))', "
                                "address_of_call_back)\n";
    lua_State *L = fill_state(luaL_newstate());
    char whole[2000];

    memset(seen, 0, sizeof seen);
    lua_pushlightuserdata(L, (void *)(uintptr_t)look);
    lua_setglobal(L, "address_of_look");
    lua_pushlightuserdata(L, (void *)(uintptr_t)call_back);
    lua_setglobal(L, "address_of_call_back");
    (void)snprintf(whole, sizeof whole, "%s%s\n%s", begin, mode, script);
    run_chunk(L, "@jit.lua", whole, 0);
    lua_close(L);
}

static const char looking[] = "local function loop()\nfor i = 1, 200 do look() end\nreturn 1\nend\n"
                              "local function outer()\nloop()\nreturn 1\nend\n"
                              "pcall(outer)\nouter()";

#define CALLER "function <jit.lua:9>:10 pcall:0 main chunk:13 "
#define COMPILED                                         \
    "gap:callers unknown: this code has no unwind data " \
    "gap:JIT-compiled: entered in function <jit.lua:5> "

static void check(int index, unsigned count, const char *text)
{
    assert_string_equal(seen[index].text, text);
    assert_int_equal(seen[index].count, count);
}

TEST(test_calls_by_the_ffi)
{
    run("jit.off()", looking);
    check(0, 200, "loop:6 " CALLER);
    check(1, 200, "loop:6 outer:10 main chunk:14 ");
    check(2, 0, "");
}

/* What is compiled keeps no frames; those of its callers are exact. */
TEST(test_calls_by_the_ffi_in_compiled_code)
{
    run("jit.opt.start('hotloop=2')", looking);
    assert_string_equal(seen[0].text, "loop:6 " CALLER);
    assert_true(seen[0].count < 10);
    check(1, 200 - seen[0].count, COMPILED CALLER);
    check(2, 200, COMPILED "outer:10 main chunk:14 ");
    check(3, 0, "");
}

TEST(test_callbacks)
{
    run("jit.off()", "local back = ffi.cast('void (*)(void)', function()\nlook()\nend)\n"
                     "local function outer()\ncall_back(back)\nreturn 1\nend\n"
                     "coroutine.wrap(function()\nouter()\nend)()");
    check(0, 1, "function <jit.lua:5>:6 outer:9 function <jit.lua:12>:13 ?:0 main chunk:14 ");
}
