#include "frames/activation.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A name found while no function died is right until package.loaded changes. */
enum { NAME_USES = 5000 };

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

static uintptr_t token_of(const lua_Debug *activation, const char *loaded, const char *calls,
                          const ss_lua_state *record, stacksplice_trust trust, bool *lasting)
{
    char text[LUA_IDSIZE + 40];
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = trust,
                                   .language = "lua",
                                   .calls = calls};

    if (record && record->name[0])
        info.interpreter = record->name;
    info.function = ss_lua_called_name(activation);
    if (!info.function) {
        info.function = loaded;
    } else if (!strcmp(activation->namewhat, "metamethod")) { /* "index" alone says nothing */
        (void)snprintf(text, sizeof text, "metamethod '%s'", activation->name);
        info.function = text;
    }
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
        (void)snprintf(text, sizeof text, "function <%s:%d>", activation->short_src,
                       activation->linedefined);
        info.function = text;
    }
    info.chunk = *activation->source != '@';
    info.file = info.chunk ? activation->short_src : activation->source + 1;
    info.line = activation->currentline > 0 ? (uint32_t)activation->currentline : 0;
    return intern(&info, lasting);
}

/* Whether only package.loaded can name the function. */
static bool needs_loaded_name(const lua_Debug *activation)
{
    return !ss_lua_called_name(activation) && *activation->what != 'm';
}

uintptr_t ss_lua_asked_token(ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci,
                             stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)ci};
    const char *loaded = NULL;
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    if (needs_loaded_name(&activation))
        loaded = ss_lua_loaded_name(interpreter, &activation);
    return token_of(&activation, loaded, NULL, interpreter->record, trust, &lasting);
}

uintptr_t ss_lua_activation_token(lua_State *L, struct CallInfo *ci, stacksplice_trust trust)
{
    lua_Debug activation = {.i_ci = ci};
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    return token_of(&activation, NULL, NULL,
                    ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX)), trust, &lasting);
}

/* ---- Tokens by key ---------------------------------------------------------------------------*/

static_assert(SS_LUA_TOKEN_SETS == 1 << 7, "a set is found by seven bits");

/* The places of an entry's weak references. */
static int place_of_weak_refs(const ss_lua_interpreter *interpreter,
                              const ss_lua_keyed_token *entry)
{
    return 2 * (int)(entry - interpreter->cache->sets[0]);
}

bool ss_lua_renew(const ss_lua_interpreter *interpreter, ss_lua_keyed_token *entry)
{
    int place = place_of_weak_refs(interpreter, entry);

    if (!entry->has_weak_refs || entry->token_epoch != interpreter->cache->token_epoch ||
        !ss_lua_weak_refs_live(interpreter->rest, place, entry->caller_pc ? 2 : 1))
        return false;
    entry->epoch = interpreter->cache->epoch;
    return true;
}

/* The slot for a key in its set: its own, one of another epoch, or any. */
static ss_lua_keyed_token *place_for(const ss_lua_interpreter *interpreter,
                                     const ss_lua_activation *at, const ss_lua_activation *caller)
{
    ss_lua_keyed_token *set = ss_lua_key_set(interpreter, at, caller);
    uint32_t victim = interpreter->cache->next_victim++ % SS_LUA_TOKEN_WAYS;

    for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
        if (ss_lua_key_matches(&set[i], at, caller))
            return &set[i];
    for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
        if (set[i].epoch != interpreter->cache->epoch)
            return &set[i];
    return &set[victim];
}

/* Keep KEY, in this epoch or as long as its weak references live. */
static void keep(const ss_lua_interpreter *interpreter, lua_State *L, const ss_lua_activation *at,
                 const ss_lua_activation *caller, ss_lua_keyed_token key)
{
    ss_lua_keyed_token *entry = place_for(interpreter, at, caller);
    int place = place_of_weak_refs(interpreter, entry);

    key.has_weak_refs = ss_lua_put_weak_ref(L, at->ci, place) &&
                        (!caller->pc || ss_lua_put_weak_ref(L, caller->ci, place + 1));
    key.epoch = interpreter->cache->epoch;
    key.token_epoch = interpreter->cache->token_epoch;
    key.number = ++interpreter->cache->last_number;
    *entry = key;
}

uintptr_t ss_lua_new_token(ss_lua_interpreter *interpreter, lua_State *L,
                           const ss_lua_activation *at, const ss_lua_activation *caller)
{
    lua_Debug activation = {.i_ci = (struct CallInfo *)at->ci};
    lua_Debug callee = {.i_ci = (struct CallInfo *)at->callee, .namewhat = ""};
    ss_lua_keyed_token key = {.pc = at->pc,
                              .caller_pc = caller->pc,
                              .status = at->status,
                              .caller_status = caller->status,
                              .uses_left = UINT32_MAX};
    const char *loaded = NULL;
    bool lasting;

    lua_getinfo(L, "Sln", &activation);
    if (needs_loaded_name(&activation)) {
        loaded = ss_lua_loaded_name(interpreter, &activation);
        key.closure = loaded ? at->closure : 0;
        key.uses_left = NAME_USES;
    }
    if (at->callee)
        lua_getinfo(L, "n", &callee);
    key.token = token_of(&activation, loaded, ss_lua_called_name(&callee), interpreter->record,
                         STACKSPLICE_TRUST_EXACT, &lasting);
    /* A function in C has no code that distinguishes its calls. */
    if (interpreter->cached && at->pc && lasting)
        keep(interpreter, L, at, caller, key);
    return key.token;
}
