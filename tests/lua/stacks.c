/* Native stacks of other kinds: one coroutine on two of them, and one with little room left. */
#include "frames.h"
#include "instruments.h"
#include "lua_state.h"
#include "threads.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { FIBER_SIZE = 1 << 18, MAX_FRAMES = 512, SMALL_STACK = 1 << 20 };

/* What a thread's first capture of all may need of its stack; sanitizers make frames larger. */
#if SANITIZED
enum { ROOM_OF_A_CAPTURE = 1 << 18 };
#else
enum { ROOM_OF_A_CAPTURE = 20 << 10 };
#endif

#define REST "gap:outer frames of this coroutine were called from elsewhere "

typedef struct text {
    char text[4000];
} text;

/* Of gaps only ours: where the walk ends on a fiber is up to the C library. */
static int add_frame(const stacksplice_frame *frame, void *data)
{
    text *out = data;
    size_t used = strlen(out->text);

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(out->text + used, sizeof out->text - used, "%s:%u ", frame->function,
                       frame->line);
    else if (frame->kind == STACKSPLICE_FRAME_GAP && strcmp(frame->language, "lua") == 0)
        (void)snprintf(out->text + used, sizeof out->text - used, "gap:%s ", frame->reason);
    return 0;
}

static uintptr_t frames[MAX_FRAMES];
static uint32_t frame_count;

static int probe(lua_State *L)
{
    assert_true(stacksplice_capture(0, MAX_FRAMES, frames, &frame_count, NULL) >= 0);
    return 0;
}

/* Not where the capture was: names of native frames want more stack. */
static void check(const char *wanted)
{
    text seen = {""};

    for (uint32_t i = 0; i < frame_count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, &seen);
    assert_string_equal(seen.text, wanted);
}

static ucontext_t inside, outside;
static lua_State *on_fiber_state;
static bool resumes;

static void on_fiber(void)
{
    lua_State *L = on_fiber_state;
    int results = 0;

    if (!resumes)
        lua_call(L, 0, 0);
#if LUA_VERSION_NUM >= 504 || defined lua_resume
    else
        assert_int_equal(lua_resume(L, NULL, 0, &results), LUA_OK);
#else
    else
        assert_int_equal(lua_resume(L, NULL, 0), LUA_OK);
#endif
    (void)results;
}

static void run_on_fiber(lua_State *L)
{
    void *memory =
        mmap(NULL, FIBER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = FIBER_SIZE;
    inside.uc_link = &outside;
    on_fiber_state = L;
    makecontext(&inside, on_fiber, 0);
    assert_int_equal(stacksplice_add_stack(memory, (char *)memory + FIBER_SIZE), S_OK);
    assert_int_equal(swapcontext(&outside, &inside), 0);
    assert_int_equal(stacksplice_remove_stack(memory), S_OK);
    assert_int_equal(munmap(memory, FIBER_SIZE), 0);
}

/* Call the argument on a fiber, in the same coroutine. */
static int fiber_call(lua_State *L)
{
    resumes = false;
    lua_settop(L, 1);
    run_on_fiber(L);
    return 0;
}

/* Resume the argument, a coroutine, on a fiber. */
static int fiber_resume(lua_State *L)
{
    resumes = true;
    run_on_fiber(lua_tothread(L, 1));
    return 0;
}

/* Has its own call of Lua on the stack that it is called on. */
static int plain_call(lua_State *L)
{
    lua_settop(L, 1);
    lua_call(L, 0, 0);
    return 0;
}

static lua_State *new_state(void)
{
    lua_State *L = fill_state(luaL_newstate());

    lua_register(L, "probe", probe);
    lua_register(L, "fiber_call", fiber_call);
    lua_register(L, "fiber_resume", fiber_resume);
    lua_register(L, "plain_call", plain_call);
    return L;
}

static void run(const char *script)
{
    lua_State *L = new_state();

    run_chunk(L, "@script.lua", script, 0);
    lua_close(L);
}

/* ---- Little room ------------------------------------------------------------------------------*/

static const char *lowest;
static lua_State *near_state;
static int (*volatile again)(int);

static NOINLINE int descend(int n)
{
    volatile char block[400];

    block[0] = (char)n;
    if ((const char *)__builtin_frame_address(0) >= lowest + ROOM_OF_A_CAPTURE)
        return again(n + 1) + block[0];
    lua_getglobal(near_state, "go");
    lua_call(near_state, 0, 0);
    return block[0];
}

static void *run_near_the_end(void *unused)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;

    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &low, &size), 0);
    (void)pthread_attr_destroy(&attributes);
    lowest = low;
    again = descend;
    (void)again(0);
    return NULL;
}

/* The first capture of all, which learns where this copy of Lua calls functions. */
TEST(test_the_first_capture_near_the_end_of_a_stack)
{
    near_state = new_state();
    assert_int_equal(luaL_dostring(near_state, "function go()\nprobe() return 1\nend"), LUA_OK);
    (void)thread_run_on(NULL, SMALL_STACK, run_near_the_end, NULL);
    check("go:2 ");
    lua_close(near_state);
}

/* ---- One coroutine on two stacks --------------------------------------------------------------*/

TEST(test_a_fiber_shows_what_was_called_on_it)
{
    run("function inner()\nprobe() return 1\nend\n"
        "function middle()\ninner() return 1\nend\n"
        "function outer()\nfiber_call(middle) return 1\nend\nouter()");
    check("inner:2 middle:5 " REST);
}

TEST(test_calls_between_on_the_fiber)
{
    run("function inner()\nprobe() return 1\nend\n"
        "function middle()\nplain_call(inner) return 1\nend\n"
        "function outer()\nfiber_call(middle) return 1\nend\nouter()");
    check("inner:2 middle:5 " REST);
}

/* Nothing but functions in C: the one that was called on the thread's stack is not shown here. */
TEST(test_a_function_in_c_on_the_fiber)
{
    run("function outer()\nfiber_call(probe) return 1\nend\nouter()");
    check(REST);
}

TEST(test_behind_a_fiber_the_whole_stack_again)
{
    run("function inner()\nprobe() return 1\nend\n"
        "function nothing() end\n"
        "function outer()\nfiber_call(nothing)\nplain_call(inner) return 1\nend\nouter()");
    check("inner:2 outer:7 main chunk:9 ");
}

/* What it had called before it yielded lost its frames there and belongs to the fiber now. */
TEST(test_a_coroutine_that_is_resumed_on_a_fiber_is_whole)
{
#if LUA_VERSION_NUM == 501
    SKIP("pcall of Lua 5.1 does not let a coroutine yield");
#endif
    run("local co = coroutine.create(function()\n"
        "pcall(function()\ncoroutine.yield()\nprobe() return 1\nend) return 1\nend)\n"
        "coroutine.resume(co)\n"
        "function outer()\nfiber_resume(co) return 1\nend\nouter()");
    check("function <script.lua:2>:4 pcall:0 function <script.lua:1>:2 ");
}

TEST(test_a_coroutine_that_is_called_on_a_fiber)
{
#if LUA_VERSION_NUM == 501
    SKIP("pcall of Lua 5.1 does not let a coroutine yield");
#endif
    run("local co = coroutine.wrap(function()\n"
        "pcall(function()\ncoroutine.yield()\n"
        "fiber_call(function()\nprobe() return 1\nend) return 1\nend) return 1\nend)\n"
        "co()\nco()");
    check("function <script.lua:4>:5 " REST);
}

/* ---- Walks that lose frames -------------------------------------------------------------------*/

static const char *how;

static void fail_on_fiber(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(luaL_loadbufferx(on_fiber_state, how, strlen(how), "@f.lua", "t"), LUA_OK);
    assert_int_equal(stacksplice_lua_pcall(on_fiber_state, 0, 0), E_FAIL);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    assert_true(
        SUCCEEDED(stacksplice_error_stack((IUnknown *)error, MAX_FRAMES, frames, &frame_count)));
    error->lpVtbl->Release(error);
}

/*
 * The walk ends where it needs the bounds: whether Lua's innermost function is one in C is all one.
 * What Lua's functions are is known all the same.  On 64-bit Arm a frame has its return address at
 * its inner end, so not even our own frames can be walked: our functions that Lua called come first.
 */
#if defined(__aarch64__)
#define UNWALKED(handler) \
    "gap:without native frames, only the running coroutine's frames known ?:0 " handler ":0 "
#else
#define UNWALKED(handler) ""
#endif

TEST(test_a_fiber_that_nobody_registered)
{
    static const struct {
        const char *script, *wanted;
    } rows[] = {
        {"local function inner() error('x') end\nlocal function outer() inner() end\nouter()",
         UNWALKED("stacksplice.handler") "error:0 inner:1 outer:2 main chunk:3 "},
        {"local function inner() string.rep() end\nlocal function outer() inner() end\nouter()",
         UNWALKED("stacksplice.handler") "rep:0 inner:1 outer:2 main chunk:3 "},
        {"local function inner() local x = nil x.y = 1 end\nlocal function outer() inner() end\n"
         "outer()",
         UNWALKED("metamethod 'newindex'") "inner:1 outer:2 main chunk:3 "},
        {"local function inner() local x = nil x.y = 1 end\nlocal function outer()\n"
         "string.gsub('a', 'a', inner) end\nouter()",
         UNWALKED("metamethod 'newindex'") "function <f.lua:1>:1 gsub:0 outer:3 main chunk:4 "},
    };
    void *memory;

#if SS_LUA_JIT
    SKIP("LuaJIT's loop is no sign of Lua where nothing is known to have called it");
#endif
    memory = mmap(NULL, FIBER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        on_fiber_state = new_state();
        how = rows[i].script;
        assert_int_equal(getcontext(&inside), 0);
        inside.uc_stack.ss_sp = memory;
        inside.uc_stack.ss_size = FIBER_SIZE;
        inside.uc_link = &outside;
        makecontext(&inside, fail_on_fiber, 0);
        assert_int_equal(swapcontext(&outside, &inside), 0);
        check(rows[i].wanted);
        lua_close(on_fiber_state);
    }
    assert_int_equal(munmap(memory, FIBER_SIZE), 0);
}

#if defined(__x86_64__)
static lua_State *generated_state;
static void *generated;

static void call_again(void)
{
    lua_pushvalue(generated_state, 1);
    lua_call(generated_state, 0, 0);
    __asm__ volatile(""); /* no tail call */
}

/* Call the argument below code that was made at run time, as other languages' compilers do. */
static int generated_call(lua_State *L)
{
    void (*code)(void (*)(void));

    generated_state = L;
    memcpy(&code, &generated, sizeof code);
    code(call_again);
    __asm__ volatile(""); /* no tail call */
    return 0;
}

static void run_below_code(const char *script)
{
    lua_State *L = new_state();

    lua_register(L, "generated_call", generated_call);
    run_chunk(L, "@script.lua", script, 0);
    lua_close(L);
}

static int find_seam(const stacksplice_frame *frame, void *data)
{
    bool *found = data;

    *found |=
        frame->kind == STACKSPLICE_FRAME_GAP && strstr(frame->reason, "found by frame pointers");
    return 0;
}

/* Whether the walk found its way again outside of that code, as with the frame pointers of a build for
   sanitizers: then C functions have their native frames. */
static bool is_found_again(void)
{
    bool found = false;

    for (uint32_t i = 0; i < frame_count; i++)
        (void)stacksplice_resolve(frames[i], find_seam, &found);
    return found;
}

TEST(test_below_code_without_unwind_data)
{
    static const unsigned char without_frame_pointer[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                                          0x48, 0x83, 0xc4, 0x08, 0xc3};
    static const unsigned char with_another_in_its_place[] = {0x55, 0x31, 0xed, 0xff,
                                                              0xd7, 0x5d, 0xc3};
    static const struct {
        const unsigned char *code;
        size_t size;
    } rows[] = {{without_frame_pointer, sizeof without_frame_pointer},
                {with_another_in_its_place, sizeof with_another_in_its_place}};
    static const char script[] = "function inner() probe() return 1 end\n"
                                 "function job() generated_call(inner) return 1 end\n"
                                 "local function main() plain_call(job) return 1 end\n"
                                 "main()";
    static const char in_coroutine[] = "function inner() probe() return 1 end\n"
                                       "coroutine.wrap(function()\n"
                                       "pcall(generated_call, inner) return 1 end)()";

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        generated = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(generated, MAP_FAILED);
        memcpy(generated, rows[i].code, rows[i].size);
        run_below_code(script);
        check(is_found_again()
                  ? "inner:1 generated_call:0 job:2 main:3 main chunk:4 "
                  : "inner:1 generated_call:0 job:2 plain_call:0 main:3 main chunk:4 ");
        run_below_code(in_coroutine);
        check(is_found_again() ? "inner:1 generated_call:0 function <script.lua:2>:3 main chunk:2 "
                               : "inner:1 generated_call:0 pcall:0 function <script.lua:2>:3 ");
        assert_int_equal(munmap(generated, 4096), 0);
    }
}
#endif
