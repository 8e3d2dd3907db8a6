/*
 * stacksplice.capture: the stack as a table.  Naming the frames costs far more than capturing them,
 * and most stacks are captured in case somebody asks.  So at first the table has only the elements
 * and a metatable, which looks up all frames at the first use.  From then on it is an ordinary
 * table.  In 5.1 it is one from the start: there neither # nor ipairs asks a table's metamethods.
 */
#include "api/api.h"
#include "value/value.h"

#include <string.h>

enum {
    MOST_FRAMES = 65535,
    MOST_SKIPPED = 1 << 24,
    NEAR_FRAMES = 512,
    IS_READ_LATER = SS_LUA_TABLES_HAVE_LEN
};

/* ---- A stack that nobody has read yet --------------------------------------------------------*/

typedef struct unread {
    uint64_t epoch; /* see stacksplice_settle */
    uintptr_t elements[];
} unread;

/* The key of an unread stack, a userdata. */
static const char elements_key;

/* Push the elements of the table at 1; push nothing and return false when it has none.  Scripts can
   put anything under the key, but not give it the metatable. [-0, +(0|1), -], 3 slots */
static bool push_elements(lua_State *L)
{
    bool ours = false;

    if (lua_rawgetp(L, 1, &elements_key) == LUA_TUSERDATA && lua_getmetatable(L, -1)) {
        if (lua_getmetatable(L, 1)) {
            ours = lua_rawequal(L, -1, -2);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    if (!ours)
        lua_pop(L, 1);
    return ours;
}

/* Move all entries of the table at the top to that at 1. [-1, +0, m] */
static void move_entries(lua_State *L)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 1);
    }
    lua_pop(L, 1);
}

/* Look up the frames of the stack at 1.  It stays as it is when memory runs out. [-0, +0, m] */
static void read_frames(lua_State *L)
{
    unread *stack;
    uint32_t count;

    luaL_checktype(L, 1, LUA_TTABLE);
    if (!push_elements(L))
        return;
    stack = lua_touserdata(L, -1);
    count = (uint32_t)((lua_rawlen(L, -1) - sizeof *stack) / sizeof(uintptr_t));
    stack->epoch = stacksplice_settle(stack->elements, count, stack->epoch);
    ss_lua_push_frames(L, stack->elements, count);
    lua_replace(L, -2);
    if (!push_elements(L)) { /* a finalizer has read them meanwhile */
        lua_pop(L, 1);
        return;
    }
    lua_pop(L, 1);
    move_entries(L);
    lua_pushnil(L);
    lua_rawsetp(L, 1, &elements_key);
    lua_pushnil(L);
    lua_setmetatable(L, 1);
}

/* ---- Its metamethods -------------------------------------------------------------------------*/

/* After read_frames they use raw access: debug.setmetatable can give them any other table. */
static int stack_index(lua_State *L)
{
    lua_settop(L, 2);
    read_frames(L);
    lua_rawget(L, 1);
    return 1;
}

static int stack_newindex(lua_State *L)
{
    lua_settop(L, 3);
    read_frames(L);
    lua_rawset(L, 1);
    return 0;
}

static int stack_length(lua_State *L)
{
    lua_settop(L, 1);
    read_frames(L);
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
    return 1;
}

static int next_entry(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    if (lua_next(L, 1))
        return 2;
    lua_pushnil(L);
    return 1;
}

static int stack_pairs(lua_State *L)
{
    lua_settop(L, 1);
    read_frames(L);
    lua_pushcfunction(L, next_entry);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

#if SS_LUA_HAS_IPAIRS_METHOD
/* Here ipairs asks no __index. */
static int next_frame(lua_State *L)
{
    int next = (int)luaL_checkinteger(L, 2) + 1;

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_pushinteger(L, next);
    return lua_rawgeti(L, 1, next) == LUA_TNIL ? 1 : 2;
}

static int stack_ipairs(lua_State *L)
{
    lua_settop(L, 1);
    read_frames(L);
    lua_pushcfunction(L, next_frame);
    lua_insert(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}
#endif

/* Without a name, so that tostring shows a table; protected, so that nobody exchanges it. */
static void push_metatable(lua_State *L)
{
    static const luaL_Reg metamethods[] = {
        {"__index", stack_index},
        {"__newindex", stack_newindex},
        {"__len", stack_length},
        {"__pairs", stack_pairs},
#if SS_LUA_HAS_IPAIRS_METHOD
        {"__ipairs", stack_ipairs},
#endif
        {NULL, NULL}
    };

    luaL_newlib(L, metamethods);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

/* Push a stack with the metatable at METATABLE. [-0, +1, m] */
static void push_unread(lua_State *L, const uintptr_t *frames, uint32_t count, int metatable)
{
    unread *stack;

    lua_createtable(L, 0, 1);
    stack = lua_newuserdatauv(L, sizeof *stack + count * sizeof *frames, 0);
    stack->epoch = stacksplice_code_epoch();
    memcpy(stack->elements, frames, count * sizeof *frames);
    lua_pushvalue(L, metatable);
    lua_setmetatable(L, -2);
    lua_rawsetp(L, -2, &elements_key);
    lua_pushvalue(L, metatable);
    lua_setmetatable(L, -2);
}

/* ---- Functions of the module -----------------------------------------------------------------*/

/* A count between 0 and MOST. */
static uint32_t check_count(lua_State *L, int arg, lua_Integer fallback, uint32_t most)
{
    lua_Integer count = luaL_optinteger(L, arg, fallback);

    luaL_argcheck(L, count >= 0, arg, "must not be negative");
    return count > (lua_Integer)most ? most : (uint32_t)count;
}

/*
 * Upvalue: the metatable.  The innermost elements that the caller asked for must be there.  Few stacks
 * have more elements than MOST_FRAMES: only those get room for more.
 */
static SS_LUA_OWN int capture(lua_State *L)
{
    uint32_t max = stacksplice_max_frames(), room = max, count;
    uint32_t skip = check_count(L, 1, 0, MOST_SKIPPED), limit = check_count(L, 2, max, MOST_FRAMES);
    uint32_t reach = skip < MOST_FRAMES ? skip : MOST_FRAMES;
    uintptr_t near[NEAR_FRAMES], *frames = near;

    ss_lua_plant_gc_canary(L, ss_lua_state_open(L));
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (skip || !lua_isnoneornil(L, 2))
        room = 2 * (reach + limit) + 2;
    if (room > NEAR_FRAMES)
        frames = lua_newuserdatauv(L, room * sizeof *frames, 0);
    count = ss_lua_capture(L, SS_LUA_HERE(), room, frames, NULL);
    if (reach < skip && count == room) {
        room = 2 * (skip + limit) + 2;
        frames = lua_newuserdatauv(L, room * sizeof *frames, 0);
        count = ss_lua_capture(L, SS_LUA_HERE(), room, frames, NULL);
    }
    skip = skip < count ? skip : count;
    count -= skip;
    if (lua_isnoneornil(L, 2))
        count = stacksplice_copy_ends(frames + skip, count, max, frames + skip);
    count = count < limit ? count : limit;
    if (count && IS_READ_LATER)
        push_unread(L, frames + skip, count, lua_upvalueindex(1));
    else
        ss_lua_push_frames(L, frames + skip, count);
    return 1;
}

void ss_lua_push_capture(lua_State *L)
{
    push_metatable(L);
    lua_pushcclosure(L, capture, 1);
}

int ss_lua_set_max_frames_function(lua_State *L)
{
    lua_Integer max = luaL_checkinteger(L, 1);

    luaL_argcheck(L, max >= 1 && max <= MOST_FRAMES, 1, "must be in 1 to 65535");
    lua_pushinteger(L, stacksplice_max_frames());
    (void)stacksplice_set_max_frames((uint32_t)max);
    return 1;
}
