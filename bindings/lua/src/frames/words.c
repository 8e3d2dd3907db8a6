/*
 * What Lua's part of a capture depends on, so that the core can repeat it (stacksplice/source.h).  Reads again
 * what the capture has read; Lua does not run in between.  It refuses whatever is not plain: runs
 * of Lua functions with known keys, between call sites.
 */
#include "frames/collection.h"

#if SS_LUA_NUMBERS_CALLS
/* Its activations have no addresses that stay. */
void ss_lua_report_words(const ss_lua_collection *c)
{
    stacksplice_walk_refuse(c->walk);
}
#else
static void report(const ss_lua_collection *c, uintptr_t address)
{
    address -= address % sizeof(uintptr_t);
    stacksplice_walk_read(c->walk, address, ss_lua_word(address));
}

/* ---- Conditions -------------------------------------------------------------------------------*/

enum { THREAD, RECORD, SUSPENDED_AT };

/*
 * Whether tokens may be checked as then; begins a capture, as far as those are concerned.  A record is never
 * freed; the coroutine that captures may be, so the record is asked first.  The other one was found
 * on the stack.
 */
static int interpreter_holds(const uintptr_t *data)
{
    lua_State *L = (lua_State *)data[THREAD];
    ss_lua_state *state = (ss_lua_state *)data[RECORD];
    uintptr_t ci = data[SUSPENDED_AT];

    if (*ss_lua_the_shared->log() || state->capturing != (ci ? NULL : L) ||
        atomic_load(&state->registry) != lua_topointer(L, LUA_REGISTRYINDEX) ||
        (ci && !ss_lua_rests(L, ci)))
        return 0;
    ss_lua_cache_begin(L, state);
    return 1;
}

/* A coroutine of that state, and whether its innermost activation is that one; 0: any. */
enum { REGISTRY = 1, INNERMOST };

static int coroutine_holds(const uintptr_t *data)
{
    lua_State *L = (lua_State *)data[THREAD];

    return (uintptr_t)lua_topointer(L, LUA_REGISTRYINDEX) == data[REGISTRY] &&
           (!data[INNERMOST] || ss_lua_innermost(L) == data[INNERMOST]);
}

enum { ENTRY = RECORD + 1, NUMBER };

/*
 * Whether a token is right, after interpreter_holds.  One with a name that may change needs a use
 * left for this capture, and one for a full one, which verifies this.
 */
static int token_holds(const uintptr_t *data)
{
    ss_lua_cache *cache = ss_lua_cache_of((ss_lua_state *)data[RECORD]);
    const ss_lua_interpreter interpreter = {.cache = cache, .rest = (lua_State *)data[THREAD]};
    ss_lua_keyed_token *entry = (ss_lua_keyed_token *)data[ENTRY];

    if (entry->number != data[NUMBER] || entry->uses_left < 2 ||
        !ss_lua_entry_holds(&interpreter, entry))
        return 0;
    entry->uses_left -= entry->uses_left != UINT32_MAX;
    return 1;
}

/* ---- Sites ------------------------------------------------------------------------------------*/

static void report_place(const ss_lua_collection *c, uint32_t frame, ss_lua_place place)
{
    if (place.kind == SS_LUA_SLOT)
        report(c, c->walk->frames[frame].sp + place.at);
}

/* Report where the state and the activation are, if FRAME is a site.  The core reports registers
   itself. */
static void report_site(const ss_lua_collection *c, uint32_t frame)
{
    uint8_t mark = ss_lua_mark_of(c, frame);

    if (!mark || mark >= SS_LUA_MARK_INTERNAL)
        return;
    report_place(c, frame, c->layout->sites[mark - 1].state);
    report_place(c, frame, c->layout->sites[mark - 1].ci);
}

static void check_interpreter(const ss_lua_collection *c, const ss_lua_interpreter *of)
{
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {
        [THREAD] = (uintptr_t)of->rest, [RECORD] = (uintptr_t)of->record};

    if (of->rest != of->record->capturing)
        data[SUSPENDED_AT] = ss_lua_innermost(of->rest);
    stacksplice_walk_check(c->walk, interpreter_holds, data);
}

static void check_coroutine(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {(uintptr_t)site->L,
                                               (uintptr_t)site->interpreter->registry};

    if (!c->capturing) {
        data[INNERMOST] = site->ci;
        if (ss_lua_innermost(site->L) != site->ci)
            stacksplice_walk_refuse(c->walk); /* something runs inside without a site */
    }
    stacksplice_walk_check(c->walk, coroutine_holds, data);
}

/* ---- Activations ------------------------------------------------------------------------------*/

/* The statuses and the kinds of functions of COUNT activations from CI on, as one number. */
static uintptr_t hash_of_run(uintptr_t ci, uintptr_t count)
{
    uintptr_t hash = count;

    for (; count; count--, ci = ss_lua_previous(ci)) {
        hash = (hash ^ ss_lua_status_of(ci)) * UINT64_C(0x9e3779b97f4a7c15);
        hash += ss_lua_tag_of(ci);
    }
    return hash;
}

enum { FIRST, COUNT, HASH };

/* For what is not a whole word: what lies beside it may never have been set. */
static int run_holds(const uintptr_t *data)
{
    return hash_of_run(data[FIRST], data[COUNT]) == data[HASH];
}

static void check_run(const ss_lua_collection *c, uintptr_t first, uintptr_t count)
{
    stacksplice_walk_check(
        c->walk, run_holds,
        (uintptr_t[STACKSPLICE_CHECK_WORDS]){
            [FIRST] = first, [COUNT] = count, [HASH] = hash_of_run(first, count)});
}

/* Report the words of CI; whether its function is one in Lua. */
static bool report_activation(const ss_lua_collection *c, uintptr_t ci)
{
    bool in_lua = ss_lua_is_in_lua(ci);

    report(c, ci + SS_LUA_AT_FUNCTION);
    report(c, ci + SSI_LUA_CALL_PREVIOUS);
    if (in_lua) {
        report(c, ci + SS_LUA_AT_PC);
        report(c, ci + SS_LUA_AT_REGISTERS);
    }
    return in_lua;
}

static ss_lua_keyed_token *entry_of(const ss_lua_interpreter *interpreter,
                                    const ss_lua_activation *at, const ss_lua_activation *caller)
{
    ss_lua_keyed_token *set = ss_lua_key_set(interpreter, at, caller);

    for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
        if (ss_lua_key_matches(&set[i], at, caller) && ss_lua_entry_holds(interpreter, &set[i]))
            return &set[i];
    return NULL;
}

/* Report what the token of the activation CI follows from besides its words. */
static void report_token(const ss_lua_collection *c, const ss_lua_call_site *site, uintptr_t ci)
{
    const ss_lua_interpreter *interpreter = site->interpreter;
    ss_lua_activation at, caller;
    ss_lua_keyed_token *entry;

    ss_lua_read_outside(site, ci, &at);
    ss_lua_activation_read(at.outer, &caller);
    entry = entry_of(interpreter, &at, &caller);
    if (!entry) {
        stacksplice_walk_refuse(c->walk);
        return;
    }
    if (entry->closure)
        report(c, ss_lua_slot_of(ci));
    stacksplice_walk_check(
        c->walk, token_holds,
        (uintptr_t[STACKSPLICE_CHECK_WORDS]){[THREAD] = (uintptr_t)interpreter->rest,
                                             [RECORD] = (uintptr_t)interpreter->record,
                                             [ENTRY] = (uintptr_t)entry,
                                             [NUMBER] = entry->number});
}

/* Report the activations outside of SITE, and those between. */
static void report_run(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    uintptr_t ci = site->ci, first, count = 0;

    report(c, ci + SSI_LUA_CALL_PREVIOUS);
    if (!site->hook) {
        report(c, ci + SS_LUA_AT_FUNCTION);
        ci = ss_lua_previous(ci);
    }
    for (first = ci; c->walk->recorded && ci && ci != site->stop; count++) {
        bool in_lua = report_activation(c, ci);
        uintptr_t outer = ss_lua_previous(ci);

        if (!outer) /* a coroutine's base level is no activation */
            break;
        (void)report_activation(c, outer);
        if (!in_lua || count == SS_LUA_MOST_REPORTED) {
            stacksplice_walk_refuse(c->walk);
            return;
        }
        report_token(c, site, ci);
        ci = outer;
    }
    if (count)
        check_run(c, first, count + 1); /* with the caller of the last one */
}

/* Where no frame is inside, the called function decides whether it is shown; where a site keeps no
   activation, which one it is. */
static void report_callee(const ss_lua_collection *c, const ss_lua_call_site *site)
{
    if (site->by_order)
        stacksplice_walk_refuse(c->walk);
    if ((site->frame > 0 && !SS_LUA_BY_ORDER) || site->hook)
        return;
    report(c, site->ci + SS_LUA_AT_FUNCTION);
    check_run(c, site->ci, 1);
    report(c, ss_lua_slot_of(site->ci));
    if (ss_lua_tag_of(site->ci) == SSI_LUA_TAG_CLOSURE)
        report(c, ss_lua_function_of(site->ci) + SSI_LUA_CLOSURE_FUNCTION);
    if (!site->frame && !ss_lua_is_own_function(ss_lua_c_function_of(site->ci)))
        stacksplice_walk_refuse(c->walk);
}

static bool is_plain(const ss_lua_collection *c)
{
    for (uint32_t i = 0; i < c->interpreter_count; i++)
        if (!c->interpreters[i].cached)
            return false;
    return c->marks && !c->too_many && !c->missed_count && !c->log && c->walk->frame_count &&
           c->interpreter_count < SS_LUA_INTERPRETERS;
}

void ss_lua_report_words(const ss_lua_collection *c)
{
    if (!is_plain(c)) {
        stacksplice_walk_refuse(c->walk);
        return;
    }
    for (uint32_t i = 0; i < c->walk->marked_count; i++)
        report_site(c, c->walk->marked[i]);
    for (uint32_t i = 0; i < c->interpreter_count; i++)
        check_interpreter(c, &c->interpreters[i]);
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].first)
            check_coroutine(c, &c->sites[i]);
    for (uint32_t i = 0; c->walk->recorded && i < c->site_count; i++) {
        report_callee(c, &c->sites[i]);
        report_run(c, &c->sites[i]);
    }
}
#endif
