/*
 * For programs that embed Lua and for C modules: errors that cross between Lua and C with one
 * combined stack, one error object and the script's own value kept.
 *
 * The functions are a static library (stacksplice::lua) that is compiled against the host's own
 * lua.h and calls the host's own Lua, so a Lua that is linked statically and exports nothing works
 * too.  The Lua module (require "stacksplice") is the same code.
 *
 * Marks.  The bracket of each declaration is the one of the Lua manual: [-o, +p, x] with o the
 * number of values popped, p pushed, and x when it raises: '-' never, 'm' only out of memory,
 * 'v' by purpose.  The second bracket is explained in stacksplice.h.
 *
 * HRESULTs.  LUA_ERRMEM is E_OUTOFMEMORY, LUA_ERRERR is E_UNEXPECTED, LUA_ERRSYNTAX is 80020101; a
 * table or userdata with an integer field "hresult" (read raw; failing, as a signed or unsigned
 * number) has that one; everything else is E_FAIL.
 *
 * A state may be used by one thread at a time, as always in Lua.  A language exception or error
 * object that came from a state may be released on any thread, and after lua_close.
 */
#ifndef STACKSPLICE_LUA_H
#define STACKSPLICE_LUA_H

#ifdef __cplusplus
#include <lua.hpp>
#else
#include <lua.h>
#endif

#include <stacksplice/stacksplice.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef STACKSPLICE_LUA_API
#define STACKSPLICE_LUA_API
#endif

/*
 * Open the whole module; no Lua file is needed:
 *     luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
 * The functions below also work in a state that never opened it.
 * [-0, +1, m] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int luaopen_stacksplice(lua_State *L);

/*
 * The message handler for lua_pcall: remembers the combined stack at the raise and gives the error
 * value back unchanged, whatever its type.  After the failed call stacksplice_lua_originate or
 * stacksplice_lua_exception find what it remembered.  It may run at both of Lua's stack limits,
 * uses at most 20 slots, and a call of it while another one runs only passes the value through.
 * [-1, +1, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int stacksplice_lua_handler(lua_State *L);

/*
 * lua_pcall with that handler.  Success: S_OK and the results.  Failure: the thread's error is the
 * error value's, originated now or, where the value has been an error before, the very same error
 * object; the value is popped and the failing HRESULT returned.
 *
 * A Python interrupt (KeyboardInterrupt, SystemExit, CancelledError) that a plain pcall inside
 * caught comes out here, also when the call succeeded.
 * Needs LUA_MINSTACK free slots.
 * Errors besides: E_INVALIDARG if the function and NARGS values are not on the stack or NRESULTS is
 * less than LUA_MULTRET; it is the thread's too, and nothing is popped.
 * [-(nargs + 1), +(nresults|0), -] [thread: the state's | alloc: on failure]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_pcall(lua_State *L, int nargs,
                                                              int nresults);

/*
 * The same for a call that may yield.  When it yields this function does not return: K is called
 * later, with CONTEXT, and with LUA_YIELD as status after success or the failing (negative) HRESULT
 * after an error, which then is the thread's.  K finds the stack as it was below the function, then
 * the results.
 * Needs LUA_MINSTACK free slots.
 * Errors besides: as stacksplice_lua_pcall.
 * [-(nargs + 1), +(nresults|0), m] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_pcallk(lua_State *L, int nargs,
                                                               int nresults, lua_KContext context,
                                                               lua_KFunction k);

/*
 * lua_resume whose failure is originated.  S_OK: the coroutine returned, *NRESULTS results are on
 * its stack.  S_FALSE: it yielded, likewise.  Failure: its stack is captured while it still is
 * there, then it is closed as lua_closethread does, its stack is empty and *NRESULTS is 0.  One
 * that cannot be resumed (it is running, or has returned) fails too and is left as it is; the NARGS
 * values are gone.  FROM may be NULL.  Needs LUA_MINSTACK free slots in L.
 * Errors: E_POINTER if nresults is NULL, E_INVALIDARG if L has no NARGS values (the thread's too);
 * then nothing ran.
 * [-(nargs + 1|nargs), +*nresults, -] [thread: the state's | alloc: on failure]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_resume(lua_State *L, lua_State *from,
                                                               int nargs, int *nresults);

/*
 * Make the error value at INDEX the thread's error and return its failing HRESULT.  A value that
 * the handler has seen brings the stack of its raise; one that a plain lua_pcall caught has the gap
 * STACKSPLICE_GAP_RETURNED and the stack from here on; one that came from another language is that
 * language's error again.  Strings, numbers, booleans and nil have no identity: one is the error
 * that the handler or stacksplice_lua_raise has seen last, if it equals that one's value, until
 * that was originated here or by a call above; from then on an equal value is a new error.  The
 * value stays on the stack.  Needs LUA_MINSTACK free slots.
 * Errors: E_OUTOFMEMORY, E_INVALIDARG if there is nothing at INDEX; these too are the thread's.
 * [-0, +0, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_originate(lua_State *L, int index);

/*
 * The same for a value that came with STATUS, which decides the HRESULT when the value has none of
 * its own: luaL_loadbuffer's LUA_ERRSYNTAX, lua_pcall's LUA_ERRMEM and LUA_ERRERR.
 * [-0, +0, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_originate_status(lua_State *L, int index,
                                                                         int status);

/*
 * Raise the thread's error in Lua; never returns, and says so to the compiler: it then keeps the
 * caller's frame, which would be missing in the stack after a sibling call.  Write
 *     return stacksplice_lua_raise(L, hr);
 * with no C++ object alive.  An error whose origin is a value of this state raises that very value;
 * any other raises an error object (see the module's documentation).  The error gets one
 * propagation node and leaves the thread's slot.  A slot that holds an error of another HRESULT is
 * stale: a fresh error for HR is raised.  A success code raises an argument error.
 * [-0, +1, v] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int stacksplice_lua_raise(lua_State *L, stacksplice_hresult hr)
    __attribute__((noreturn));

/*
 * Allow the scripts of L's state and all its coroutines to read source lines (zero: no longer).
 * A script chooses what its chunks are called, so one that may can read line by line whatever file
 * this process may open: allow it where scripts can open files anyhow, such as in a program's own.
 *
 * Until a host has allowed it, what a script gets of an error (err:text(), err:json()) opens no
 * file and does not tell whether one is there.  What the host asks for itself (stacksplice_format)
 * has source lines in any case.
 * [-0, +0, m] [thread: the state's | alloc: no]
 */
STACKSPLICE_LUA_API void stacksplice_lua_allow_source_lines(lua_State *L, int allow);

#ifndef STACKSPLICE_NO_WINRT
/*
 * The language exception of the error value at INDEX: the one it has already, or a new one.  Of an
 * error object that came from elsewhere it is that error's own, which can be NULL (S_FALSE).
 * Needs LUA_MINSTACK free slots.
 * Errors: E_POINTER if out is NULL; E_INVALIDARG if there is nothing at INDEX; E_OUTOFMEMORY.
 * [-0, +0, -] [own: caller releases *out | thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_exception(lua_State *L, int index,
                                                                  IUnknown **out);

/*
 * Push the error value that LANGUAGE_EXCEPTION stands for and return nonzero; or push nothing and
 * return 0 when it is not of this state, or its value is gone.
 * [-0, +(0|1), -] [own: borrows | thread: the state's | alloc: no]
 */
STACKSPLICE_LUA_API int stacksplice_lua_push(lua_State *L, IUnknown *language_exception);
#endif

#ifdef __cplusplus
}
#endif
#endif
