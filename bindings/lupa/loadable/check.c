/*
 * Whether a copy of Lua has the structures and constants that we were compiled with.  Its builder
 * may have changed them in luaconf.h, and nothing in the copy says so.
 */
#include "attachment.h"

#include <stdlib.h>
#include <string.h>

enum { FILL = 0x5a };

/* Room behind it, for a Lua whose structure is larger. */
typedef struct described {
    lua_Debug activation;
    unsigned char behind[1024];
} described;

/* What a private state asked for and did not get: no more memory than it needs. */
enum { ENOUGH = 1 << 20 };
static _Thread_local size_t refused;

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    (void)data;
    (void)old_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    if (new_size <= ENOUGH)
        return realloc(block, new_size);
    refused = new_size;
    return NULL;
}

static lua_State *new_state(void)
{
#if SS_LUA_SEEDS_STATES
    return lua_newstate(allocate, NULL, 1);
#elif SS_LUA_JIT
    (void)allocate; /* where its pointers are short it refuses every allocator but its own */
    return luaL_newstate();
#else
    return lua_newstate(allocate, NULL);
#endif
}

static int check_numbers(lua_State *L)
{
    luaL_checkversion(L);
    return 0;
}

/*
 * The greatest number of values on a stack, LUAI_MAXSTACK, decides where the registry is.  Asked
 * for more, newer releases want room for an error message: that number and some 200 values.
 */
static bool has_our_indices(lua_State *L)
{
    size_t values;

    refused = 0;
    if (lua_checkstack(L, 2000000))
        return false;
    values = refused / (2 * sizeof(void *));
    return (!refused || (values > 1000000 && values < 1000400)) &&
           lua_type(L, LUA_REGISTRYINDEX) == LUA_TTABLE;
}

/* A name longer than any Lua shows fills the last member that lua_getinfo writes. */
static bool has_our_activations(lua_State *L)
{
    char name[sizeof(described)];
    const lua_Debug *found;
    described room;

    memset(&room, FILL, sizeof room);
    memset(name, 'x', sizeof name);
    name[0] = '=';
    name[sizeof name - 1] = 0;
    if (luaL_loadbufferx(L, "return 1", 8, name, "t") != LUA_OK)
        return false;
    found = &room.activation;
    if (!lua_getinfo(L, ">S", &room.activation))
        return false;
    for (const unsigned char *each = (const unsigned char *)&found->i_ci;
         each < (const unsigned char *)(&room + 1); each++)
        if (*each != FILL)
            return false;
    return found->short_src[LUA_IDSIZE - 1] == 0 && found->short_src[LUA_IDSIZE - 2] == 'x' &&
           found->linedefined == 0 && strcmp(found->what, "main") == 0;
}

const char *ss_lua_check(void)
{
    lua_State *L = new_state();
    const char *wrong = NULL;

    if (!L)
        return "not enough memory";
    lua_pushcfunction(L, check_numbers);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        wrong = "this Lua has numbers of other types than usual";
    else if (!has_our_indices(L))
        wrong = "this Lua was built with another LUAI_MAXSTACK than usual";
    else if (!has_our_activations(L))
        wrong = "this Lua was built with another LUA_IDSIZE than usual";
    lua_close(L);
    return wrong;
}
