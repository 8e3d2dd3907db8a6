/* Stacks: what other folders need of the frame source. */
#ifndef SS_LUA_FRAMES_H
#define SS_LUA_FRAMES_H

#include "version/call_info.h"
#include "life/life.h"

/* One activation in a capture, for callers that need more than its token. */
typedef struct ss_lua_seen {
    uintptr_t element; /* the token, or the raw address of a C activation's own frame */
    lua_State *L;
    ss_lua_ci ci;
} ss_lua_seen;

/* The activations of a capture, from the inside outward.  If there are more than CAPACITY it has
   both ends. */
typedef struct ss_lua_activation_log {
    ss_lua_seen *seen;
    uint32_t capacity, count;
    lua_State *states[SS_LUA_DISPLACED]; /* the distinct coroutines, innermost first */
    uint32_t state_count;
    uintptr_t stack_low, stack_high; /* of the capturing thread */
} ss_lua_activation_log;

/* The entry of the activation with that NUMBER in LOG, if LOG still has it. */
static inline ss_lua_seen *ss_lua_seen_at(const ss_lua_activation_log *log, uint32_t number)
{
    uint32_t inner = log->capacity / 2;

    return &log->seen[number < inner ? number : inner + (number - inner) % (log->capacity - inner)];
}

/* Note in LOG that ELEMENT of the stack is the activation CI. */
static inline void ss_lua_log_activation(ss_lua_activation_log *log, uintptr_t element,
                                         lua_State *L, uintptr_t ci)
{
    if (log->capacity)
        *ss_lua_seen_at(log, log->count) = (ss_lua_seen){element, L, ss_lua_ci_of(L, ci)};
    log->count++;
}

/*
 * Like stacksplice_capture_ends, for code that runs in a C function called by L, with at least
 * eight free slots in L.  LOG may be NULL.  Returns the number of frames stored.
 */
uint32_t ss_lua_capture(lua_State *L, const void *above, uint32_t max, uintptr_t *frames,
                        ss_lua_activation_log *log);

/* The coroutines on this thread's stack, of all states, in LOG, and whether L is one.  Also in a
   signal handler. */
void ss_lua_log_coroutines(const void *above, ss_lua_activation_log *log);
bool ss_lua_runs(const ss_lua_activation_log *log, const lua_State *L);

#if SS_LUA_JIT
/* Whether L, which is alive, runs on the stack of LOG.  LuaJIT keeps the innermost frame in C that it
   entered L from; in its loop and in compiled code nothing else says what runs. */
bool ss_lua_is_entered_here(const ss_lua_activation_log *log, const lua_State *L);
#endif

/* The activations of a coroutine that failed, as tokens; both ends of more than MAX.  FRAMES has
   room for twice MAX: each may have a gap of tail calls.  LOG may be NULL. */
uint32_t ss_lua_dead_frames(lua_State *dead, uint32_t max, uintptr_t *frames,
                            ss_lua_activation_log *log);

/* The activations of L, which runs a C function of ours, from CI up to STOP, as tokens; both ends of more
   than MAX.  FRAMES has room for MAX, gaps of tail calls included. [-0, +0, -], eight slots */
uint32_t ss_lua_run_frames(lua_State *L, ss_lua_state *state, uintptr_t ci, uintptr_t stop,
                           uint32_t max, uintptr_t *frames);

/* Whether the coroutine DEAD, which has just failed, may have lost what its innermost function, one in C, had
   called.  HAS_VALUE: the error value is still at its top. [-0, +0, -] */
#if SS_LUA_JIT
bool ss_lua_has_lost_frames(lua_State *dead, bool has_value);
#else
static inline bool ss_lua_has_lost_frames(lua_State *dead, bool has_value)
{
    (void)dead;
    (void)has_value;
    return false;
}
#endif

/* Where the activation CI of L goes on, a function in Lua; NULL where this copy of Lua hides it. */
const void *ss_lua_saved_pc(lua_State *L, ss_lua_ci ci);

/* Whether L runs in the activation CI, or will return to it.  A copy of Lua whose layout is unknown may
   have it under a thousand others: then this is true. [-0, +0, -] */
bool ss_lua_has_activation(lua_State *L, ss_lua_ci ci);

/* L's innermost protected call by C, for a handler that runs inside.  *CALLED: the function that this call
   runs now, if that may be a method __close of what has failed inside; else 0. [-0, +0, -] */
ss_lua_call_place ss_lua_innermost_call(lua_State *L, ss_lua_ci *called);

/* Whether a script calls the running function, in C, or has it as the message handler of XPCALL, in LuaJIT of
   the library's own: not as that of a protected call of C's, nor where that is not known. [-0, +0, -] */
bool ss_lua_serves_script(lua_State *L, lua_CFunction xpcall);
/* One of the running function with its handler, in LuaJIT its function, at INDEX. [-0, +0, -] */
ss_lua_call_place ss_lua_place_of(lua_State *L, int index);

/* The token of a gap. */
uintptr_t ss_lua_gap(const char *reason);

/* The gap outside of a function that was entered by a tail call. */
#define SS_LUA_TAIL_CALLS "Lua tail calls replaced the frames of the callers"

/* The gap between what an error was when pcall caught it and where it was raised again. */
#define SS_LUA_CAUGHT_HERE "caught by pcall here, raised again"

/* Captures do not keep longer function names. */
enum { SS_LUA_NAME_SIZE = 96 };

/* The name under which a loaded module holds the function VALUE points to, or false.
   [-0, +0, -], five slots in L */
bool ss_lua_global_name(lua_State *L, const void *value, char name[SS_LUA_NAME_SIZE]);

#endif
