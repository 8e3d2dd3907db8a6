/*
 * Learns the few words of a CallInfo and of a closure that let us walk in linear time, and find
 * names and tokens without asking Lua.  Every word that we read is inside a block of known size: an
 * object of the private state, or the Lua stack between two known values.
 */
#include "calibrate/sample.h"

enum { WORD = sizeof(uintptr_t), CALL_INFO_WORDS = 6, CLOSURE_WORDS = 5, DEPTH = 12 };

/* The value in a stack slot is two words: the value and its tag. */
enum { STACK_VALUE = 2 * WORD };

/* Agreement over all visits: the first answer is kept, and a different one makes it unknown for
   good. */
static void agree(ss_lua_sample *sample, uint16_t *known, uint16_t found)
{
    if (*known == 0)
        *known =
            (uint16_t)(found + 1); /* stored plus one until the sample ends: 0 is a real offset */
    else if (*known != found + 1)
        sample->contradicted = true;
}

static bool links(const uintptr_t *ci, int count, uint16_t offset)
{
    for (int i = 0; i + 1 < count; i++)
        if (ss_lua_word(ci[i] + offset) != ci[i + 1])
            return false;
    /* The outermost level links to the base level, which links to nothing. */
    return ss_lua_word(ci[count - 1] + offset) != 0 &&
           ss_lua_word(ss_lua_word(ci[count - 1] + offset) + offset) == 0;
}

/* Whether the words grow inward by whole stack values, and by no more than one activation can
   take. */
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

void ss_lua_sample_call_info(ss_lua_sample *sample, lua_State *L, int arguments)
{
    ss_lua_layout *layout = sample->layout;
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
        sample->contradicted = true;
        return;
    }
    agree(sample, &layout->previous, (uint16_t)previous);
    agree(sample, &layout->function, (uint16_t)function);
    agree(sample, &layout->top, (uint16_t)top);
    layout->light_tag = *(const uint8_t *)(ss_lua_word(ci[0] + (uintptr_t)function) + WORD);
    layout->lua_tag = *(const uint8_t *)(ss_lua_word(ci[1] + (uintptr_t)function) + WORD);
}

/*
 * The caller called us through a C closure with one upvalue.  Its activation's value is tagged as a
 * closure, and the closure holds the function in one of its first words.
 */
void ss_lua_sample_closure(ss_lua_sample *sample, lua_State *L, lua_CFunction function)
{
    ss_lua_layout *layout = sample->layout;
    uintptr_t ci[DEPTH], functions[DEPTH];
    int found = -1;

    if (layout->function == 0 || sample->contradicted || levels_of(L, ci, functions) < 1)
        return;
    for (uint16_t o = WORD; o < CLOSURE_WORDS * WORD; o = (uint16_t)(o + WORD))
        if (ss_lua_word(functions[0] + o) == (uintptr_t)function)
            found = found == -1 ? o : -2;
    if (found < 0) {
        sample->contradicted = true;
        return;
    }
    agree(sample, &layout->closure_function, (uint16_t)found);
    layout->closure_tag =
        *(const uint8_t *)(ss_lua_word(ci[0] + (uintptr_t)(layout->function - 1)) + WORD);
}

/* ---- The program counter, the flags, the prototype -------------------------------------------*/

/* The words of the CallInfo of LEVEL, or 0 if they cannot be read. */
static uint32_t call_info_words(lua_State *L, int level, lua_Debug *activation,
                                const uintptr_t **words)
{
    uint32_t count;

    if (!lua_getstack(L, level, activation))
        return 0;
    *words = (const uintptr_t *)activation->i_ci;
    count = ss_lua_sample_object_words((uintptr_t)*words);
    return count < SS_LUA_CALL_INFO_WORDS ? count : SS_LUA_CALL_INFO_WORDS;
}

void ss_lua_sample_saved_pc(ss_lua_sample *sample, lua_State *L, int turn)
{
    ss_lua_words *known = &sample->words;
    lua_Debug activation;
    const uintptr_t *words;
    uint32_t count = call_info_words(L, 1, &activation, &words), steady = 0;

    for (uint32_t i = 0; i < count; i++) {
        uintptr_t step = words[i] - known->first[i];

        /* Equal statements are a few instructions of four bytes each. */
        if (step == known->step[i] && step > 0 && step <= 64 && step % 4 == 0)
            steady |= 1u << i;
        known->first[i] = words[i];
        known->step[i] = step;
    }
    if (turn < 3)
        return;
    known->pc = known->pc_seen ? known->pc & steady : steady;
    known->pc_seen = true;
}

void ss_lua_sample_status(ss_lua_sample *sample, lua_State *L)
{
    ss_lua_words *known = &sample->words;
    lua_Debug activation;
    const uintptr_t *words;

    for (int level = 0;; level++) {
        uint32_t count = call_info_words(L, level, &activation, &words);

        if (count == 0)
            return;
        if (known->count == 0)
            for (known->count = count; count > 0; count--)
                known->tail[count - 1] = UINT64_MAX;
        if (lua_getinfo(L, "t", &activation) && activation.istailcall)
            known->tail_seen = true;
        for (uint32_t i = 0; i < known->count; i++)
            known->tail[i] &= activation.istailcall ? words[i] : ~(uint64_t)words[i];
    }
}

/* The only bit of a mask, or -1. */
static int only_bit(uint64_t bits)
{
    return bits && !(bits & (bits - 1)) ? __builtin_ctzll(bits) : -1;
}

void ss_lua_sample_settle_words(ss_lua_sample *sample)
{
    const ss_lua_words *known = &sample->words;
    ss_lua_layout *layout = sample->layout;
    int pc = only_bit(known->pc), found = -1;

    for (uint32_t i = 0; i < known->count; i++) {
        int bit = only_bit(known->tail[i]);

        if (known->tail[i])
            found = found == -1 && bit >= 0 ? (int)i * 64 + bit : -2;
    }
    layout->saved_pc = pc < 0 ? SS_LUA_UNKNOWN : (uint16_t)(pc * WORD);
    layout->status = (uint16_t)(found < 0 || !known->tail_seen ? SS_LUA_UNKNOWN : found / 32 * 4);
    layout->tail = found < 0 ? 0 : UINT32_C(1) << found % 32;
}
