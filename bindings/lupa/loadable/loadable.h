/*
 * The Lua binding as a shared object that finds Lua's functions by name, and what its loader calls.
 * There is one object for each version of Lua.  Each instance of it serves one copy of Lua: a
 * loader maps the file again for a second copy of the version.
 *
 * The loader knows no header of Lua.  A state is given as a pointer, and may be any coroutine of
 * it that is at rest, or runs the C function that calls us.  No function here raises a Lua error,
 * and each leaves Lua's stack as it was.
 */
#ifndef SS_LUA_LOADABLE_H
#define SS_LUA_LOADABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stacksplice/winrt/unknwn.h>

#define SS_LUA_LOADABLE_SYMBOL "stacksplice_lua_loadable"

/* What the program is told of an attached state. */
typedef struct ss_lua_hooks {
    /*
     * A Lua error is being raised whose value is a full userdata with the metatable METATABLE of
     * the registry: BLOCK is its memory.  Frames inside of ABOVE are ours.  The whole stack is
     * live, unless the value came out of a coroutine that failed: then COUNT is not 0, and FRAMES
     * is the stack from inside of the coroutine.  AGAIN: the script raises what it caught, by error
     * or assert.  It runs on the thread that runs Lua, and may not use the state.  Nothing is read of
     * such a userdata.
     */
    void (*raised)(void *data, void *block, const void *above, const uintptr_t *frames,
                   uint32_t count, bool again);
    /*
     * The same of a value that a pcall of the script catches, by the function that keep_caught put in its
     * place: the whole stack is live.
     */
    void (*caught)(void *data, void *block, const void *above, bool again);
    /* The error of what BLOCK has, with a reference, if TEXT has its text; else NULL.  On the thread that runs
       Lua; it may not use the state. */
    IUnknown *(*find_in)(void *data, void *block, const char *text, size_t length,
                         const void *above);
    /*
     * A message handler asked for a traceback: of ERROR, which is borrowed.  NULL first: what was
     * recorded before is not the error of which this handler is told.  On the thread that runs Lua;
     * it may not use the state.
     */
    void (*recorded)(void *data, IUnknown *error);
    /* The state was closed: the hooks are not called any more. */
    void (*closed)(void *data);
    const char *metatable;
    void *data;
    const struct ss_lua_texts
        *texts; /* of its chunks (shared/lua_chunks.h), until it is released */
} ss_lua_hooks;

/* An attached state.  It outlives the state until the program releases it. */
typedef struct ss_lua_attachment ss_lua_attachment;

/* Where attach puts the reason of a failure. */
typedef struct ss_lua_reason {
    char text[240];
} ss_lua_reason;

/* None of these changes the error of the thread. */
typedef struct ss_lua_loadable {
    size_t size;
    int version; /* as LUA_VERSION_NUM */
    /* Bind this instance to a copy of Lua, by the addresses that FIND returns, and give the core
       its frame source.  False with a reason, and then it may be bound to another copy. */
    bool (*bind)(void *(*find)(void *data, const char *name), void *data, ss_lua_reason *reason);
    /* Attach a state: the hooks are told of errors on their way to a traceback.  L is a coroutine at
       rest, of a function in Lua whose first upvalue is a function of the program: called with the
       number of late work, and with whether its error was raised before, it raises that, or does
       nothing if this thread does not do that work.  The upvalue becomes a function of ours that the
       main coroutine is to call, because Lua 5.1 does not tell which one that is.  A second attachment of one state has another handle
       and the hooks of the first.  NULL with a reason. */
    ss_lua_attachment *(*attach)(void *L, const ss_lua_hooks *hooks, ss_lua_reason *reason);
    /* Replace pcall and xpcall, too, by functions that keep what they catch (install{pcall = true}), until
       the handle is released and all is restored.  The second time this does nothing.  False with a
       reason; LuaJIT keeps its own. */
    bool (*keep_caught)(ss_lua_attachment *attachment, ss_lua_reason *reason);
    /* Release a handle.  RESTORE: put the library functions back that attach replaced, each one
       where ours is still there; the hooks are not called any more. */
    void (*release)(ss_lua_attachment *attachment, bool restore);
    /* Whether the coroutine belongs to the state. */
    bool (*owns)(const ss_lua_attachment *attachment, void *coroutine);
    /* The error of a coroutine that was resumed just now and failed, with a reference, or NULL.  Its
       message is TEXT.  If the value that it failed with is one of those that `raised` is told of,
       *BLOCK is its memory, while nobody uses the state; else NULL. */
    IUnknown *(*find_failed)(ss_lua_attachment *attachment, void *coroutine, const char *text,
                             size_t length, const void *above, void **block);
    /* The error of a chunk that could not be compiled just now, with a reference, or NULL.  Its message
       is TEXT; LINE is where it is wrong, if the chunk's text is known, or NULL. */
    IUnknown *(*find_syntax)(ss_lua_attachment *attachment, const char *text, size_t length,
                             const char *line, const void *above);
    /* Whether errors of this copy's states keep the local variables of their frames, from now on.
       Any thread. */
    void (*show_locals)(bool shows);
    /* In a signal handler: what this thread runs in an attached state of this copy is to end by the
       error of the work of that NUMBER.  RESUMED is the coroutine of one that the program is just
       resuming on this thread, without a function of Lua around it, or NULL. */
    void (*interrupt)(uint64_t number, void *resumed);
    /* The number of the work whose error was raised in the state by the former, and which nobody has
       caught: only a function of C lost it; 0: none.  The state is at rest in this thread. */
    uint64_t (*find_lost)(const ss_lua_attachment *attachment);
} ss_lua_loadable;

/* functions.c: NULL, or the name of the first function that is missing. */
const char *ss_lua_bind(void *(*find)(void *data, const char *name), void *data);

/* check.c: NULL, or why the bound copy of Lua cannot be used: it was built with other sizes. */
const char *ss_lua_check(void);

#endif
