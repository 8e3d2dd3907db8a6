#include "frames/activation.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A name found while no function died is right until package.loaded changes. */
enum { NAME_USES = 5000 };

/* ---- Names -----------------------------------------------------------------------------------*/

/* The pointer that lua_topointer gives for the function of an activation, or NULL. */
static const void *function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    if (layout->function == SS_LUA_UNKNOWN)
        return NULL;
    return (const void *)ss_lua_word(ss_lua_word(ci + layout->function));
}

uintptr_t ss_lua_c_function_of(const ss_lua_layout *layout, uintptr_t ci)
{
    uintptr_t value, slot;
    uint8_t tag;

    if (layout->function == SS_LUA_UNKNOWN)
        return 0;
    slot = ss_lua_word(ci + layout->function);
    value = ss_lua_word(slot);
    tag = *(const uint8_t *)(slot + sizeof(uintptr_t));
    if (tag == layout->light_tag)
        return value;
    if (tag == layout->closure_tag && layout->closure_function != SS_LUA_UNKNOWN)
        return ss_lua_word(value + layout->closure_function);
    return 0;
}

/*
 * Whether a known name is still right.  It is while the same sentinel lives.  Without one, another
 * function may have the address at the next capture, though not in this one.  If no sentinel can be
 * used, because calibration missed something, the function's definition must match instead.
 */
static bool is_right(const ss_lua_layout *layout, const ss_lua_interpreter *interpreter,
                     const ss_lua_known_name *known)
{
    if (interpreter->keyed)
        return known->epoch == interpreter->cache->epoch;
    return known->epoch == 0 &&
           (known->capture == interpreter->cache->captures || !ss_lua_has_keys(layout));
}

/*
 * Whether the entry KNOWN applies to that function. "No name" may be used for a later function at
 * the address too: the rest of a token is true of every function that was defined there.
 */
static bool is_known(const ss_lua_layout *layout, const ss_lua_interpreter *interpreter,
                     const ss_lua_known_name *known, const void *function,
                     const lua_Debug *activation)
{
    return known->function == function && known->source == activation->source &&
           known->line_defined == activation->linedefined && known->uses_left > 0 &&
           (!known->name[0] || is_right(layout, interpreter, known));
}

/* ACTIVATION has been filled with "S". */
static const char *loaded_name(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                               const lua_Debug *activation)
{
    const void *function = function_of(layout, (uintptr_t)activation->i_ci);
    ss_lua_known_name *known;

    if (!function || !interpreter->record)
        return NULL;
    known = &interpreter->cache->names[((uintptr_t)function >> 4) % SS_LUA_KNOWN_NAMES];
    if (is_known(layout, interpreter, known, function, activation)) {
        known->uses_left--;
    } else {
        if (!interpreter->rest)
            return NULL;
        *known = (ss_lua_known_name){.function = function,
                                     .source = activation->source,
                                     .line_defined = activation->linedefined,
                                     .epoch = interpreter->keyed ? interpreter->cache->epoch : 0,
                                     .capture = interpreter->cache->captures,
                                     .uses_left = SS_LUA_NAME_USES};
        (void)ss_lua_global_name(interpreter->rest, function, known->name);
    }
    return known->name[0] ? known->name : NULL;
}

/* The name of a local variable or an iterator says nothing about the function elsewhere. */
static bool is_lasting(const char *namewhat)
{
    return strcmp(namewhat, "global") == 0 || strcmp(namewhat, "method") == 0 ||
           strcmp(namewhat, "field") == 0;
}

const char *ss_lua_c_function_name(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                                   lua_State *L, uintptr_t ci)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *name;

    lua_getinfo(L, "Sn", &activation);
    name = loaded_name(layout, interpreter, &activation);
    return name || !is_lasting(activation.namewhat) ? name : activation.name;
}

uintptr_t ss_lua_gap(const char *reason)
{
    return stacksplice_gap("lua", reason, 0);
}

/* ---- Tokens by asking Lua --------------------------------------------------------------------*/

/* Sets *LASTING to whether the token is that of INFO, not one that reports that memory ran out. */
static uintptr_t intern(const stacksplice_token_info *info, bool *lasting)
{
    uintptr_t token = 0;

    *lasting = stacksplice_intern(info, &token) == S_OK;
    return token;
}

static uintptr_t token_of(const lua_Debug *activation, const char *loaded,
                          const ss_lua_state *record, stacksplice_trust trust, bool *lasting)
{
    char function[LUA_IDSIZE + 40];
    stacksplice_token_info info = {
        .size = sizeof info, .kind = STACKSPLICE_FRAME_SCRIPT, .trust = trust, .language = "lua"};

    if (record && record->name[0])
        info.interpreter = record->name;
    info.function = activation->name;
    if (!*activation->namewhat || !activation->name)
        info.function = loaded;
    if (*activation->what == 'C') {
        info.file = "[C]";
        info.reason = "has no native frame";
        if (!info.function)
            info.function = "?";
        return intern(&info, lasting);
    }
    if (!info.function && *activation->what == 'm')
        info.function = "main chunk";
    if (!info.function) {
        (void)snprintf(function, sizeof function, "function <%s:%d>", activation->short_src,
                       activation->linedefined);
        info.function = function;
    }
    info.chunk = *activation->source != '@';
    info.file = info.chunk ? activation->short_src : activation->source + 1;
    info.line = activation->currentline > 0 ? (uint32_t)activation->currentline : 0;
    return intern(&info, lasting);
}

/* Whether only package.loaded can name the function. */
static bool needs_loaded_name(const lua_Debug *activation)
{
    return !*activation->namewhat && *activation->what != 'm';
}

uintptr_t ss_lua_asked_token(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                             lua_State *L, uintptr_t ci, stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *loaded = NULL;
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    if (needs_loaded_name(&activation))
        loaded = loaded_name(layout, interpreter, &activation);
    return token_of(&activation, loaded, interpreter->record, trust, &lasting);
}

uintptr_t ss_lua_activation_token(lua_State *L, struct CallInfo *ci, stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = ci};
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    return token_of(&activation, NULL,
                    ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX)), trust, &lasting);
}

/* ---- Tokens by key ---------------------------------------------------------------------------*/

static_assert(SS_LUA_TOKEN_SETS == 1 << 7, "a set is found by seven bits");

/* The slot for a key in its set: its own, one that is out of date, or another key's. */
static ss_lua_keyed_token *place_for(const ss_lua_interpreter *interpreter,
                                     const ss_lua_activation *at, const ss_lua_activation *caller)
{
    ss_lua_keyed_token *set = ss_lua_key_set(interpreter, at, caller);

    for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
        if (set[i].epoch != interpreter->cache->epoch || ss_lua_key_matches(&set[i], at, caller))
            return &set[i];
    return &set[interpreter->cache->next_victim++ % SS_LUA_TOKEN_WAYS];
}

uintptr_t ss_lua_new_token(const ss_lua_layout *layout, ss_lua_interpreter *interpreter,
                           lua_State *L, const ss_lua_activation *at,
                           const ss_lua_activation *caller)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)at->ci};
    ss_lua_keyed_token key = {.pc = at->pc,
                              .caller_pc = caller->pc,
                              .status = at->status,
                              .caller_status = caller->status,
                              .uses_left = UINT32_MAX};
    const char *loaded = NULL;
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    if (needs_loaded_name(&activation)) {
        loaded = loaded_name(layout, interpreter, &activation);
        key.closure = loaded ? at->closure : 0;
        key.uses_left = NAME_USES;
    }
    key.token =
        token_of(&activation, loaded, interpreter->record, STACKSPLICE_TRUST_EXACT, &lasting);
    /* A function in C has no code that distinguishes its calls. */
    if (interpreter->keyed && at->pc && lasting) {
        key.epoch = interpreter->cache->epoch;
        *place_for(interpreter, at, caller) = key;
    }
    return key.token;
}
