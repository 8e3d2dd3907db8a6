/*
 * The guards of Lua's part of a plan.  A program captures at one place, in turn before and after a
 * change of which no word of the stack tells.
 */
#include <ucontext.h>

#include "frames.h"
#include "frames/frames.h"
#include "lua_state.h"
#include "verified.h"

enum { MAX_FRAMES = 256, FIBER_SIZE = 1 << 18, ROUNDS = 20, CAPTURES = 4 };

/* ---- A function that a coroutine of this stack runs on another one ----------------------------*/

static ucontext_t inside, outside;
static lua_State *beside;

static int hold(lua_State *L)
{
    (void)L;
    assert_int_equal(swapcontext(&inside, &outside), 0);
    return 0;
}

static void on_fiber(void)
{
    lua_pushcfunction(beside, hold);
    lua_call(beside, 0, 0);
}

/* From now on L runs hold, until end_beside. */
static void begin_beside(lua_State *L)
{
    static char fiber[FIBER_SIZE] __attribute__((aligned(16)));

    beside = L;
    assert_int_equal(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = fiber;
    inside.uc_stack.ss_size = sizeof fiber;
    inside.uc_link = &outside;
    makecontext(&inside, on_fiber, 0);
    assert_int_equal(swapcontext(&outside, &inside), 0);
}

static void end_beside(void)
{
    assert_int_equal(swapcontext(&outside, &inside), 0);
}

/* ---- The programs -----------------------------------------------------------------------------*/

/* The innermost activation of the coroutine at the place, or of the one that resumed it. */
static void change_innermost(lua_State *L, bool changed)
{
    if (changed)
        begin_beside(L);
    else
        end_beside();
}

/* What runs in the capturing coroutine is known, whatever it is. */
static void change_capturing(lua_State *L, bool changed)
{
    ss_lua_state_find(L)->capturing = changed ? NULL : L;
}

static const struct program {
    const char *name, *script;
    void (*change)(lua_State *L, bool changed);
    bool outer;  /* of the main thread, rather than of the coroutine at the place */
    bool beside; /* the coroutine runs hold all the time */
} programs[] = {
    {"innermost", "place()", change_innermost, false, false},
    {"innermost of an outer coroutine", "coroutine.wrap(place)()", change_innermost, true, false},
    {"capturing", "place()", change_capturing, false, true},
};
static const struct program *program;
static lua_State *main_thread;

static NOINLINE void capture(void)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count;

    for (volatile int i = 0; i < CAPTURES; i++)
        if (FAILED(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL)))
            abort();
    AFTER();
}

static int place(lua_State *L)
{
    if (program->beside)
        begin_beside(L);
    for (volatile int i = 0; i < 2 * ROUNDS; i++) {
        if (i > 0 || program->beside)
            program->change(program->outer ? main_thread : L, i % 2);
        capture();
    }
    end_beside();
    return 0;
}

/* Without a collection, after which captures keep no tokens for a while. */
static lua_State *new_state(lua_CFunction function)
{
    lua_State *L = fill_state(luaL_newstate());

    (void)lua_gc(L, LUA_GCSTOP, 0);
    lua_register(L, "place", function);
    return L;
}

static void run_program(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        if (!strcmp(programs[i].name, name))
            program = &programs[i];
    main_thread = new_state(place);
    run_chunk(main_thread, "@script.lua", program->script, 0);
    lua_close(main_thread);
}

TEST(test_guards_tell_of_each_change)
{
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        check_row(i, is_verified(programs[i].name, "1"), true);
        check_row(i, is_verified(programs[i].name, "blind"), false);
    }
}

/* ---- The log of a capture ---------------------------------------------------------------------*/

/* A capture that is asked for a log fills it, also where others without one are repeated.  Marked
   as ours: only such functions hide their frame. */
static SS_LUA_OWN int logging_place(lua_State *L)
{
    uintptr_t frames[MAX_FRAMES];

    for (volatile int i = 0; i < ROUNDS * CAPTURES; i++) {
        ss_lua_activation_log log = {.seen = NULL};
        bool logs = i % CAPTURES == CAPTURES - 1;

        (void)ss_lua_capture(L, SS_LUA_HERE(), MAX_FRAMES, frames, logs ? &log : NULL);
        assert_int_equal(log.state_count, logs);
    }
    return 0;
}

TEST(test_log_is_filled_by_each_capture)
{
    lua_State *L = new_state(logging_place);

    run_chunk(L, "@script.lua", "place()", 0);
    lua_close(L);
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return run_all_tests();
    run_program(argv[1]);
    return 0;
}
