/*
 * Compares call_info.h with what Lua says of activations.  Every word that we read is inside a block
 * of known size: an object of the private state, or the Lua stack between two known values.
 */
#include "calibrate/sample.h"

enum { MOST_APART = 4096 /* the slots of two activations that follow each other */ };

/* Whether the words of CI may be read, and its slot too: that of INNER, if not 0, is further in. */
static bool is_readable(uintptr_t ci, uintptr_t inner)
{
    uintptr_t apart = inner ? ss_lua_slot_of(inner) - ss_lua_slot_of(ci) : SSI_LUA_VALUE;

    return ss_lua_sample_object_words(ci) * sizeof(uintptr_t) > SS_LUA_AT_STATUS && apart &&
           apart <= MOST_APART && apart % SSI_LUA_VALUE == 0;
}

/* Whether the function of CI, at the top, is where it should be. */
static bool has_function(lua_State *L, uintptr_t ci)
{
    uintptr_t function = (uintptr_t)lua_topointer(L, -1), c = (uintptr_t)lua_tocfunction(L, -1);

    return ss_lua_function_of(ci) == function && ss_lua_c_function_of(ci) == c &&
           ss_lua_is_in_lua(ci) == !c;
}

/* Whether the activation of LEVEL is as expected; INNER becomes its address, 0 at the end. */
static bool is_right(lua_State *L, int level, uintptr_t *inner)
{
    lua_Debug activation;
    uintptr_t ci, before = *inner;
    bool right;

    if (!lua_getstack(L, level, &activation)) {
        *inner = 0;
        return !ss_lua_outer(before);
    }
    ci = *inner = (uintptr_t)activation.i_ci;
    if (!is_readable(ci, before) || (before && ss_lua_outer(before) != ci))
        return false;
    lua_getinfo(L, "ft", &activation);
    right = has_function(L, ci) && ss_lua_is_tail_call(ci) == (activation.istailcall != 0);
    lua_pop(L, 1);
    return right;
}

void ss_lua_sample_call_info(ss_lua_sample *sample, lua_State *L)
{
    uintptr_t size = (uintptr_t)(lua_gettop(L) + 1 + LUA_MINSTACK) * SSI_LUA_VALUE, ci = 0;
    lua_Debug innermost;

    for (int level = 0; !level || ci; level++)
        if (!is_right(L, level, &ci)) {
            sample->contradicted = true;
            return;
        }
    if (lua_getstack(L, 0, &innermost)) {
        ci = (uintptr_t)innermost.i_ci;
        sample->contradicted |= ss_lua_word(ci + SSI_LUA_CALL_TOP) != ss_lua_slot_of(ci) + size;
    }
    sample->compared = true;
}

void ss_lua_sample_pc(ss_lua_sample *sample, lua_State *L, int turn)
{
    uintptr_t before = sample->pc, step = sample->pc_step;
    lua_Debug caller;

    if (!lua_getstack(L, 1, &caller))
        return;
    sample->pc = ss_lua_pc_of((uintptr_t)caller.i_ci);
    sample->pc_step = sample->pc - before;
    if (turn < 3)
        return;
    /* Equal statements are a few instructions of four bytes each. */
    sample->contradicted |= sample->pc_step != step || step == 0 || step > 64 || step % 4;
    sample->pc_compared = true;
}
