/* Activations as tokens, and what is known of them by their addresses. */
#include "version/call_info.h"
#include "frames/collection.h"
#include "shared/mix.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- Weak references --------------------------------------------------------------------------*/

enum { SLOTS_FOR_A_WEAK_REF = 4 };

/* The place of the table in the metatable of the GC canaries, which all copies of the binding
   find. */
enum { WEAK_REFS = 1 };

/* Push the table; pushes nothing and returns false without one. [-0, +(0|1), -], 2 slots */
static bool push_weak_refs(lua_State *L)
{
    if (!ss_lua_push_gc_canaries_metatable(L))
        return false;
    if (lua_rawgeti(L, -1, WEAK_REFS) == LUA_TTABLE) {
        lua_remove(L, -2);
        return true;
    }
    lua_pop(L, 2);
    return false;
}

/* All places exist from the start, so that filling one allocates nothing. */
static void make_weak_refs(lua_State *L, int places)
{
    if (push_weak_refs(L)) {
        lua_pop(L, 1);
        return;
    }
    if (!ss_lua_push_gc_canaries_metatable(L))
        return;
    lua_createtable(L, places, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawseti(L, -2, WEAK_REFS);
    lua_pop(L, 1);
}

bool ss_lua_has_room(lua_State *L, int slots)
{
#if SS_LUA_JIT
    uintptr_t end = ss_lua_stack_end_of((uintptr_t)L), top = ss_lua_top_of((uintptr_t)L);

    return end > top && (end - top) / SS_LUA_SLOT_SIZE > (uintptr_t)slots;
#else
    uintptr_t ci = ss_lua_innermost(L), room;

    if (!ci)
        return false;
    room = (ss_lua_word(ci + SS_LUA_AT_TOP) - ss_lua_slot_of(ci)) / SSI_LUA_VALUE;
    return room >= (uintptr_t)lua_gettop(L) + 1 + (uintptr_t)slots;
#endif
}

/* Put the function of CI, an activation of L, into PLACE.  Returns false without a table or without
   known room in L, which is suspended in C. [-0, +0, -] */
static bool put_weak_ref(lua_State *L, uintptr_t ci, int place)
{
    lua_Debug activation = ss_lua_debug_of(L, ci);

    if (!ss_lua_has_room(L, SLOTS_FOR_A_WEAK_REF) || !push_weak_refs(L))
        return false;
    lua_getinfo(L, "f", &activation);
    lua_rawseti(L, -2, place + 1);
    lua_pop(L, 1);
    return true;
}

/* Whether the COUNT weak references from PLACE on live. [-0, +0, -], 3 slots */
static bool weak_refs_live(lua_State *L, int place, int count)
{
    int living = 0;

    if (!push_weak_refs(L))
        return false;
    for (; living < count; living++) {
        bool lives = lua_rawgeti(L, -1, place + living + 1) == LUA_TFUNCTION;

        lua_pop(L, 1);
        if (!lives)
            break;
    }
    lua_pop(L, 1);
    return living == count;
}

/* ---- The cache --------------------------------------------------------------------------------*/

/* Invalidate all that was kept. */
static void begin_epoch(ss_lua_cache *cache)
{
    cache->epoch++;
    if (cache->epoch)
        return;
    cache->epoch = 1; /* 0 is the epoch of empty entries */
    memset(cache->sets, 0, sizeof cache->sets);
}

void ss_lua_cache_begin(lua_State *L, ss_lua_state *state)
{
    ss_lua_cache *cache = ss_lua_cache_of(state);
    uint32_t epoch = stacksplice_token_epoch();

    if (!ss_lua_gc_canary_lives(L, state) || cache->token_epoch != epoch)
        begin_epoch(cache);
    if (cache->token_epoch != epoch)
        cache->tail_calls = 0;
    cache->token_epoch = epoch;
}

/* The table of weak references is made once a capture has shown that the state needs it. */
void ss_lua_cache_planted(lua_State *L, ss_lua_state *state)
{
    ss_lua_cache *cache = ss_lua_cache_of(state);

    begin_epoch(cache);
    if (cache->captured)
        make_weak_refs(L, SS_LUA_WEAK_REFS);
}

/* ---- Loaded name -----------------------------------------------------------------------------*/

/* The name of a function in the tables of package.loaded: raw access, no allocation, no raise. */

enum { NAME_LIMIT = 20000 /* entries that a search looks at */ };

/* Keep the better name: the one found first, or before the other in the alphabet, so that every run
   gives the same one.  A name that is too long is rejected: cut, it could be that of another
   function. */
static void offer_name(char name[SS_LUA_NAME_SIZE], const char *module, const char *field,
                       bool *found)
{
    bool dotted = module && strcmp(module, LUA_GNAME) != 0;
    char offered[SS_LUA_NAME_SIZE];
    int length =
        snprintf(offered, sizeof offered, "%s%s%s", dotted ? module : "", dotted ? "." : "", field);

    if (length < 0 || (size_t)length >= sizeof offered || (*found && strcmp(offered, name) >= 0))
        return;
    memcpy(name, offered, (size_t)length + 1);
    *found = true;
}

/* A loaded module's table is at the top, its name below.  [-0, +0, -] */
static void search_module(lua_State *L, const void *value, char *name, bool *found, int *budget)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        bool match = lua_type(L, -2) == LUA_TSTRING && lua_topointer(L, -1) == value;

        if (match)
            offer_name(name, lua_tostring(L, -4), lua_tostring(L, -2), found);
        lua_pop(L, 1);
        if (--*budget <= 0) {
            lua_pop(L, 1);
            return;
        }
    }
}

bool ss_lua_global_name(lua_State *L, const void *value, char name[SS_LUA_NAME_SIZE])
{
    bool found = false;
    int budget = NAME_LIMIT;

    ss_lua_push_loaded(L);
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            if (lua_topointer(L, -1) == value)
                offer_name(name, NULL, lua_tostring(L, -2), &found);
            else if (lua_istable(L, -1))
                search_module(L, value, name, &found, &budget);
        }
        lua_pop(L, 1);
        if (--budget <= 0) {
            lua_pop(L, 1);
            break;
        }
    }
    lua_pop(L, 1);
    return found;
}

/* ---- Known name ------------------------------------------------------------------------------*/

/* Write the name that package.loaded has for the function of CI, or return false. */
static bool loaded_name(const ss_lua_interpreter *interpreter, uintptr_t ci,
                        char name[SS_LUA_NAME_SIZE])
{
    return interpreter->record && interpreter->rest &&
           ss_lua_global_name(interpreter->rest, (const void *)ss_lua_function_of(ci), name);
}

/* The name of a local variable or an iterator says nothing about the function elsewhere. */
static bool is_lasting(const char *namewhat)
{
    return strcmp(namewhat, "global") == 0 || strcmp(namewhat, "method") == 0 ||
           strcmp(namewhat, "field") == 0;
}

bool ss_lua_c_function_name(const ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci,
                            char name[SS_LUA_NAME_SIZE])
{
    lua_Debug activation = ss_lua_debug_of(L, ci);
    const char *called;

    if (loaded_name(interpreter, ci, name))
        return true;
    lua_getinfo(L, "n", &activation);
    called = is_lasting(activation.namewhat) ? ss_lua_called_name(&activation) : NULL;
    if (called)
        (void)snprintf(name, SS_LUA_NAME_SIZE, "%s", called);
    return called != NULL;
}

/* ---- Names after tail calls -------------------------------------------------------------------*/

#if SS_LUA_JIT
/* A variable: what it is called, and what its value points to, if that is a function. */
typedef struct variable {
    const char *name;
    const void *function; /* NULL: none, or another value */
} variable;

/* The value at the top goes to the variable, if NAME is that one's. [-1, +0, -] */
static void take_value(lua_State *L, const char *name, variable *wanted)
{
    if (!strcmp(name, wanted->name))
        wanted->function = lua_isfunction(L, -1) ? lua_topointer(L, -1) : NULL;
    lua_pop(L, 1);
}

/* The last one of a name hides the others. */
static void find_local(lua_State *L, const lua_Debug *caller, variable *wanted)
{
    const char *name;

    for (int n = 1; (name = lua_getlocal(L, caller, n)); n++)
        take_value(L, name, wanted);
}

/* The function that has the variable is at the top. */
static void find_upvalue(lua_State *L, variable *wanted)
{
    const char *name;

    for (int n = 1; (name = lua_getupvalue(L, -1, n)); n++)
        take_value(L, name, wanted);
}

/* Likewise.  A global that a metatable gives is not found. */
static void find_global(lua_State *L, variable *wanted)
{
    int budget = NAME_LIMIT;

    lua_getfenv(L, -1);
    lua_pushnil(L);
    while (budget-- > 0 && lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            take_value(L, lua_tostring(L, -2), wanted);
        else
            lua_pop(L, 1);
    }
    lua_settop(L, lua_gettop(L) - (budget < 0 ? 2 : 1));
}

/*
 * A tail call leaves nothing in LuaJIT, which names the function that runs by the call that began its
 * frame.  Whether the variable of that name has another function: then the name is of the one that is
 * gone.  L rests: what it pushes does no harm. [-0, +0, -]
 */
static bool is_misnamed(lua_State *L, uintptr_t ci, const lua_Debug *activation)
{
    enum { SLOTS_FOR_A_VARIABLE = 4 };
    uintptr_t outer = ss_lua_outer(ci);
    variable called = {activation->name, NULL};
    lua_Debug caller;

    if (!activation->name || !outer || !ss_lua_is_in_lua(outer) ||
        !ss_lua_has_room(L, SLOTS_FOR_A_VARIABLE))
        return false;
    caller = ss_lua_debug_of(L, outer);
    if (!strcmp(activation->namewhat, "local")) {
        find_local(L, &caller, &called);
    } else if (strcmp(activation->namewhat, "upvalue") == 0 ||
               strcmp(activation->namewhat, "global") == 0) {
        lua_getinfo(L, "f", &caller);
        if (*activation->namewhat == 'u')
            find_upvalue(L, &called);
        else
            find_global(L, &called);
        lua_pop(L, 1);
    }
    return called.function && called.function != (const void *)ss_lua_function_of(ci);
}
#else
static bool is_misnamed(lua_State *L, uintptr_t ci, const lua_Debug *activation)
{
    (void)L;
    (void)ci;
    (void)activation;
    return false;
}
#endif

/* What lua_getinfo says of the activation CI.  RESTS: L runs no code now. */
static lua_Debug ask(lua_State *L, uintptr_t ci, bool rests)
{
    lua_Debug activation = ss_lua_debug_of(L, ci);

    lua_getinfo(L, "Sln", &activation);
    if (rests && is_misnamed(L, ci, &activation)) {
        activation.name = NULL;
        activation.namewhat = "";
    }
    return activation;
}

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
    char text[LUA_IDSIZE + 40], line[SS_LUA_LINE_ROOM];
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = trust,
                                   .language = "lua",
                                   .calls = calls};
    const ss_lua_chunk_place place = {activation->source, activation->currentline,
                                      activation->linedefined, activation->lastlinedefined};

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
    if (ss_lua_is_compiled_from(info.file))
        info.chunk = 1; /* the file has other lines than this */
    info.line = activation->currentline > 0 ? (uint32_t)activation->currentline : 0;
    if (ss_lua_line(record ? record->texts : NULL, &place, line))
        info.source = line;
    return intern(&info, lasting);
}

/* Whether only package.loaded can name the function. */
static bool needs_loaded_name(const lua_Debug *activation)
{
    return !ss_lua_called_name(activation) && *activation->what != 'm';
}

/*
 * The name of a global function, from the line where its chunk defines it: in a signal handler nothing
 * can be looked for in package.loaded.  Of two functions of one line none has a name.
 */
static SS_LUA_NOINLINE bool defined_name(const lua_Debug *activation, const ss_lua_state *record,
                                         char name[SS_LUA_NAME_SIZE])
{
    static const char word[] = "function", letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789"
                                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const ss_lua_chunk_place place = {activation->source, activation->linedefined,
                                      activation->linedefined, activation->lastlinedefined};
    char line[SS_LUA_LINE_ROOM];
    const char *at = line + sizeof word;
    size_t length;

    if (!ss_lua_line(record ? record->texts : NULL, &place, line) ||
        strlen(line) > SS_LUA_LINE_MAX || strncmp(line, "function ", sizeof word) != 0 ||
        strstr(at, word))
        return false;
    length = strspn(at, letters);
    if (!length || length >= SS_LUA_NAME_SIZE || at[length + strspn(at + length, " ")] != '(')
        return false;
    memcpy(name, at, length);
    name[length] = '\0';
    return true;
}

uintptr_t ss_lua_asked_token(ss_lua_interpreter *interpreter, lua_State *L, uintptr_t ci,
                             stacksplice_trust trust)
{
    const lua_Debug activation = ask(L, ci, interpreter->rest != NULL);
    char name[SS_LUA_NAME_SIZE];
    bool is_named, lasting;

    is_named = needs_loaded_name(&activation) &&
               (loaded_name(interpreter, ci, name) ||
                (!interpreter->rest && defined_name(&activation, interpreter->record, name)));
    return token_of(&activation, is_named ? name : NULL, NULL, interpreter->record, trust,
                    &lasting);
}

uintptr_t ss_lua_activation_token(lua_State *L, uintptr_t ci, stacksplice_trust trust)
{
    const lua_Debug activation = ask(L, ci, lua_status(L) != LUA_OK);
    bool lasting;

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
        !weak_refs_live(interpreter->rest, place, entry->caller_pc ? 2 : 1))
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

    key.has_weak_refs =
        put_weak_ref(L, at->ci, place) && (!caller->pc || put_weak_ref(L, caller->ci, place + 1));
    key.epoch = interpreter->cache->epoch;
    key.token_epoch = interpreter->cache->token_epoch;
    key.number = ++interpreter->cache->last_number;
    *entry = key;
}

enum { MOST_COMPARED = 4096 /* bytes of a chunk that came as a string, which is its own name */ };

/* What decides on the line that is shown of a text that the program gave; 0: more than can be compared, as
   which chunk the thread runs as a whole. */
static uint64_t texts_of(const lua_Debug *activation, const ss_lua_texts *texts)
{
    uint64_t newest, unknown;

    if (!texts)
        return 1;
    if (*activation->what == 'm')
        return 0;
    newest = (uintptr_t)atomic_load(&texts->first);
    unknown = (uint64_t)atomic_load(&texts->unknown);
    return ss_mix(newest ^ UINT64_C(0xE7037ED1A0B428DB), unknown + 1) | 1;
}

/* A hash of all that a token is made of, but a name that only package.loaded has; 0: that is more than is
   compared. */
static uint64_t said_of(const lua_Debug *activation, const char *calls, const ss_lua_state *record)
{
    uint64_t texts = texts_of(activation, record ? record->texts : NULL);
    size_t length = strnlen(activation->source, MOST_COMPARED + 1);
    uint64_t lines =
        (uint64_t)(uint32_t)activation->linedefined << 32 | (uint32_t)activation->currentline;
    uint64_t hash = ss_mix(lines ^ UINT64_C(0x8EBC6AF09C88C6E3),
                           (uint32_t)activation->lastlinedefined ^ UINT64_C(0x589965CC75374CC3));

    if (length > MOST_COMPARED || !texts)
        return 0;
    hash = ss_mix_bytes(hash ^ texts, activation->source, length);
    hash = ss_mix_text(ss_mix_text(hash, activation->what), activation->namewhat);
    hash = ss_mix_text(ss_mix_text(hash, activation->name), calls);
    return ss_mix_text(hash, record ? record->name : NULL) | 1;
}

/* The entry of that key, of any epoch, of which Lua SAID the same, and which has no name of a closure;
   or NULL. */
static const ss_lua_keyed_token *known_by(const ss_lua_interpreter *interpreter,
                                          const ss_lua_activation *at,
                                          const ss_lua_activation *caller, uint64_t said)
{
    const ss_lua_keyed_token *set;

    if (!said || !ss_lua_has_key(interpreter, at, caller))
        return NULL;
    set = ss_lua_key_set(interpreter, at, caller);
    for (uint32_t i = 0; i < SS_LUA_TOKEN_WAYS; i++)
        if (ss_lua_key_matches(&set[i], at, caller) && set[i].said == said && !set[i].closure &&
            set[i].uses_left && set[i].token_epoch == interpreter->cache->token_epoch)
            return &set[i];
    return NULL;
}

uintptr_t ss_lua_new_token(ss_lua_interpreter *interpreter, lua_State *L,
                           const ss_lua_activation *at, const ss_lua_activation *caller)
{
    const lua_Debug activation = ask(L, at->ci, interpreter->rest != NULL);
    lua_Debug callee = ss_lua_debug_of(L, at->callee);
    ss_lua_keyed_token key = {.pc = at->pc,
                              .caller_pc = caller->pc,
                              .status = at->status,
                              .caller_status = caller->status,
                              .uses_left = UINT32_MAX};
    const ss_lua_keyed_token *known;
    char loaded[SS_LUA_NAME_SIZE];
    const char *calls = NULL;
    bool is_loaded = false, lasting = true;

    if (at->callee && lua_getinfo(L, "n", &callee))
        calls = ss_lua_called_name(&callee);
    key.said = said_of(&activation, calls, interpreter->record);
    known = known_by(interpreter, at, caller, key.said);
    if (known) {
        key.uses_left = known->uses_left;
        key.token = known->token;
    } else {
        if (needs_loaded_name(&activation)) {
            is_loaded = loaded_name(interpreter, at->ci, loaded);
            key.closure = is_loaded ? at->closure : 0;
            key.uses_left = NAME_USES;
        }
        key.token = token_of(&activation, is_loaded ? loaded : NULL, calls, interpreter->record,
                             STACKSPLICE_TRUST_EXACT, &lasting);
    }
    if (ss_lua_has_key(interpreter, at, caller) && lasting)
        keep(interpreter, L, at, caller, key);
    return key.token;
}
