/*
 * Tokens of activations are found by addresses of code that a collection may have given to other
 * code since: what a capture says is compared with what lua_getinfo says at the same moment.
 */
#include "frames/tokens.h"
#include "lua_state.h"
#include "oracle.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <stacksplice/source.h>

enum { ADDRESSES = 65536, ROUNDS = 5000 };

static unsigned long reused;
static unsigned char seen[ADDRESSES]; /* addresses of closures, by a few of their bits */

static int compare(lua_State *L)
{
    oracle_check(L);
    AFTER();
    return 0;
}

/* Counts how often a function has the address of one that was there before. */
static int look(lua_State *L)
{
    uintptr_t address = (uintptr_t)lua_topointer(L, 1);
    unsigned char *mark = &seen[(address >> 4) % ADDRESSES];

    reused += *mark != 0;
    *mark = 1;
    return 0;
}

/*
 * Code of one shape and different text: names, lines and the name of the file change.  A function
 * that C calls has no name but the one that package.loaded has, in some rounds.  "steady" lives on,
 * and has its name from code that does not.
 */
static const char script[] =
    "local names = {'alpha', 'beta', 'gamma', 'delta', 'omega'}\n"
    "local pcall, load = pcall, loadstring or load\n"
    "local function steady() compare() return 1 end\n"
    "return function(round)\n"
    "  local name = names[round % 5 + 1]\n"
    "  local text = ('\\n'):rep(round % 7) .. 'local function ' .. name .. '() compare() return 1 "
    "'\n"
    "    .. 'end return function() local x = ' .. name .. '() return x end'\n"
    "  local f = load(text, '=made' .. round % 3)()\n"
    "  look(f)\n"
    "  package.loaded.made = round % 4 == 0 and {f = f} or nil\n"
    "  for i = 1, 2 do pcall(f) end\n"
    "  f()\n"
    "  load('local ' .. name .. ' = ... return function() local x = ' .. name .. '() return x "
    "end', "
    "'=calls')(steady)()\n"
    "end";

static void run_rounds(lua_State *L)
{
    oracle_begin("made again");
    reused = 0;
    memset(seen, 0, sizeof seen);
    for (int round = 0; round < ROUNDS; round++) {
        lua_pushvalue(L, 1);
        lua_pushinteger(L, round);
        if (stacksplice_lua_pcall(L, 1, 0) != S_OK)
            fail_msg("round %d failed", round);
    }
    assert_int_equal(oracle.failures, 0);
    assert_true(oracle.lua > 3 * ROUNDS);
    assert_true(reused > ROUNDS / 4); /* else nothing was tested */
}

/*
 * Freed memory is used again at once, also where a checker of memory would keep it back: lists of
 * free blocks by their size.
 */
enum { STEP = 16, SMALL = 2048 };
static void *free_blocks[SMALL / STEP + 1];

static size_t class_of(size_t size)
{
    return (size + STEP - 1) / STEP;
}

static void *take_block(size_t size)
{
    void **list = &free_blocks[class_of(size)], *block = *list;

    if (!block)
        return malloc(class_of(size) * STEP);
    memcpy(list, block, sizeof *list);
    return block;
}

static void give_block(void *block, size_t size)
{
    if (size > SMALL) {
        free(block);
    } else if (block) {
        memcpy(block, &free_blocks[class_of(size)], sizeof(void *));
        free_blocks[class_of(size)] = block;
    }
}

static void *recycle(void *data, void *block, size_t old_size, size_t new_size)
{
    void *moved;

    if (new_size == 0) {
        give_block(block, old_size);
        return NULL;
    }
    moved = new_size > SMALL ? malloc(new_size) : take_block(new_size);
    if (moved && block) {
        memcpy(moved, block, old_size < new_size ? old_size : new_size);
        give_block(block, old_size);
    }
    return moved;
}

static int open_recycling(void **state)
{
    lua_State *L = fill_state(NEW_STATE(recycle, NULL));

    oracle_names_may_come_late = true;
    lua_register(L, "compare", compare);
    lua_register(L, "look", look);
    if (luaL_dostring(L, script) != LUA_OK)
        return -1;
    *state = L;
    return 0;
}

#define TOKEN_TEST(name) TEST_WITH(name, open_recycling, close_state)

TOKEN_TEST(test_code_made_again_incremental)
{
    run_rounds(*state);
}

/* Lua 5.3 has no such collector. */
static void make_generational(lua_State *L)
{
#if LUA_VERSION_NUM >= 504
    lua_gc(L, LUA_GCGEN, 0, 0);
#else
#endif
}

TOKEN_TEST(test_code_made_again_generational)
{
    make_generational(*state);
    run_rounds(*state);
}

/* Collections in the middle of everything, also right behind the planting of the GC canary. */
TOKEN_TEST(test_code_made_again_with_a_restless_collector)
{
    lua_State *L = *state;

#if LUA_VERSION_NUM == 504
    lua_gc(L, LUA_GCINC, 100, 400, 1);
#endif
    run_rounds(L);
}

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    unsigned *count = data;

    /* Lua collects everything and tries again; to make a block smaller may not fail. */
    if (new_size > 0 && (!block || new_size > old_size) && ++*count % 37 == 0)
        return NULL;
    return recycle(NULL, block, old_size, new_size);
}

/* An allocator that fails now and then makes emergency collections, which may come while the
   GC canary is made. */
TOKEN_TEST(test_code_made_again_in_emergencies)
{
#if LUA_VERSION_NUM == 501
    SKIP("Lua 5.1 does not collect when an allocation fails: the script fails");
#endif
    lua_State *L = *state;
    static unsigned count;
    void *data;
    lua_Alloc former = lua_getallocf(L, &data);

    lua_setallocf(L, allocate, &count);
    run_rounds(L);
    make_generational(L);
    run_rounds(L);
    lua_setallocf(L, former, data);
}

/* More places than the core has room for, of no language in particular. */
static void flood_the_core(uint32_t round)
{
    for (uint32_t i = 0; i < 300000; i++) {
        stacksplice_token_info info = {SCRIPT_TOKEN, .language = "made", .line = i,
                                       .column = round + 1};
        uintptr_t token;

        assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    }
}

/* No collection says that anything is out of date. */
TOKEN_TEST(test_what_the_core_dropped_is_asked_anew)
{
    lua_State *L = *state;

    lua_gc(L, LUA_GCSTOP, 0);
    oracle_begin("dropped");
    assert_int_equal(luaL_dostring(L, "local function steady() compare() return 1 end\n"
                                      "return function() local x = steady() return x end"),
                     LUA_OK);
    for (uint32_t round = 0; round < 4; round++) {
        for (int call = 0; call < 3; call++) {
            lua_pushvalue(L, -1);
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
        }
        flood_the_core(round);
    }
    assert_int_equal(oracle.failures, 0);
    assert_int_equal(oracle.lua, 4 * 3 * 2);
}

#if !SS_LUA_JIT
/* Lua 5.2 collects before the first instruction of a function: a finalizer called there stands above all
   its registers.  No word before the code may be read, and here none can be. */
TEST(test_nothing_is_read_before_the_first_instruction)
{
    enum { PAGE = 1 << 16, BYTES = sizeof(uintptr_t), CALL = LUA_VERSION_NUM == 501 ? 40 : 128 };
    uintptr_t slots[8] = {0}, calls[2 * 128 / sizeof(uintptr_t)] = {0};
    uintptr_t function = (uintptr_t)calls, callee = function + CALL;
    uintptr_t *at = calls, *inner = calls + CALL / BYTES;
    char *pages = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ss_lua_activation activation = {.ci = function};

    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    activation.pc = (uintptr_t)pages + PAGE;
    at[SS_LUA_AT_FUNCTION / BYTES] = (uintptr_t)slots;
    at[SS_LUA_AT_REGISTERS / BYTES] = (uintptr_t)slots;
    at[SS_LUA_AT_TOP / BYTES] = (uintptr_t)&slots[4];
    inner[SS_LUA_AT_FUNCTION / BYTES] = (uintptr_t)&slots[4];
#if LUA_VERSION_NUM == 501
    slots[5] = LUA_TFUNCTION; /* else it would be the base level */
#else
    inner[SSI_LUA_CALL_PREVIOUS / BYTES] = function;
#endif
    assert_int_equal(ss_lua_previous(callee), function);
    ss_lua_note_callee(&activation, callee);
    assert_int_equal(activation.callee, 0);
    assert_int_equal(munmap(pages, 2 * PAGE), 0);
}
#endif

/* ---- What a function in C is doing when a signal comes -----------------------------------------*/

static int captures;

static void capture_in_handler(int number)
{
    uintptr_t frames[256];
    uint32_t captured;

    captures += SUCCEEDED(stacksplice_capture(0, 256, frames, &captured, NULL)) && captured > 0;
}

/* A value is there before it is counted: an interrupted function of Lua's API may have put it, or half of
   it, above the top. */
static int be_interrupted(lua_State *L)
{
    unsigned char above[SS_LUA_USED_BYTES], *top;

#if SS_LUA_JIT
    top = (unsigned char *)ss_lua_top_of((uintptr_t)L);
#else
    top =
        (unsigned char *)ss_lua_slot_of(ss_lua_innermost(L)) + (lua_gettop(L) + 1) * SSI_LUA_VALUE;
#endif
    for (size_t i = 0; i < sizeof above; i++)
        above[i] = top[i] = (unsigned char)(0x80 + i);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_memory_equal(top, above, sizeof above);
    memset(top, 0, sizeof above); /* some collectors look there */
    return 0;
}

TOKEN_TEST(test_a_capture_in_a_handler_leaves_the_stack_as_it_was)
{
    struct sigaction action = {.sa_handler = capture_in_handler}, old;
    lua_State *L = *state;
    int before = captures;

    lua_gc(L, LUA_GCSTOP, 0);
    lua_register(L, "be_interrupted", be_interrupted);
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    assert_int_equal(luaL_dostring(L, "local function call() be_interrupted() return 1 end\n"
                                      "return function() for i = 1, 3 do local x = call() end end"),
                     LUA_OK);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    assert_int_equal(captures, before + 3);
}
