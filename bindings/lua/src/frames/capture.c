/* Captures by this binding, and what its copies in one process share. */
#include "life/binding.h"

#include "calibrate/calibrate.h"

bool ss_lua_is_own_function(uintptr_t function)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++)
        for (const luaL_Reg *each = atomic_load(&ss_lua_the_shared->functions[i]);
             each && each->name; each++)
            if ((uintptr_t)each->func == function)
                return true;
    return false;
}

/* Add this copy's functions to those that are not shown. */
static void add_functions(ss_lua_shared *shared)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++) {
        const luaL_Reg *none = NULL;

        if (atomic_compare_exchange_strong(&shared->functions[i], &none, ss_lua_own_functions) ||
            none == ss_lua_own_functions)
            return;
    }
}

/*
 * At load too: a host may raise before this binding sees one of its states (an error of Python's
 * on its way through Lua), and that stack needs its Lua frames as well.
 */
__attribute__((constructor)) void ss_lua_source_register(void)
{
    static atomic_bool done;
    const void *identity = (const void *)(uintptr_t)lua_newstate;
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "lua",
                                 .identity = identity,
                                 .collect = ss_lua_collect,
                                 .data = ss_lua_the_shared,
                                 .classify = ss_lua_classify};
    ss_lua_shared *shared;

    if (atomic_load(&done) || FAILED(stacksplice_add_source(&source)))
        return;
    /* Another copy may have been first: then both use what is its. */
    shared = stacksplice_source_data("lua", identity);
    if (shared && shared->size == sizeof *shared) {
        __atomic_store_n(&ss_lua_the_shared, shared, __ATOMIC_RELAXED);
        add_functions(shared);
    }
    atomic_store(&done, true);
}

uintptr_t ss_lua_gap(const char *reason)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "lua",
                                   .reason = reason};
    uintptr_t token = 0;

    (void)stacksplice_intern(&info, &token);
    return token;
}

const ss_lua_state *ss_lua_state_capturing(const stacksplice_walk *walk)
{
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);

    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE)) {
        uintptr_t above = atomic_load(&state->capturing_above);

        if (above >= walk->stack_low && above < walk->stack_high)
            return state;
    }
    return NULL;
}

uint32_t ss_lua_capture(lua_State *L, const void *above, uint32_t max, uintptr_t *frames,
                        ss_lua_notebook *notebook)
{
    ss_lua_state *state = ss_lua_state_find(L);
    uint32_t captured = 0;
    stacksplice_hresult hr;

    (void)ss_lua_layout_get(); /* here rather than in the middle of a capture */
    if (state) {
        state->capturing = L;
        state->notebook = notebook;
        atomic_store(&state->capturing_above, (uintptr_t)above);
    }
    hr = stacksplice_capture_ends(above, 0, max, frames, &captured);
    if (state) {
        atomic_store(&state->capturing_above, 0);
        state->capturing = NULL;
        state->notebook = NULL;
    }
    if (FAILED(hr) && max > 0) {
        frames[0] = ss_lua_gap("there was no memory to capture the stack");
        captured = 1;
    }
    return captured;
}
