/*
 * For programs that embed Lua and for C modules: errors cross between Lua and C with one combined
 * stack and one error object, and keep the script's own value.
 *
 * The functions are a static library (stacksplice::lua), compiled against the host's lua.h and
 * linked to the host's Lua; that may be linked statically and export nothing.  The Lua module
 * (require "stacksplice") is the same code.
 *
 * Marks.  The first bracket of each declaration is that of the Lua manual, [-o, +p, x]: o values
 * are popped, p pushed, and x says when the function raises: '-' never, 'm' only out of memory, 'v'
 * on purpose.  stacksplice.h explains the second bracket.
 *
 * HRESULTs.  LUA_ERRMEM is E_OUTOFMEMORY, LUA_ERRERR is E_UNEXPECTED, LUA_ERRSYNTAX is 80020101.  A
 * table or userdata with an integer field "hresult" that is a failure (read raw, signed or
 * unsigned) has that HRESULT; everything else has E_FAIL.
 *
 * As always in Lua, only one thread at a time may use a state.  A language exception or error
 * object that came from a state may be released on any thread, even after lua_close.
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
 *
 *     luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
 *
 * The functions below also work in a state that never opened it.
 * [-0, +1, m] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int luaopen_stacksplice(lua_State *L);

/*
 * Open the module stacksplice.host, which sets what reports of the whole process leave out or show,
 * installs the crash handler and writes to standard output.  Do not give it to scripts that are confined.
 * [-0, +1, m] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int luaopen_stacksplice_host(lua_State *L);

/*
 * The message handler for lua_pcall: records the combined stack at the raise and returns the error
 * value unchanged, whatever its type.  After the failed call, stacksplice_lua_originate and
 * stacksplice_lua_exception find that stack.  The handler works at both of Lua's stack limits and
 * uses at most 20 slots; a nested call of it only returns the value.
 * [-1, +1, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int stacksplice_lua_handler(lua_State *L);

/*
 * lua_pcall with that handler.  Success: S_OK and the results.  Failure: pops the error value,
 * makes its error the thread's error and returns the failing HRESULT.  A value that has been an
 * error before keeps its error object; any other is originated now.
 *
 * A Python interrupt (KeyboardInterrupt, SystemExit, CancelledError) that a plain pcall caught on
 * the way fails this call, even if the function succeeded.
 * Needs LUA_MINSTACK free slots.
 * Other errors: E_INVALIDARG if the function and NARGS values are not on the stack, or NRESULTS is
 * less than LUA_MULTRET.  It becomes the thread's error too, and nothing is popped.
 * [-(nargs + 1), +(nresults|0), -] [thread: the state's | alloc: on failure]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_pcall(lua_State *L, int nargs,
                                                              int nresults);

/*
 * The same with a message handler that the host keeps on the stack, at index MSGH, so that a call
 * need not put one below its function.  Push it once:
 *     lua_pushcfunction(L, stacksplice_lua_handler);
 * or a function of the host which calls that one and returns the value; it is then the innermost
 * frame.  An error that no such handler saw has the gap STACKSPLICE_GAP_RETURNED.
 * Needs LUA_MINSTACK free slots.
 * Other errors: as stacksplice_lua_pcall; also E_INVALIDARG if MSGH is not positive, or not below
 * the function.
 * [-(nargs + 1), +(nresults|0), -] [thread: the state's | alloc: on failure]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_xpcall(lua_State *L, int nargs,
                                                               int nresults, int msgh);

/*
 * stacksplice_lua_pcall with a deadline.  If the call is not done after MILLISECONDS, the stacks of
 * all threads are reported, and the script gets an error at its next instruction, which plain
 * protected calls in it do not swallow.  NAME says in both what is late, and may be NULL.  FLAGS,
 * of stacksplice/deadline.h, leave out the text or the file of the report.
 *
 *     hr = stacksplice_lua_pcall_within(L, 1, 1, 5000, 0, "pricing");   // five seconds
 *
 * A late call fails with 800705B4, HRESULT_FROM_WIN32(ERROR_TIMEOUT).  C code that hangs below the
 * script is reported, but not interrupted until it returns to Lua.  The deadline takes some memory
 * of Lua's.  The thread must not block the signal; docs/how-to/sandboxes-and-limits.md has more.
 * Needs LUA_MINSTACK free slots.
 * Other errors: as stacksplice_lua_pcall; also E_INVALIDARG if FLAGS has unknown ones.
 * [-(nargs + 1), +(nresults|0), -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_pcall_within(
    lua_State *L, int nargs, int nresults, uint32_t milliseconds, uint32_t flags, const char *name);

#if LUA_VERSION_NUM >= 502
#if LUA_VERSION_NUM == 502 /* has no names for what 5.3 passes to a continuation */
typedef intptr_t lua_KContext;
typedef int (*lua_KFunction)(lua_State *L, int status, lua_KContext context);
#endif
/*
 * stacksplice_lua_pcall for a call that may yield, from Lua 5.2 on.  If it yields, this function does not return;
 * Lua later calls K with CONTEXT and a status: LUA_YIELD after success, or the failing (negative)
 * HRESULT after an error, which is then the thread's.  K finds the stack as it was below the
 * function, then the results.
 * Needs LUA_MINSTACK free slots.
 * Other errors: as stacksplice_lua_pcall.
 * [-(nargs + 1), +(nresults|0), m] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_pcallk(lua_State *L, int nargs,
                                                               int nresults, lua_KContext context,
                                                               lua_KFunction k);
#endif

/*
 * lua_resume that originates failures.  S_OK: the coroutine returned, with *NRESULTS results on its
 * stack.  S_FALSE: it yielded them.  Failure: the function captures the coroutine's stack, then
 * closes the coroutine as lua_closethread does; its stack is empty and *NRESULTS is 0.  A coroutine
 * that cannot be resumed (it is running, or has returned) fails too and stays as it is, without the
 * NARGS values.  FROM may be NULL.  Needs LUA_MINSTACK free slots in L.
 * Errors, before anything runs: E_POINTER if nresults is NULL; E_INVALIDARG if L has no NARGS
 * values, which becomes the thread's error too.
 * [-(nargs + 1|nargs), +*nresults, -] [thread: the state's | alloc: on failure]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_resume(lua_State *L, lua_State *from,
                                                               int nargs, int *nresults);

/*
 * Make the error value at INDEX the thread's error and return its failing HRESULT.  The value stays
 * on the stack.  Needs LUA_MINSTACK free slots.
 *
 * A value that the handler saw has the stack of its raise.  A value that a plain lua_pcall caught
 * has the gap STACKSPLICE_GAP_RETURNED and the stack from here on.  A value that came from another
 * language is that language's error again.
 *
 * Strings, numbers, booleans and nil have no identity.  Such a value is the error that the handler saw
 * on its way to a call of the function that runs now, in the same coroutine, if that error was not
 * originated yet; otherwise it is a new error, even if its text is equal.  So call this function before
 * another lua_pcall, with the value where lua_pcall left it.  If the handler stands directly below the
 * function that is called, you may remove it before.
 * Errors: E_OUTOFMEMORY; E_INVALIDARG if there is nothing at INDEX.  Both become the thread's
 * error.
 * [-0, +0, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_originate(lua_State *L, int index);

/*
 * The same for a value that came with STATUS, which gives the HRESULT if the value has none:
 * luaL_loadbuffer's LUA_ERRSYNTAX, lua_pcall's LUA_ERRMEM and LUA_ERRERR.
 * [-0, +0, -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_originate_status(lua_State *L, int index,
                                                                         int status);

/*
 * Raise the thread's error in Lua.  Never returns; the attribute keeps the compiler from turning
 * the call into a jump, which would lose the caller's frame.  Write
 *
 *     return stacksplice_lua_raise(L, hr);
 *
 * with no C++ object alive.  An error that a value of this state was the origin of raises that very
 * value; any other raises an error object (see the module's documentation).  The error gets one
 * propagation node and leaves the thread's slot.  An error with another HRESULT in the slot is
 * stale: the function raises a new error for HR.  A success code raises an argument error.
 * [-0, +1, v] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int stacksplice_lua_raise(lua_State *L, stacksplice_hresult hr)
    __attribute__((noreturn));

/*
 * For bridges that raise by themselves: push what stacksplice_lua_raise would raise, which the
 * running C function raises next.  The error leaves the thread's slot.  Without memory the value is
 * Lua's message for that.  A success code is E_UNEXPECTED.  Returns 1; 0 where the stack is full, and
 * then nothing is pushed.
 * [-0, +(0|1), -] [thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API int stacksplice_lua_push_error(lua_State *L, stacksplice_hresult hr);

/*
 * Allow the scripts of L's state, with all its coroutines, to read source lines (zero: forbid it
 * again).  A script chooses the names of its chunks, so a script that may read source lines can
 * read any file that this process can open, line by line.  Allow it only where scripts can open
 * files anyway.
 *
 * Until a host allows it, the reports that a script asks for (err:text(), err:json()) open no file
 * and do not reveal whether one exists.  The host's own reports (stacksplice_format) always have
 * source lines.
 * [-0, +0, m] [thread: the state's | alloc: no]
 */
STACKSPLICE_LUA_API void stacksplice_lua_allow_source_lines(lua_State *L, int allow);

#ifndef STACKSPLICE_NO_WINRT
/*
 * The language exception of the error value at INDEX: its present one, or a new one.  For an error
 * object that came from elsewhere it is that error's own, which can be NULL (S_FALSE).
 * Needs LUA_MINSTACK free slots.
 * Errors: E_POINTER if out is NULL; E_INVALIDARG if there is nothing at INDEX; E_OUTOFMEMORY.
 * [-0, +0, -] [own: caller releases *out | thread: the state's | alloc: yes]
 */
STACKSPLICE_LUA_API stacksplice_hresult stacksplice_lua_exception(lua_State *L, int index,
                                                                  IUnknown **out);

/*
 * Push the error value of LANGUAGE_EXCEPTION and return nonzero.  Return 0 and push nothing if it
 * does not belong to this state, or its value is gone.
 * [-0, +(0|1), -] [own: borrows | thread: the state's | alloc: no]
 */
STACKSPLICE_LUA_API int stacksplice_lua_push(lua_State *L, IUnknown *language_exception);
#endif

#ifdef __cplusplus
}
#endif
#endif
