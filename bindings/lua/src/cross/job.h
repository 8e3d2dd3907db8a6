/* The protected part of a border: an error value becomes the thread's error. */
#ifndef SS_LUA_JOB_H
#define SS_LUA_JOB_H

#include "cross/cross.h"

/* Arguments and results of a protected part. */
typedef struct ss_lua_job {
    ss_lua_origin origin;
    HRESULT hr;
    IUnknown *exception;
    bool unseen; /* no handler saw it: an equal value without identity was another error */
} ss_lua_job;

/* Call BODY with the value at the top, which stays, and with DATA.  Returns whether BODY finished;
   what it raised, for want of memory, is dropped. [-0, +0, -], four slots */
bool ss_lua_call_protected(lua_State *L, lua_CFunction body, void *data);

/* Originate the error of the value at the top, which stays, or put it back.  Without memory this is
   the error that needs none. [-0, +0, -], four slots */
HRESULT ss_lua_originate_top(lua_State *L, ss_lua_job *now);

/* A plain pcall inside caught an interrupt, and then the call succeeded, or failed with another
   error.  The result is the interrupt all the same.  True if CALLED had one; the error is in the
   slot. */
bool ss_lua_take_interrupt(lua_State *L, lua_State *called, const void *above, HRESULT *hr);

/* Whether ss_lua_take_interrupt can find one. */
static inline bool ss_lua_may_be_interrupted(void)
{
    return atomic_load_explicit(&ss_lua_the_shared->interrupted_states, memory_order_relaxed) != 0;
}

/* E_INVALIDARG, which is also the thread's error. */
HRESULT ss_lua_invalid(const char *message);

/* The same.  Lua does not check these numbers and would read and write below its stack. */
HRESULT ss_lua_invalid_count(void);

#endif
