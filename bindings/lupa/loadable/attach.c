/*
 * Attaches states: debug.traceback becomes a function of ours, which records the error and then
 * does what the former one does.  Bridges that know nothing of us use that function as the message
 * handler of their calls.  The coroutine functions are replaced as install() does it.
 */
#include "attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "traceback/traceback.h"

#include <lualib.h>

/* In the registry: the object that stands for the attachment, the function that uninstalls, and the
   program's that raises errors of late work. */
static const char object_key, uninstall_key, kept_key, late_key;

/* The upvalues of our debug.traceback.  The object is none: a script could exchange its finalizer. */
enum { FORMER = 1, INSTALLED };

/* The arguments of the protected part. */
typedef struct attaching {
    const ss_lua_hooks *hooks;
    ss_lua_attachment *made;
} attaching;

static void unref(ss_lua_attachment *attachment)
{
    if (__atomic_sub_fetch(&attachment->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(attachment);
}

static void end_guests(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        state->outside.data = NULL;
}

static void set_texts(lua_State *L, const ss_lua_texts *texts)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        state->texts = texts;
}

/* The finalizer of the object: the state closes, or was restored. */
static int collect(lua_State *L)
{
    ss_lua_attachment **object = ss_lua_check_own(L, collect), *attachment = *object;

    *object = NULL;
    if (!attachment)
        return 0;
    if (attachment->main) {
        set_texts(L, NULL);
        end_guests(L);
        attachment->main = NULL;
        attachment->hooks.closed(attachment->hooks.data);
    }
    unref(attachment);
    return 0;
}

/* The attachment of the state, or NULL. [-0, +0, m], 3 slots */
static ss_lua_attachment *attachment_of(lua_State *L)
{
    ss_lua_attachment **object;

    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &object_key);
    object = ss_lua_own_block(L, -1, collect);
    lua_pop(L, 1);
    return object ? *object : NULL;
}

/* ---- debug.traceback -------------------------------------------------------------------------*/

static int finish_former(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

SS_LUA_CONTINUATION(finish_former);

/* A function in C is called inside our own activation: it counts levels as if it were called
   itself.  What a script makes for itself has all frames, where it asked for what its pcall catches; what the
   bridge makes stays as it is. */
static SS_LUA_OWN int attached_traceback(lua_State *L)
{
    ss_lua_attachment *attachment = attachment_of(L);
    int results;

    if (attachment && attachment->keeps_caught &&
        ss_lua_serves_script(L, SS_LUA_JIT ? NULL : ss_lua_keeping_xpcall))
        return ss_lua_traceback_with(L, ss_lua_raised_at, SS_LUA_HERE());
    if (attachment && attachment->main && lua_gettop(L) == 1 && !lua_isthread(L, 1))
        ss_lua_record(L, attachment, SS_LUA_HERE());
    if (attachment && attachment->former) {
        results = attachment->former(L);
        __asm__ volatile("" ::: "memory"); /* no tail call: our frame belongs to the activation */
        return results;
    }
    lua_pushvalue(L, lua_upvalueindex(FORMER));
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, SS_LUA_K(finish_former));
    return lua_gettop(L);
}

/* ---- Late work --------------------------------------------------------------------------------*/

/*
 * More than a bridge needs to make a value of an exception.  It does that with the interpreter's lock,
 * which it never gives back if Lua has no memory for it.
 */
enum { ROOM_FOR_ERROR = 16384 };

static bool has_memory(lua_State *L)
{
    void *data = NULL, *block;
    lua_Alloc allocate = lua_getallocf(L, &data);

    block = allocate(data, NULL, 0, ROOM_FOR_ERROR);
    if (block)
        (void)allocate(data, block, ROOM_FOR_ERROR, 0);
    return block;
}

/* The member push of ss_lua_outside.  Without memory the error is that of Lua itself. */
static bool push_late(lua_State *L, uint64_t number, bool again)
{
    if (!has_memory(L)) {
        lua_pushliteral(L, "not enough memory");
        return true;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &late_key);
    lua_pushinteger(L, (lua_Integer)number);
    lua_pushboolean(L, again);
    return lua_pcall(L, 2, 0, 0) != LUA_OK;
}

static int learn_main(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        ss_lua_state_learn_main(L, state);
    return 0;
}

/* Have late work of the program end by what the upvalue of the function at index 1 raises.
   [-0, +0, m] */
static void set_outside(lua_State *L, ss_lua_state *state, ss_lua_attachment *attachment)
{
    if (!lua_getupvalue(L, 1, 1))
        (void)luaL_error(L, "the function of the program is missing");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &late_key);
    state->outside.handler = attached_traceback;
    state->outside.push = push_late;
    state->outside.caught = ss_lua_tell_caught;
    state->outside.find_in = ss_lua_find_in;
    state->outside.data = attachment;
}

/* ---- Attach and restore -----------------------------------------------------------------------*/

/* Push the table of the library debug, or nil. [-0, +1, m] */
static void push_debug(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushliteral(L, LUA_DBLIBNAME);
    if (lua_rawget(L, -2) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    lua_remove(L, -2);
}

/* Push the raw field "traceback" of the table at INDEX. [-0, +1, m] */
static void push_traceback(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_pushliteral(L, "traceback");
    lua_rawget(L, index);
}

/* [-0, +0, m] */
static void replace_functions(lua_State *L, ss_lua_attachment *attachment)
{
    int debug = lua_gettop(L) + 1;

    push_debug(L);
    if (lua_istable(L, debug))
        push_traceback(L, debug);
    else
        lua_pushnil(L);
    if (lua_iscfunction(L, -1) && !lua_getupvalue(L, -1, 1))
        attachment->former = lua_tocfunction(L, -1);
    else
        lua_settop(L, debug + 1);
    lua_pushcfunction(L, ss_lua_install_function);
    lua_call(L, 0, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &uninstall_key);
    if (lua_isfunction(L, debug + 1)) {
        lua_pushliteral(L, "traceback");
        lua_pushvalue(L, debug + 1);
        push_traceback(L, debug);
        lua_pushcclosure(L, attached_traceback, INSTALLED);
        lua_rawset(L, debug);
    }
    lua_settop(L, debug - 1);
}

/* Arguments: nil, nothing. */
static int keep_protected(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kept_key) == LUA_TFUNCTION)
        return 0;
    lua_pushcfunction(L, ss_lua_install_function);
    lua_createtable(L, 0, 1);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "pcall");
    lua_call(L, 1, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kept_key);
    return 0;
}

/* Call the function that the registry has under KEY, if there is one, and remove it. [-0, +0, m] */
static void call_kept(lua_State *L, const void *key)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    if (lua_isfunction(L, -1))
        lua_call(L, 0, 0);
    else
        lua_pop(L, 1);
}

/* ---- The object in the registry --------------------------------------------------------------*/

/* Push an object for a new attachment. [-0, +1, m] */
static ss_lua_attachment *push_new(lua_State *L)
{
    ss_lua_attachment **object = lua_newuserdatauv(L, sizeof *object, 0);

    *object = NULL;
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    *object = calloc(1, sizeof **object);
    if (!*object)
        luaL_error(L, "not enough memory");
    (*object)->references = 1;
    return *object;
}

/*
 * The metamethods of the metatable on top run for every object of the bridge: the name by which a
 * script calls one object is not theirs. [-0, +0, m]
 */
static void leave_nameless(lua_State *L)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_CFunction function = lua_tocfunction(L, -1);

        if (function)
            (void)stacksplice_name_function((uintptr_t)function, "lua", "");
        lua_pop(L, 1);
    }
}

static void set_hooks(lua_State *L, ss_lua_attachment *attachment, const ss_lua_hooks *hooks)
{
    const void *metatable;

    attachment->hooks = *hooks;
    attachment->hooks.metatable = NULL;
    lua_getfield(L, LUA_REGISTRYINDEX, hooks->metatable);
    metatable = lua_istable(L, -1) ? lua_topointer(L, -1) : NULL;
    if (metatable)
        leave_nameless(L);
    lua_pop(L, 1);
    ss_lua_set_guests(L, metatable);
}

/* [-0, +0, m] */
static void find_raisers(lua_State *L, ss_lua_attachment *attachment)
{
    static const char *const names[] = {"error", "assert"};
    int top = lua_gettop(L);

    ss_lua_push_loaded(L);
    if (lua_istable(L, -1)) {
        lua_pushliteral(L, LUA_GNAME);
        lua_rawget(L, -2);
    }
    for (size_t i = 0; lua_istable(L, -1) && i < sizeof names / sizeof *names; i++) {
        lua_pushstring(L, names[i]);
        lua_rawget(L, -2);
        if (lua_iscfunction(L, -1))
            attachment->raisers[i] = lua_topointer(L, -1);
        lua_pop(L, 1);
    }
    lua_settop(L, top);
}

/* Arguments: the function that has the program's as an upvalue, what to attach. */
static int attach_protected(lua_State *L)
{
    attaching *now = lua_touserdata(L, 2);
    ss_lua_attachment *attachment;
    ss_lua_state *state;

    luaL_checkversion(L);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    /* Without a GC canary, which the first capture asks for: a bridge counts the memory from here on
       against its limit, and what a collection frees of it would come on top. */
    state = ss_lua_state_open_early(L);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &object_key) == LUA_TUSERDATA) {
        attachment = attachment_of(L);
    } else {
        attachment = push_new(L);
        set_hooks(L, attachment, now->hooks);
        find_raisers(L, attachment);
        ss_lua_push_main(L);
        lua_pushvalue(L, -2);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &object_key);
        replace_functions(L, attachment);
        set_outside(L, state, attachment);
        attachment->main = lua_tothread(L, -1);
        set_texts(L, now->hooks->texts);
    }
    lua_pushcfunction(L, learn_main);
    (void)lua_setupvalue(L, 1, 1);
    if (attachment) {
        __atomic_add_fetch(&attachment->references, 1, __ATOMIC_RELAXED);
        now->made = attachment;
    }
    return 0;
}

/* Arguments: nil, nothing. */
static int restore_protected(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);
    int debug;

    if (state)
        state->outside = (ss_lua_outside){0};
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &late_key);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &object_key);
    push_debug(L);
    debug = lua_gettop(L);
    if (lua_istable(L, debug)) {
        push_traceback(L, debug);
        if (lua_tocfunction(L, -1) == attached_traceback) {
            lua_pushliteral(L, "traceback");
            lua_getupvalue(L, -2, INSTALLED);
            lua_rawset(L, debug);
        }
    }
    call_kept(L, &kept_key);
    call_kept(L, &uninstall_key);
    return 0;
}

/* ---- What the loader calls -------------------------------------------------------------------*/

/* Call BODY with the value at the top, which goes, and DATA; the error message, if there is one,
   becomes the reason. */
static bool run(lua_State *L, lua_CFunction body, void *data, ss_lua_reason *reason)
{
    const char *text = NULL;
    bool done;

    lua_pushcfunction(L, body);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, data);
    done = lua_pcall(L, 2, 0, 0) == LUA_OK;
    if (done)
        return true;
    if (lua_type(L, -1) == LUA_TSTRING)
        text = lua_tolstring(L, -1, NULL);
    (void)snprintf(reason->text, sizeof reason->text, "%s", text ? text : "Lua raised an error");
    lua_pop(L, 1);
    return false;
}

static ss_lua_attachment *attach(void *state, const ss_lua_hooks *hooks, ss_lua_reason *reason)
{
    attaching now = {.hooks = hooks};
    lua_State *L = state;

    if (lua_status(L) != LUA_OK) {
        (void)snprintf(reason->text, sizeof reason->text, "the coroutine is suspended or dead");
        return NULL;
    }
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        (void)snprintf(reason->text, sizeof reason->text, "not enough memory");
        return NULL;
    }
    lua_pushvalue(L, 1);
    if (!run(L, attach_protected, &now, reason))
        return NULL;
    if (!now.made)
        (void)snprintf(reason->text, sizeof reason->text, "the Lua state is closing");
    return now.made;
}

/* Whether functions may be called in the main coroutine. */
static bool is_usable(lua_State *L)
{
    return lua_status(L) == LUA_OK && lua_checkstack(L, LUA_MINSTACK);
}

static bool keep_caught(ss_lua_attachment *attachment, ss_lua_reason *reason)
{
    lua_State *L = attachment->main;

    if (!L || !is_usable(L)) {
        (void)snprintf(reason->text, sizeof reason->text, "the Lua state cannot run");
        return false;
    }
    lua_pushnil(L);
    attachment->keeps_caught = run(L, keep_protected, NULL, reason);
    return attachment->keeps_caught;
}

static void release(ss_lua_attachment *attachment, bool restore)
{
    lua_State *L = attachment->main;
    ss_lua_reason reason;

    if (restore && L) {
        /* Even if nothing can be restored: then the hooks are not called any more. */
        attachment->main = NULL;
        set_texts(L, NULL);
        end_guests(L);
        if (is_usable(L)) {
            lua_pushnil(L);
            (void)run(L, restore_protected, NULL, &reason);
        }
    }
    unref(attachment);
}

static bool bind_to(void *(*find)(void *data, const char *name), void *data, ss_lua_reason *reason)
{
    const char *missing = ss_lua_bind(find, data), *wrong = missing ? NULL : ss_lua_check();

    if (missing)
        (void)snprintf(reason->text, sizeof reason->text,
                       "it does not export the function %s of Lua", missing);
    else if (wrong)
        (void)snprintf(reason->text, sizeof reason->text, "%s", wrong);
    else
        ss_lua_source_register();
    return !missing && !wrong;
}

#if SS_LUA_JIT
/* Its `load` catches an error as if the hook that raised it still ran, so no hook is called from then
   on: until a coroutine yields, which LuaJIT lets hooks do. */
static int yield(lua_State *L)
{
    return lua_yield(L, 0);
}

static int resume_once(lua_State *L)
{
    lua_State *thread = lua_newthread(L);
    int results;

    lua_pushcfunction(thread, yield);
    (void)lua_resume(thread, L, 0, &results);
    return 0;
}

static void let_hooks_run(lua_State *L)
{
    ss_lua_reason reason;

    if (lua_status(L) != LUA_OK || !lua_checkstack(L, LUA_MINSTACK))
        return;
    lua_pushnil(L);
    (void)run(L, resume_once, NULL, &reason);
}
#else
static void let_hooks_run(lua_State *L)
{
    (void)L;
}
#endif

static uint64_t find_lost(const ss_lua_attachment *attachment)
{
    lua_State *L = attachment->main;
    const ss_lua_state *state =
        L ? ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX)) : NULL;
    uint64_t number = 0;

    if (state && state->outside.raised && ss_lua_is_interrupted(L, state)) {
        number = state->outside.number;
        let_hooks_run(L);
    }
    return number;
}

static void show_locals(bool shows)
{
    atomic_store(&ss_lua_the_shared->shows_locals, shows);
}

__attribute__((visibility("default"))) extern const ss_lua_loadable stacksplice_lua_loadable;
const ss_lua_loadable stacksplice_lua_loadable = {.size = sizeof stacksplice_lua_loadable,
                                                  .version = LUA_VERSION_NUM,
                                                  .bind = bind_to,
                                                  .attach = attach,
                                                  .keep_caught = keep_caught,
                                                  .release = release,
                                                  .owns = ss_lua_owns,
                                                  .find_failed = ss_lua_find_failed,
                                                  .find_syntax = ss_lua_find_syntax,
                                                  .show_locals = show_locals,
                                                  .interrupt = ss_lua_interrupt_outside,
                                                  .find_lost = find_lost};
