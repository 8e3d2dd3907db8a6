/* Borders: calls, raises and coroutines. */
#ifndef SS_LUA_CROSS_H
#define SS_LUA_CROSS_H

#include "value/value.h"

/* Remember the value at the top, protected; ABOVE as in origin.  [-0, +0, -] */
void ss_lua_note_raise(lua_State *L, const void *above);

/* Hold TIES of a value without identity that is about to be raised, or returned; the number by which to
   ask for them. */
uintptr_t ss_lua_hold_raised(ss_lua_state *state, const stacksplice_ties *ties);

/* What is held under MARK; NULL if clean-up code has raised too much since, or MARK is 0. */
ss_lua_raising *ss_lua_held_raised(ss_lua_state *state, uintptr_t mark);

/* Let it go. */
void ss_lua_release_raised(ss_lua_state *state, ss_lua_raising *raising);

/* The running C function calls lua_error next with the value at the top, of RAISING: a handler recognises
   it by that function, and by a mark below the value, which only this raise has. [-1, +2, -], 1 slot
   more */
void ss_lua_mark_raiser(lua_State *L, ss_lua_raising *raising);
/* The running function is about to raise the state's last value by itself. [-0, +0, -], 1 slot */
void ss_lua_set_raiser(lua_State *L, ss_lua_state *state);

/* Push the function of an activation of THREAD. [-0, +1, -], a slot in THREAD, too, which an error there has
   left */
void ss_lua_push_function_of(lua_State *L, lua_State *thread, lua_Debug *activation);
/* What ss_lua_mark_raiser does, of the state's last value, held now. */
void ss_lua_mark_last(lua_State *L, ss_lua_state *state);

/* Whether the value at INDEX of L is the one that the function at LEVEL of THREAD is now raising.  Then
   it is the last value again.  True only once for each raise. [-0, +0, -], 3 slots in L and one in
   THREAD */
bool ss_lua_take_raising(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                         int level);

/* ---- Errors in methods __close (closing.c) ---------------------------------------------------------*/

/* Push the error object of the error whose place in CALL the one now raised takes, and return true, if
   CALLED closes a variable because of it.  Before 5.4 nothing is closed. [-0, +(0|1), m] */
#if SS_LUA_CLOSES
bool ss_lua_push_displaced(lua_State *L, ss_lua_state *state, ss_lua_ci called,
                           ss_lua_call_place call, const void *above);
#else
static inline bool ss_lua_push_displaced(lua_State *L, ss_lua_state *state, ss_lua_ci called,
                                         ss_lua_call_place call, const void *above)
{
    (void)L;
    (void)state;
    (void)called;
    (void)call;
    (void)above;
    return false;
}
#endif

/* ---- Protected work ---------------------------------------------------------------------------*/

/* Arguments and results of a protected part. */
typedef struct ss_lua_job {
    ss_lua_origin origin;
    HRESULT hr;
    IUnknown *exception;
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

/* ---- Raised again -----------------------------------------------------------------------------*/

/* The running function, resume, is about to return the value at the top, without identity, which has
   TIES, to its caller. [-0, +0, -], 4 slots */
void ss_lua_remember_resumed(lua_State *L, ss_lua_state *state, const stacksplice_ties *ties);

/* Whether the value at INDEX of L is that at ORIGINAL, also behind the place of a caller of LEVEL of THREAD, as
   `error` puts it in front. */
bool ss_lua_has_text(lua_State *L, int index, int original, lua_State *thread, int level);

/* Whether the value at INDEX, raised by the function at LEVEL of THREAD, is that value, also with a
   place in front.  Then it is the last value again. [-0, +0, m], 8 slots */
bool ss_lua_is_raised_again(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                            int level);

/* Whether one of both knows that value, which another handler may ask next: then it is the last value again.
   [-0, +0, m], 8 slots */
bool ss_lua_sees_raised(lua_State *L, ss_lua_state *state, int index, lua_State *thread, int level);

/* The exception of what the function at LEVEL of L, one of ours, raises again now; or NULL. [-0, +0, -], a slot */
stacksplice_exception *ss_lua_raised_at(lua_State *L, int level);

/* ---- What pcall caught (caught.c) --------------------------------------------------------------*/

/* What install puts in the places of pcall and xpcall: they keep of each error that they catch what ended on
   the way. */
int ss_lua_keeping_pcall(lua_State *L);
int ss_lua_keeping_xpcall(lua_State *L);

/* What the value at INDEX of L, which the function at LEVEL of THREAD raises, was when pcall caught it: if
   it is certainly the value that pcall returned, also with a place in front; else NULL. [-0, +0, -], 4
   slots in both */
ss_lua_caught *ss_lua_find_caught(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                                  int level);

/* The same.  True if its whole stack was known: then it is the last value again.  Else a copy is in
   *CAUGHT, whose number is 0 if it is another error. [-0, +0, m], 8 slots */
bool ss_lua_take_caught(lua_State *L, ss_lua_state *state, int index, lua_State *thread, int level,
                        ss_lua_caught *caught);

/* Push the error object of an error that pcall caught and whose text is in that value, and return true, if
   the function that calls that at LEVEL has it in a variable still. [-0, +(0|1), m], 8 slots */
bool ss_lua_push_caught(lua_State *L, ss_lua_state *state, int index, int level, const void *above);

/* Forget all that was caught. */
void ss_lua_forget_all_caught(ss_lua_state *state);

/* ---- Interrupts (interrupt.c) -----------------------------------------------------------------*/

/* Whether ERROR is a foreign interrupt that plain protected calls may not swallow. */
bool ss_lua_is_interrupt(IUnknown *error);

/* Mark the state: raise the value at the top, an error object, again until the mark is cleared.
   [-0, +0, m] */
void ss_lua_interrupt_set(lua_State *L, ss_lua_state *state, const void *above);

/* Whether the function called in L was interrupted: the mark is still set, and is L's. */
bool ss_lua_is_interrupted(lua_State *L, const ss_lua_state *state);

/* Push the error object to raise again, or nil. [-0, +1, -] */
void ss_lua_push_interrupt(lua_State *L);

/* Push the error that ends the late work of a program outside; false if none does. [-0, +(0|1), m] */
static inline bool ss_lua_push_outside(lua_State *L, const ss_lua_state *state, bool again)
{
    return state->outside.push && state->outside.push(L, state->outside.number, again);
}

/* LuaJIT has one hook for all coroutines: it is noted as that of the main one. */
static inline lua_State *ss_lua_owner_of_hook(lua_State *L, const ss_lua_state *state)
{
    return SS_LUA_JIT ? state->main : L;
}

/* The hook that L has now. */
static inline ss_lua_displaced ss_lua_hook_of(lua_State *L, const ss_lua_state *state)
{
    return (ss_lua_displaced){ss_lua_owner_of_hook(L, state), lua_gethook(L), lua_gethookmask(L),
                              lua_gethookcount(L)};
}

/*
 * Raise the value at the top past the message handlers of scripts.  Lua would call them first, for
 * what a hook raises even with hooks off, so that nothing ends them.  The protected call that this
 * ends puts its caller's handler back.  Handlers that are C functions without upvalues, as those of
 * hosts, are called. [-1, +0, e]
 */
int ss_lua_raise_interrupt(lua_State *L, const ss_lua_state *state);

/* Whether interrupts are told to the message handler at SLOT: a C function without upvalues, as those of hosts
   and debug.traceback are, or the bridge's.  Not in LuaJIT. */
bool ss_lua_hears_interrupts(const ss_lua_state *state, uintptr_t slot);

/* In a signal handler: let the hook of L run where Lua switches hooks off, in finalizers and in other
   hooks.  An error ends them as any other does. */
void ss_lua_let_hooks_run(lua_State *L);

/* Clear the mark and restore each coroutine's own hook. [-0, +0, -] */
void ss_lua_interrupt_clear(lua_State *L, ss_lua_state *state);

/* ---- Functions of the module -----------------------------------------------------------------*/

int ss_lua_pcall_function(lua_State *L);
int ss_lua_xpcall_function(lua_State *L);
int ss_lua_resume_function(lua_State *L);
int ss_lua_wrap_function(lua_State *L);

#endif
