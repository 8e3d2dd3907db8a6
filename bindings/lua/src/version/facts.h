/*
 * What the versions of Lua have or do, each as a fact with a name: 1, or 0 if this one does not.  This
 * folder alone compares versions; all other files ask for a fact.  SS_LUA_JIT, which the build sets, is
 * LuaJIT, whose version is that of Lua 5.1.  Included after lua.h.
 */
#ifndef SS_LUA_FACTS_H
#define SS_LUA_FACTS_H

#ifndef SS_LUA_JIT
#define SS_LUA_JIT 0
#endif

/* ---- Activations and functions ---------------------------------------------------------------*/

/* lua_Debug names an activation by its number in an array that Lua moves, and only the activation's own
   coroutine knows that number; else by its address. */
#define SS_LUA_NUMBERS_CALLS (LUA_VERSION_NUM == 501)
/* Lua calls functions in C without keeping their activation: it follows from the order. */
#define SS_LUA_BY_ORDER (LUA_VERSION_NUM < 503)
/* A tail call that left no activation has a level of its own. */
#define SS_LUA_TAIL_CALLS_HAVE_LEVELS (LUA_VERSION_NUM == 501)
/* The tag of a value says whether a function is one in C. */
#define SS_LUA_TAGS_TELL_C (LUA_VERSION_NUM >= 502)
/* Lua keeps where an activation goes on that a hook interrupted only when it is asked for the line. */
#define SS_LUA_STORES_PLACE_WHEN_ASKED (LUA_VERSION_NUM == 501 && !SS_LUA_JIT)
/* Variables can be closed by an error; coroutine.wrap then closes the coroutine. */
#define SS_LUA_CLOSES (LUA_VERSION_NUM >= 504)

/* ---- Functions of the C API ------------------------------------------------------------------*/

/* lua_callk, lua_pcallk and lua_yieldk; what such a continuation is: a function in C that asks
   lua_getctx, or one that is told the status and the context. */
#define SS_LUA_CONTINUES (LUA_VERSION_NUM >= 502)
#define SS_LUA_CONTINUES_BY_GETCTX (LUA_VERSION_NUM == 502)
#define SS_LUA_TELLS_CONTINUATIONS (LUA_VERSION_NUM >= 503)
/* lua_arith, lua_compare, lua_len and the globals' functions, which were others or macros before. */
#define SS_LUA_HAS_ARITH (LUA_VERSION_NUM >= 502)
#define SS_LUA_HAS_GETI (LUA_VERSION_NUM >= 503)
/* Userdata with several values. */
#define SS_LUA_HAS_USER_VALUES (LUA_VERSION_NUM >= 504)
/* lua_resetthread is a function, and neither absent nor a macro. */
#define SS_LUA_HAS_RESETTHREAD (LUA_VERSION_NUM == 504)
#define SS_LUA_HAS_CLOSESLOT (LUA_VERSION_NUM >= 504 && LUA_VERSION_RELEASE_NUM >= 50403)
#define SS_LUA_HAS_CLOSETHREAD (LUA_VERSION_NUM >= 504 && LUA_VERSION_RELEASE_NUM >= 50406)
#define SS_LUA_HAS_TYPEERROR (LUA_VERSION_NUM >= 504)
/* luaL_traceback; else only scripts have debug.traceback, and may replace it. */
#define SS_LUA_HAS_TRACEBACK (LUA_VERSION_NUM >= 502 || SS_LUA_JIT)
/* lua_newstate takes a seed. */
#define SS_LUA_SEEDS_STATES (LUA_VERSION_NUM >= 505)

/* ---- Libraries and words ---------------------------------------------------------------------*/

/* The library of coroutines is opened by itself, and not with the basic one. */
#define SS_LUA_OPENS_COROUTINES (LUA_VERSION_NUM >= 502)
/* coroutine.wrap takes functions in C. */
#define SS_LUA_WRAPS_C (LUA_VERSION_NUM >= 502 || SS_LUA_JIT)
/* lua_resume itself refuses a coroutine that has ended. */
#define SS_LUA_RESUME_REFUSES (LUA_VERSION_NUM >= 504)
/* coroutine.resume has its own words for why it refuses, and puts them in the place of an error. */
#define SS_LUA_LIBRARY_REFUSES (LUA_VERSION_NUM == 501)
/* What the functions of coroutines call their argument. */
#define SS_LUA_THREAD_EXPECTED (LUA_VERSION_NUM < 503 ? "coroutine expected" : "thread expected")
/* `#` and pairs ask a table's metatable; ipairs asks for __ipairs. */
#define SS_LUA_TABLES_HAVE_LEN (LUA_VERSION_NUM > 501)
#define SS_LUA_HAS_IPAIRS_METHOD (LUA_VERSION_NUM == 502)
/* xpcall gives its function arguments; its handler is a function. */
#define SS_LUA_XPCALL_PASSES (LUA_VERSION_NUM != 501)
#define SS_LUA_XPCALL_CHECKS_HANDLER (LUA_VERSION_NUM >= 503)
/* The interpreter makes the table arg after it has carried out the options. */
#define SS_LUA_MAKES_ARG_LATE (LUA_VERSION_NUM < 503)
/* Lua puts a text in the place of a nil error once the handler has returned. */
#define SS_LUA_REPLACES_NIL_ERROR (LUA_VERSION_NUM >= 505)

/* A traceback says how many levels it leaves out. */
#define SS_LUA_COUNTS_SKIPPED (LUA_VERSION_NUM >= 504)
/* Where a traceback has a function's name from: 5.1 has only that of the calling code; 5.2 asks
   package.loaded for functions in C without one; 5.3 and 5.4 ask it first, and 5.5 where the code has
   none. */
enum { SS_LUA_PLAIN, SS_LUA_LOADED_OF_C, SS_LUA_LOADED_FIRST, SS_LUA_CODE_FIRST };
#define SS_LUA_NAMES                                \
    (LUA_VERSION_NUM == 501   ? SS_LUA_PLAIN        \
     : LUA_VERSION_NUM == 502 ? SS_LUA_LOADED_OF_C  \
     : LUA_VERSION_NUM < 505  ? SS_LUA_LOADED_FIRST \
                              : SS_LUA_CODE_FIRST)

/* By which version the reader of other processes reads this one's states. */
#if LUA_VERSION_NUM >= 505
#define SS_LUA_SHOWN_VERSION "5.5"
#elif LUA_VERSION_NUM == 504
#define SS_LUA_SHOWN_VERSION "5.4"
#else
#define SS_LUA_SHOWN_VERSION "5.3"
#endif

#endif
