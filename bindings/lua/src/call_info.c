/*
 * Learning the few words of a CallInfo that make a walk linear and names possible.  Every word read
 * lies inside a block whose size is known: six words of a CallInfo, the Lua stack between two known
 * values, the head of a C closure with one upvalue.
 */
#include "calibrate.h"

#include <lauxlib.h>

enum { WORD = sizeof(uintptr_t), CALL_INFO_WORDS = 6, CLOSURE_WORDS = 5, DEPTH = 12 };

/* The value in a stack slot is two words: the value and its tag. */
enum { STACK_VALUE = 2 * WORD };

/* Agreement over all visits: the first answer stands, another one makes it unknown for ever. */
static void agree(ss_lua_lesson *lesson, uint16_t *known, uint16_t found)
{
    if (*known == 0)
        *known =
            (uint16_t)(found + 1); /* stored one up until the lesson ends: 0 is a real offset */
    else if (*known != found + 1)
        lesson->contradicted = true;
}

static bool links(const uintptr_t *ci, int count, uint16_t offset)
{
    for (int i = 0; i + 1 < count; i++)
        if (ss_lua_word(ci[i] + offset) != ci[i + 1])
            return false;
    /* Behind the outermost level is the base level, behind that nothing. */
    return ss_lua_word(ci[count - 1] + offset) != 0 &&
           ss_lua_word(ss_lua_word(ci[count - 1] + offset) + offset) == 0;
}

/* Words that grow inward by whole stack values and by no more than one activation can take. */
static bool grows_like_a_stack(const uintptr_t *ci, int count, uint16_t offset)
{
    for (int i = 0; i + 1 < count; i++) {
        uintptr_t inner = ss_lua_word(ci[i] + offset), outer = ss_lua_word(ci[i + 1] + offset);

        if (inner <= outer || inner - outer > 4096 || (inner - outer) % STACK_VALUE != 0)
            return false;
    }
    return true;
}

static bool holds_functions(const uintptr_t *ci, const uintptr_t *functions, int count,
                            uint16_t offset)
{
    for (int i = 0; i < count; i++)
        if (ss_lua_word(ss_lua_word(ci[i] + offset)) != functions[i])
            return false;
    return true;
}

static int levels_of(lua_State *L, uintptr_t *ci, uintptr_t *functions)
{
    lua_Debug activation;
    int count = 0;

    while (count < DEPTH && lua_getstack(L, count, &activation)) {
        ci[count] = (uintptr_t)activation.i_ci;
        lua_getinfo(L, "f", &activation);
        functions[count++] = (uintptr_t)lua_topointer(L, -1);
        lua_pop(L, 1);
    }
    return count;
}

void ss_lua_lesson_call_info(ss_lua_lesson *lesson, lua_State *L, int arguments)
{
    ss_lua_layout *layout = lesson->layout;
    uintptr_t ci[DEPTH], functions[DEPTH];
    int previous = -1, function = -1, top = -1;
    int count = levels_of(L, ci, functions);

    if (count < 4 || count == DEPTH)
        return;
    for (uint16_t o = 0; o < CALL_INFO_WORDS * WORD; o = (uint16_t)(o + WORD)) {
        if (links(ci, count, o))
            previous = previous == -1 ? o : -2;
        else if (grows_like_a_stack(ci, count, o) && holds_functions(ci, functions, count, o))
            function = function == -1 ? o : -2;
    }
    for (uint16_t o = 0; function >= 0 && o < CALL_INFO_WORDS * WORD; o = (uint16_t)(o + WORD)) {
        uintptr_t first = ss_lua_word(ci[0] + (uintptr_t)function) + STACK_VALUE;

        if (ss_lua_word(ci[0] + o) == first + (uintptr_t)(arguments + LUA_MINSTACK) * STACK_VALUE)
            top = top == -1 ? o : -2;
    }
    if (previous < 0 || function < 0 || top < 0) {
        lesson->contradicted = true;
        return;
    }
    agree(lesson, &layout->previous, (uint16_t)previous);
    agree(lesson, &layout->function, (uint16_t)function);
    agree(lesson, &layout->top, (uint16_t)top);
    layout->light_tag = *(const uint8_t *)(ss_lua_word(ci[0] + (uintptr_t)function) + WORD);
}

/*
 * Called through a C closure with one upvalue: its activation's value is tagged as a closure, and
 * the closure holds the function in one of its first words.
 */
void ss_lua_lesson_closure(ss_lua_lesson *lesson, lua_State *L, lua_CFunction function)
{
    ss_lua_layout *layout = lesson->layout;
    uintptr_t ci[DEPTH], functions[DEPTH];
    int found = -1;

    if (layout->function == 0 || lesson->contradicted || levels_of(L, ci, functions) < 1)
        return;
    for (uint16_t o = WORD; o < CLOSURE_WORDS * WORD; o = (uint16_t)(o + WORD))
        if (ss_lua_word(functions[0] + o) == (uintptr_t)function)
            found = found == -1 ? o : -2;
    if (found < 0) {
        lesson->contradicted = true;
        return;
    }
    agree(lesson, &layout->closure_function, (uint16_t)found);
    layout->closure_tag =
        *(const uint8_t *)(ss_lua_word(ci[0] + (uintptr_t)(layout->function - 1)) + WORD);
}
