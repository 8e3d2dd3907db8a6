/*
 * What all copies of the binding that call one copy of Lua share.  A program may have the static
 * library, the module, and C modules that contain the static library.  They share the data of the
 * copy whose frame source is registered.
 */
#ifndef SS_LUA_SHARED_H
#define SS_LUA_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>
#include <lauxlib.h>

#include <stacksplice/lua.h>
#include <stacksplice/script.h>

#include "life/compat.h"

/* Separates a function of ours, which must not be inlined, from its callers: see source.h. */
#define SS_LUA_HERE() __builtin_frame_address(0)
#define SS_LUA_NOINLINE __attribute__((noinline))

/*
 * Marks each lua_CFunction that scripts or hosts know: stacks do not show its activations.  The
 * linker puts all of a copy into one section.
 */
#define SS_LUA_OWN __attribute__((noinline, section("ss_lua_own")))

typedef struct ss_lua_state ss_lua_state;

/* The code of a copy's own functions, from START up to END. */
typedef struct ss_lua_code {
    const char *start, *end;
} ss_lua_code;

enum { SS_LUA_COPIES = 16, SS_LUA_KNOWN_THREADS = 64 };
typedef struct ss_lua_shared {
    uint32_t size;
    _Atomic(ss_lua_state *) states;
    pthread_mutex_t lock;                            /* for writers to the list */
    atomic_uint interrupted_states;                  /* that a successful call checks */
    _Atomic(const ss_lua_code *) own[SS_LUA_COPIES]; /* each copy's */
    /* Coroutines by address whose state is open and has nothing to do: calls need to check no
       more. */
    _Atomic(lua_State *) known[SS_LUA_KNOWN_THREADS];
    atomic_bool shows_locals; /* errors of all states keep local variables */
} ss_lua_shared;

/* Hidden, so that code reads it without the table of global offsets. */
extern __attribute__((visibility("hidden"))) ss_lua_shared *ss_lua_the_shared;

/* Whether FUNCTION is an own function, of any copy. */
bool ss_lua_is_own_function(uintptr_t function);

/* The place in the table of known coroutines that L has. */
static inline _Atomic(lua_State *) *ss_lua_known_place(lua_State *L)
{
    return &ss_lua_the_shared->known[((uintptr_t)L >> 4) % SS_LUA_KNOWN_THREADS];
}

/* Make every call check once: a state closed, or has something to do. */
void ss_lua_forget_known(void);

/* ---- The frame source ------------------------------------------------------------------------*/

/* What the frame source of this copy provides; static. */
typedef struct ss_lua_frame_source {
    void (*collect)(stacksplice_walk *walk, void *data);
    uint8_t (*classify)(uintptr_t ip, uintptr_t function, void *data);
    void (*prepare)(void); /* learn what captures need: the first may be in a signal handler */
    size_t cache_size;     /* of its cache for each state, zeroed at first */
    /* A new GC canary: no function of STATE has died since, or will before it is gone. [-0, +0,
       m] */
    void (*planted)(lua_State *L, ss_lua_state *state);
} ss_lua_frame_source;

/* Set before any state is opened: when this copy is loaded. */
extern const ss_lua_frame_source *ss_lua_the_source;

/* Register it; idempotent. */
void ss_lua_source_register(void);

#endif
