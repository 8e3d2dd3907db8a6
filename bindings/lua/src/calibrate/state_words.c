/*
 * Learns two parts of a lua_State: where the message handler is that Lua calls for the next error,
 * and whether hooks may run.  An interrupt is raised by a hook, and has to get past what Lua runs
 * with its hooks off.
 */
#include "calibrate/sample.h"

enum { WORD = sizeof(uintptr_t), MOST_EXTRA = 4 };

/* The coroutine L as words, of which state_words.count may be read; NULL if that is unknown.  Its
   block begins with the words that a build of Lua gives its host (LUA_EXTRASPACE).  The main thread
   is part of a larger block. */
static const uintptr_t *words_of(ss_lua_sample *sample, lua_State *L)
{
    const uintptr_t *words = (const uintptr_t *)L;
    uint32_t count = 0, extra = 0;
    bool is_main = lua_pushthread(L);

    lua_pop(L, 1);
    while (!is_main && !count && extra < MOST_EXTRA)
        count = ss_lua_sample_object_words((uintptr_t)(words - extra++));
    if (!count)
        return NULL;
    count -= extra - 1;
    sample->state_words.count = count < SS_LUA_STATE_WORDS ? count : SS_LUA_STATE_WORDS;
    return words;
}

/* The handler at INDEX of the caller's stack, as its distance from the base; 0 if it is unknown. */
static uintptr_t distance_of(lua_State *L, int index)
{
    uintptr_t ci, outer, slot;
    lua_Debug activation;

    if (!lua_getstack(L, 1, &activation))
        return 0;
    ci = (uintptr_t)activation.i_ci;
    slot = ss_lua_slot_of(ci) + (uintptr_t)index * SSI_LUA_VALUE;
    while ((outer = ss_lua_previous(ci)))
        ci = outer;
    return slot - ss_lua_slot_of(ci);
}

void ss_lua_sample_handler(ss_lua_sample *sample, lua_State *L, int index)
{
    ss_lua_state_words *known = &sample->state_words;
    const uintptr_t *words = sample->contradicted || !sample->compared ? NULL : words_of(sample, L);
    uintptr_t distance = index && words ? distance_of(L, index) : 0;

    if (!words || (index && !distance))
        return;
    for (uint32_t i = 0; i < known->count; i++)
        known->not_handler[i] |= words[i] != distance;
    known->handled |= index != 0;
}

void ss_lua_sample_hooks(ss_lua_sample *sample, lua_State *L, bool may_run)
{
    ss_lua_state_words *known = &sample->state_words;
    const uint8_t *bytes = (const uint8_t *)words_of(sample, L);

    if (!bytes)
        return;
    for (uint32_t i = 0; i < known->count * WORD; i++)
        known->not_hooks[i] |= bytes[i] != may_run;
    known->hooked |= !may_run;
    known->unhooked |= may_run;
}

/* The only one of COUNT that was not excluded, times SIZE. */
static uint16_t only(const bool *excluded, uint32_t count, uint32_t size, bool seen)
{
    uint16_t found = SS_LUA_UNKNOWN;

    for (uint32_t i = 0; seen && i < count; i++) {
        if (excluded[i])
            continue;
        if (found != SS_LUA_UNKNOWN)
            return SS_LUA_UNKNOWN;
        found = (uint16_t)(i * size);
    }
    return found;
}

void ss_lua_sample_settle_state(ss_lua_sample *sample)
{
    const ss_lua_state_words *known = &sample->state_words;

    sample->layout->handler = only(known->not_handler, known->count, WORD, known->handled);
    sample->layout->hooks =
        only(known->not_hooks, known->count * WORD, 1, known->hooked && known->unhooked);
}
