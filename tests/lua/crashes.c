/* Crashes of hosts of Lua: the report has the Lua frames that were there right before. */
#include "instruments.h"
#include "lua_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int signal_number; /* 0: a fault */
static int output;        /* of the child */

/* ---- In the child ----------------------------------------------------------------------------*/

static int log_frame(const stacksplice_frame *frame, void *data)
{
    char line[200];
    int length = snprintf(line, sizeof line, "logged %s:%u\n", frame->function, frame->line);

    (void)data;
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT && write(output, line, (size_t)length) != length)
        _exit(3);
    return 0;
}

static void log_stack(void)
{
    uintptr_t frames[64];
    uint32_t count;

    (void)stacksplice_capture(0, 64, frames, &count, NULL);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], log_frame, NULL);
}

static void hit(void)
{
    int *volatile nowhere = (int *)8;

    if (signal_number)
        (void)raise(signal_number);
    else
        *nowhere = 1;
}

static void strike(void)
{
    log_stack();
    hit();
}

static int log_now(lua_State *L)
{
    (void)L;
    log_stack();
    return 0;
}

static int crash(lua_State *L)
{
    strike();
    return luaL_error(L, "went on");
}

/* call(f): a host's function between two of Lua. */
static int call(lua_State *L)
{
    lua_call(L, 0, 0);
    return 0;
}

/* The fields of the state itself. */
static int damage(lua_State *L)
{
    log_stack();
    memset((char *)L + 16, 0xA0, 64);
    lua_pushinteger(L, 1);
    return 0;
}

/* An allocator that crashes when it is told to, as one with a damaged heap. */
static bool allocator_fails, next_fails;

static void *allocate(void *data, void *block, size_t old, size_t size)
{
    void *moved = NULL;

    (void)data;
    if (size == 0 && block && allocator_fails)
        strike();
    if (size && next_fails)
        hit();
    if (!block)
        return malloc(size);
    if (size >= old)
        return realloc(block, size);
    if (size && (moved = malloc(size)))
        memcpy(moved, block, size);
    if (size && !moved)
        return block;
    memset(block, 0x55, old); /* what is read after it was freed shows */
    free(block);
    return moved;
}

static int fail_to_free(lua_State *L)
{
    (void)L;
    allocator_fails = true;
    return 0;
}

/* The next allocation crashes: Lua's own loop makes it, in no call of a C function. */
static int fail_to_allocate(lua_State *L)
{
    (void)L;
    log_stack();
    next_fails = true;
    return 0;
}

/* A host's coroutine, which no script has. */
static lua_State *hosted;

static int keep(lua_State *L)
{
    hosted = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, hosted, 1);
    (void)luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static int resume_kept(lua_State *L)
{
    int results;

    (void)stacksplice_lua_resume(hosted, L, 0, &results);
    return 0;
}

static void run(const char *script)
{
    lua_State *L = NEW_STATE(allocate, NULL);

    fill_state(L);
    lua_register(L, "crash", crash);
    lua_register(L, "call", call);
    lua_register(L, "log", log_now);
    lua_register(L, "keep", keep);
    lua_register(L, "resume_kept", resume_kept);
    lua_register(L, "damage", damage);
    lua_register(L, "fail_to_free", fail_to_free);
    lua_register(L, "fail_to_allocate", fail_to_allocate);
    if (luaL_dostring(L, "require 'stacksplice.host'.install {crash = true}") != LUA_OK ||
        luaL_loadbufferx(L, script, strlen(script), "@crashes.lua", "t") != LUA_OK)
        _exit(3);
    lua_call(L, 0, 0); /* unprotected: an error is a panic */
    _exit(4);
}

static void *run_in_thread(void *script)
{
    run(script);
    return NULL;
}

/* ---- In the test -----------------------------------------------------------------------------*/

static char text[200000]; /* all that the child wrote */

static const int signals[] = {0, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};

/* The test program has handlers of its own. */
static void drop_handlers(void)
{
    for (size_t i = 1; i < COUNT_OF(signals); i++)
        (void)signal(signals[i], SIG_DFL);
}

static int run_child(const char *script, bool in_thread)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        pthread_t thread;

        (void)setrlimit(RLIMIT_CORE, &none);
        (void)setenv("STACKSPLICE_REPORT_DIR", "", 1);
        drop_handlers();
        output = ends[1];
        (void)dup2(ends[1], STDERR_FILENO);
        if (!in_thread)
            run(script);
        (void)pthread_create(&thread, NULL, run_in_thread, (void *)(uintptr_t)script);
        (void)pthread_join(thread, NULL);
        _exit(4);
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    (void)close(ends[0]);
    (void)waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

/* Write "FUNCTION:LINE" of each frame of Lua in the report of the crash to LINES. */
static unsigned reported(char *lines, size_t size)
{
    const char *at = strstr(text, "\nStack of thread "), *end;
    unsigned count = 0;

    *lines = 0;
    assert_non_null(at);
    end = strstr(at + 1, "\n\n");
    while ((at = strstr(at, "    (Lua) File \"crashes.lua\", line ")) != NULL && at < end) {
        unsigned line = 0;
        char function[100] = "";
        size_t used = strlen(lines);

        assert_int_equal(
            sscanf(at, "    (Lua) File \"crashes.lua\", line %u, in %99[^\n]", &line, function), 2);
        if (strstr(function, " [inferred]"))
            *strstr(function, " [inferred]") = 0;
        (void)snprintf(lines + used, size - used, "logged %s:%u\n", function, line);
        count++;
        at++;
    }
    return count;
}

/* The report has the frames that were logged, which are at least LEAST. */
static void check_frames(unsigned least)
{
    char lines[2000];
    const char *first = strstr(text, "logged ");

    if (reported(lines, sizeof lines) < least || !first ||
        strncmp(first, lines, strlen(lines)) != 0 || !strncmp(first + strlen(lines), "logged ", 7))
        fail_msg("%s", text);
}

static const struct {
    const char *script;
    unsigned frames;
} places[] = {
    {"local function inner() crash() end\n"
     "local function outer() inner() end\n"
     "outer()",
     3},
    {"local function inner() crash() end\n"
     "local function outer() call(inner) end\n"
     "pcall(outer)",
     3},
    {"local co = coroutine.wrap(function() crash() end)\n"
     "local function outer() co() end\n"
     "outer()",
     3},
    {"local function finalize() crash() end\n"
     "local function outer() setmetatable({}, {__gc = finalize}) collectgarbage() end\n"
     "outer()",
     3},
    {"local function outer()\n"
     "  local t = {}\n"
     "  for i = 1, 1000 do t[i] = {} end\n"
     "  t = nil fail_to_free() collectgarbage()\n"
     "end\n"
     "outer()",
     2},
    {"local function inner() fail_to_allocate() local t = {} return t end\n"
     "local function outer() local t = inner() return t end\n"
     "outer()",
     3},
    {"local function inner() fail_to_allocate() local t = {} return t end\n"
     "local function outer() return (coroutine.wrap(function() inner() end)()) end\n"
     "outer()",
     4},
    {"local function inner() fail_to_allocate() local t = {} return t end\n"
     "local co = coroutine.create(function() call(inner) end)\n"
     "local function outer() coroutine.resume(co) end\n"
     "outer()",
     4},
#if LUA_VERSION_NUM >= 504
    {"local function inner() fail_to_allocate() local t = {} return t end\n"
     "local closing = setmetatable({}, {__close = function() inner() end})\n"
     "local co = coroutine.create(function() local c <close> = closing coroutine.yield() end)\n"
     "local function outer() coroutine.resume(co) coroutine.close(co) end\n"
     "outer()",
     4},
#endif
};

static void check_each(bool in_thread)
{
    if (SANITIZED)
        SKIP("a sanitizer's handlers end the process in their own way");
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        for (size_t j = 0; j < COUNT_OF(places); j++) {
            signal_number = signals[i];
            check_row(i * 10 + j, run_child(places[j].script, in_thread),
                      signal_number ? signal_number : SIGSEGV);
            check_frames(places[j].frames);
        }
    }
}

/* The children need not learn this Lua again, nor read the debug information of its frames. */
static int learn(void **state)
{
    lua_State *L = fill_state(luaL_newstate());

    (void)state;
    output = open("/dev/null", O_WRONLY | O_CLOEXEC);
    lua_register(L, "log", log_now);
    run_chunk(L, "@learn.lua", "log()", 0);
    (void)close(output);
    lua_close(L);
    return 0;
}

GROUP(learn, NULL)

TEST(test_each_signal_at_each_place)
{
    check_each(false);
}

TEST(test_each_signal_in_a_thread)
{
    check_each(true);
}

TEST(test_a_coroutine_that_only_the_host_knows)
{
    const char *gap;

    if (SANITIZED)
        SKIP("a sanitizer's handlers end the process in their own way");
    signal_number = 0;
    assert_int_equal(run_child("keep(function() fail_to_allocate() local t = {} return t end)\n"
                               "local function outer() resume_kept() end\n"
                               "outer()",
                               false),
                     SIGSEGV);
    gap = strstr(text, "[gap: frames of a coroutine missing: not known which one runs here]\n");
    assert_non_null(gap);
    assert_non_null(strstr(gap, "(Lua) File \"crashes.lua\", line 2, in outer\n"));
    assert_null(strstr(gap, "line 1, in"));
}

/* Lua ends the process by abort() if an error has no protected call around it.  Some releases have
   freed its stack by then. */
TEST(test_panic)
{
    if (SANITIZED)
        SKIP("a sanitizer's handlers end the process in their own way");
    assert_int_equal(run_child("local function inner() log() error('over') end\n"
                               "local function outer() call(inner) return 1 end\n"
                               "outer()",
                               false),
                     SIGABRT);
#if LUA_VERSION_NUM >= 504 && LUA_VERSION_RELEASE_NUM >= 50404
    assert_int_equal(reported((char[2000]){""}, 2000), 0);
    assert_non_null(strstr(text, "[gap: Lua had already closed these frames]\n    (C) "));
#else
    check_frames(3);
#endif
    assert_null(strstr(text, "unrecognized call"));
    assert_null(strstr(text, "called from elsewhere"));
    assert_null(strstr(text, "a fault interrupted"));
    assert_non_null(strstr(text, "\nSIGABRT: the process aborted itself\n"));
}

TEST(test_damaged_state)
{
    if (SANITIZED)
        SKIP("a sanitizer's handlers end the process in their own way");
    assert_int_equal(run_child("local function inner() damage() end\ninner()", false), SIGSEGV);
    assert_non_null(strstr(text, "\nSIGSEGV: "));
    assert_non_null(strstr(text, "\nStack of thread "));
}
