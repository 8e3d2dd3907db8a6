/*
 * A layout: what was learnt of a copy of Lua, and questions about it.  They need nothing of Lua's
 * headers, so one object of what is declared here does for the bindings of all versions.
 */
#ifndef SS_LUA_LAYOUT_H
#define SS_LUA_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a value is while a call is in progress. */
typedef struct ss_lua_place {
    enum {
        SS_LUA_NOWHERE,
        SS_LUA_REGISTER,
        SS_LUA_SLOT,
        SS_LUA_HALF, /* a slot of 32 bits */
        SS_LUA_DEBUG /* the lua_Debug of a hook */
    } kind;
    uint32_t at; /* DWARF register number, or bytes above the frame's sp */
} ss_lua_place;

/* One call instruction of the interpreter that calls functions in C. */
typedef struct ss_lua_site {
    uintptr_t ip;           /* the return address */
    bool hook;              /* it calls a hook: ci is the activation that was interrupted */
    ss_lua_place state, ci; /* 5.1 and 5.2 have a ci only at a hook's */
} ss_lua_site;

enum { SS_LUA_SITES = 24, SS_LUA_INTERNALS = 256, SS_LUA_APIS = 96 };
enum { SS_LUA_CALLBACKS = 32 };

/* Immutable once it is visible. */
typedef struct ss_lua_layout {
    const char *failure; /* NULL, or why nothing is usable: a gap's reason */
    ss_lua_site sites[SS_LUA_SITES];
    uint32_t site_count;
    uintptr_t internals[SS_LUA_INTERNALS]; /* function starts */
    uint32_t internal_count;
    uintptr_t apis[SS_LUA_APIS]; /* lua_callk and the like: never hidden */
    uint32_t api_count;
    /* Return addresses of the allocator's callers, which are no call sites of C functions. */
    uintptr_t callbacks[SS_LUA_CALLBACKS];
    uint32_t callback_count;
    /* Of LuaJIT: where it has the coroutine that runs, followed by the base of the function in which
       compiled code was entered; 0: unknown. */
    uint32_t current;
    bool knows_state; /* ss_lua_handler_of and ss_lua_hooks_of are right */
} ss_lua_layout;

/* The site with that return address, or NULL. */
const ss_lua_site *ss_lua_site_find(const ss_lua_layout *layout, uintptr_t ip);

/* Whether FUNCTION is one of the API functions. */
bool ss_lua_is_api(const ss_lua_layout *layout, uintptr_t function);

/* Whether FUNCTION is known to be the interpreter's own (and no API function). */
bool ss_lua_is_internal(const ss_lua_layout *layout, uintptr_t function);

/*
 * Whether FUNCTION is between two known ones.  Next to frames of the interpreter it is the
 * interpreter's own, on a path that no script took (a rare step of the collector).
 */
bool ss_lua_is_near(const ss_lua_layout *layout, uintptr_t function);

/* Whether Lua may call the allocator from IP, a return address. */
bool ss_lua_is_callback(const ss_lua_layout *layout, uintptr_t ip);

/*
 * COUNT words, which the kernel reads where it may: Lua's stack may just be moving, and native frames
 * have words that nobody has written.
 */
bool ss_lua_read_words(uintptr_t address, uintptr_t *words, size_t count);

/* The scripts; NULL at the end. */
extern const char *const ss_lua_snippets[];

#endif
