/*
 * The functions of Lua that the binding calls.  A test compares them with the headers of each
 * version.
 */
#ifndef SS_LUA_LOADABLE_FUNCTION_LIST_H
#define SS_LUA_LOADABLE_FUNCTION_LIST_H

/* Until 5.2 a function that pushes a value said nothing of it, and an index was an int. */
#if LUA_VERSION_NUM >= 503
#define SS_LUA_PUSHED int
#define SS_LUA_INDEX lua_Integer
#define SS_LUA_SETHOOK void
#else
#define SS_LUA_PUSHED void
#define SS_LUA_INDEX int
#define SS_LUA_SETHOOK int
#endif
#if LUA_VERSION_NUM >= 502
#define SS_LUA_TEXT const char *
#else
#define SS_LUA_TEXT void
#endif

/* X(result, name, (parameters)): the functions that every version has. */
#define SS_LUA_COMMON_FUNCTIONS(X)                                                         \
    X(int, luaL_argerror, (lua_State * L, int argument, const char *text))                 \
    X(void, luaL_checkany, (lua_State * L, int argument))                                  \
    X(lua_Integer, luaL_checkinteger, (lua_State * L, int argument))                       \
    X(const char *, luaL_checklstring, (lua_State * L, int argument, size_t *length))      \
    X(void, luaL_checkstack, (lua_State * L, int room, const char *text))                  \
    X(void, luaL_checktype, (lua_State * L, int argument, int type))                       \
    X(void *, luaL_checkudata, (lua_State * L, int argument, const char *name))            \
    X(int, luaL_error, (lua_State * L, const char *format, ...))                           \
    X(int, luaL_getmetafield, (lua_State * L, int index, const char *name))                \
    X(const char *, luaL_optlstring,                                                       \
      (lua_State * L, int argument, const char *fallback, size_t *length))                 \
    X(lua_Integer, luaL_optinteger, (lua_State * L, int argument, lua_Integer fallback))   \
    X(void, luaL_where, (lua_State * L, int level))                                        \
    X(int, lua_checkstack, (lua_State * L, int room))                                      \
    X(void, lua_close, (lua_State * L))                                                    \
    X(void, lua_concat, (lua_State * L, int count))                                        \
    X(void, lua_createtable, (lua_State * L, int array, int hash))                         \
    X(int, lua_error, (lua_State * L))                                                     \
    X(SS_LUA_PUSHED, lua_getfield, (lua_State * L, int index, const char *key))            \
    X(lua_Alloc, lua_getallocf, (lua_State * L, void **data))                              \
    X(lua_Hook, lua_gethook, (lua_State * L))                                              \
    X(int, lua_gethookcount, (lua_State * L))                                              \
    X(int, lua_gethookmask, (lua_State * L))                                               \
    X(int, lua_getinfo, (lua_State * L, const char *what, lua_Debug *activation))          \
    X(const char *, lua_getlocal, (lua_State * L, const lua_Debug *activation, int n))     \
    X(int, lua_getmetatable, (lua_State * L, int index))                                   \
    X(int, lua_getstack, (lua_State * L, int level, lua_Debug *activation))                \
    X(SS_LUA_PUSHED, lua_gettable, (lua_State * L, int index))                             \
    X(int, lua_gettop, (lua_State * L))                                                    \
    X(const char *, lua_getupvalue, (lua_State * L, int index, int n))                     \
    X(int, lua_iscfunction, (lua_State * L, int index))                                    \
    X(int, lua_isnumber, (lua_State * L, int index))                                       \
    X(int, lua_isstring, (lua_State * L, int index))                                       \
    X(int, lua_isuserdata, (lua_State * L, int index))                                     \
    X(lua_State *, lua_newthread, (lua_State * L))                                         \
    X(int, lua_next, (lua_State * L, int index))                                           \
    X(void, lua_pushboolean, (lua_State * L, int value))                                   \
    X(void, lua_pushcclosure, (lua_State * L, lua_CFunction function, int upvalues))       \
    X(const char *, lua_pushfstring, (lua_State * L, const char *format, ...))             \
    X(void, lua_pushinteger, (lua_State * L, lua_Integer value))                           \
    X(void, lua_pushlightuserdata, (lua_State * L, void *value))                           \
    X(SS_LUA_TEXT, lua_pushlstring, (lua_State * L, const char *text, size_t length))      \
    X(void, lua_pushnil, (lua_State * L))                                                  \
    X(SS_LUA_TEXT, lua_pushstring, (lua_State * L, const char *text))                      \
    X(void, lua_pushvalue, (lua_State * L, int index))                                     \
    X(int, lua_pushthread, (lua_State * L))                                                \
    X(const char *, lua_pushvfstring, (lua_State * L, const char *format, va_list values)) \
    X(int, lua_rawequal, (lua_State * L, int left, int right))                             \
    X(SS_LUA_PUSHED, lua_rawget, (lua_State * L, int index))                               \
    X(SS_LUA_PUSHED, lua_rawgeti, (lua_State * L, int index, SS_LUA_INDEX n))              \
    X(void, lua_rawset, (lua_State * L, int index))                                        \
    X(void, lua_rawseti, (lua_State * L, int index, SS_LUA_INDEX n))                       \
    X(void, lua_setfield, (lua_State * L, int index, const char *key))                     \
    X(SS_LUA_SETHOOK, lua_sethook, (lua_State * L, lua_Hook hook, int mask, int count))    \
    X(const char *, lua_setlocal, (lua_State * L, const lua_Debug *activation, int n))     \
    X(int, lua_setmetatable, (lua_State * L, int index))                                   \
    X(const char *, lua_setupvalue, (lua_State * L, int index, int n))                     \
    X(void, lua_settable, (lua_State * L, int index))                                      \
    X(void, lua_settop, (lua_State * L, int index))                                        \
    X(int, lua_status, (lua_State * L))                                                    \
    X(int, lua_toboolean, (lua_State * L, int index))                                      \
    X(lua_CFunction, lua_tocfunction, (lua_State * L, int index))                          \
    X(const char *, lua_tolstring, (lua_State * L, int index, size_t *length))             \
    X(const void *, lua_topointer, (lua_State * L, int index))                             \
    X(lua_State *, lua_tothread, (lua_State * L, int index))                               \
    X(void *, lua_touserdata, (lua_State * L, int index))                                  \
    X(int, lua_type, (lua_State * L, int index))                                           \
    X(const char *, lua_typename, (lua_State * L, int type))                               \
    X(void, lua_xmove, (lua_State * from, lua_State * to, int count))                      \
    X(int, luaopen_base, (lua_State * L))                                                  \
    X(int, luaopen_string, (lua_State * L))                                                \
    X(int, luaopen_table, (lua_State * L))

/* Those since 5.2, whose continuations ask for their context. */
#if LUA_VERSION_NUM >= 503
#define SS_LUA_CONTEXT lua_KContext
#define SS_LUA_K_FUNCTION lua_KFunction
#else
#define SS_LUA_CONTEXT int
#define SS_LUA_K_FUNCTION lua_CFunction
#endif
#define SS_LUA_FUNCTIONS_SINCE_52(X)                                                          \
    X(int, luaL_getsubtable, (lua_State * L, int index, const char *name))                    \
    X(int, luaL_loadbufferx,                                                                  \
      (lua_State * L, const char *text, size_t length, const char *name, const char *mode))   \
    X(void, luaL_requiref, (lua_State * L, const char *name, lua_CFunction open, int global)) \
    X(void, luaL_setfuncs, (lua_State * L, const luaL_Reg *functions, int upvalues))          \
    X(void *, luaL_testudata, (lua_State * L, int argument, const char *name))                \
    X(const char *, luaL_tolstring, (lua_State * L, int index, size_t *length))               \
    X(void, luaL_traceback, (lua_State * L, lua_State * thread, const char *text, int level)) \
    X(int, lua_absindex, (lua_State * L, int index))                                          \
    X(void, lua_arith, (lua_State * L, int operation))                                        \
    X(void, lua_callk,                                                                        \
      (lua_State * L, int nargs, int nresults, SS_LUA_CONTEXT c, SS_LUA_K_FUNCTION k))        \
    X(int, lua_compare, (lua_State * L, int left, int right, int operation))                  \
    X(void, lua_copy, (lua_State * L, int from, int to))                                      \
    X(SS_LUA_PUSHED, lua_getglobal, (lua_State * L, const char *name))                        \
    X(void, lua_len, (lua_State * L, int index))                                              \
    X(int, lua_load,                                                                          \
      (lua_State * L, lua_Reader reader, void *data, const char *name, const char *mode))     \
    X(int, lua_pcallk,                                                                        \
      (lua_State * L, int nargs, int nresults, int handler, SS_LUA_CONTEXT c,                 \
       SS_LUA_K_FUNCTION k))                                                                  \
    X(SS_LUA_PUSHED, lua_rawgetp, (lua_State * L, int index, const void *key))                \
    X(void, lua_rawsetp, (lua_State * L, int index, const void *key))                         \
    X(void, lua_setglobal, (lua_State * L, const char *name))                                 \
    X(lua_Integer, lua_tointegerx, (lua_State * L, int index, int *is_number))                \
    X(lua_Number, lua_tonumberx, (lua_State * L, int index, int *is_number))                  \
    X(int, lua_yieldk, (lua_State * L, int nresults, SS_LUA_CONTEXT c, SS_LUA_K_FUNCTION k))  \
    X(int, luaopen_coroutine, (lua_State * L))

#if LUA_VERSION_NUM >= 503
#define SS_LUA_FUNCTIONS_SINCE_53(X)                                               \
    X(void, luaL_checkversion_, (lua_State * L, lua_Number version, size_t sizes)) \
    X(int, lua_geti, (lua_State * L, int index, lua_Integer n))                    \
    X(int, lua_isinteger, (lua_State * L, int index))                              \
    X(void, lua_rotate, (lua_State * L, int index, int n))                         \
    X(void, lua_seti, (lua_State * L, int index, lua_Integer n))
#endif

/* Those of each version. */
#if LUA_VERSION_NUM == 501
#if SS_LUA_JIT
#define SS_LUA_KIND_FUNCTIONS(X) \
    X(void, luaL_traceback, (lua_State * L, lua_State * thread, const char *text, int level))
#else
#define SS_LUA_KIND_FUNCTIONS(X) X(void, lua_setlevel, (lua_State * from, lua_State * to))
#endif
#define SS_LUA_VERSION_FUNCTIONS(X)                                                             \
    SS_LUA_KIND_FUNCTIONS(X)                                                                    \
    X(int, luaL_loadbuffer, (lua_State * L, const char *text, size_t length, const char *name)) \
    X(lua_State *, luaL_newstate, (void))                                                       \
    X(void, lua_call, (lua_State * L, int nargs, int nresults))                                 \
    X(int, lua_cpcall, (lua_State * L, lua_CFunction function, void *data))                     \
    X(int, lua_equal, (lua_State * L, int left, int right))                                     \
    X(int, lua_gc, (lua_State * L, int what, int data))                                         \
    X(void, lua_getfenv, (lua_State * L, int index))                                            \
    X(void, lua_insert, (lua_State * L, int index))                                             \
    X(int, lua_lessthan, (lua_State * L, int left, int right))                                  \
    X(int, lua_load, (lua_State * L, lua_Reader reader, void *data, const char *name))          \
    X(lua_State *, lua_newstate, (lua_Alloc allocate, void *data))                              \
    X(void *, lua_newuserdata, (lua_State * L, size_t size))                                    \
    X(size_t, lua_objlen, (lua_State * L, int index))                                           \
    X(int, lua_pcall, (lua_State * L, int nargs, int nresults, int handler))                    \
    X(void, lua_remove, (lua_State * L, int index))                                             \
    X(void, lua_replace, (lua_State * L, int index))                                            \
    X(int, lua_resume, (lua_State * L, int nargs))                                              \
    X(int, lua_setfenv, (lua_State * L, int index))                                             \
    X(lua_Integer, lua_tointeger, (lua_State * L, int index))                                   \
    X(lua_Number, lua_tonumber, (lua_State * L, int index))                                     \
    X(int, lua_yield, (lua_State * L, int nresults))
#elif LUA_VERSION_NUM < 504
#if LUA_VERSION_NUM == 502
#define SS_LUA_OLDER_FUNCTIONS(X)                                    \
    X(void, luaL_checkversion_, (lua_State * L, lua_Number version)) \
    X(int, lua_getctx, (lua_State * L, int *context))                \
    X(void, lua_insert, (lua_State * L, int index))                  \
    X(void, lua_remove, (lua_State * L, int index))                  \
    X(void, lua_replace, (lua_State * L, int index))
#else
#define SS_LUA_OLDER_FUNCTIONS(X) SS_LUA_FUNCTIONS_SINCE_53(X)
#endif
#define SS_LUA_VERSION_FUNCTIONS(X)                                  \
    SS_LUA_FUNCTIONS_SINCE_52(X)                                     \
    SS_LUA_OLDER_FUNCTIONS(X)                                        \
    X(const lua_Number *, lua_version, (lua_State * L))              \
    X(lua_State *, lua_newstate, (lua_Alloc allocate, void *data))   \
    X(int, lua_gc, (lua_State * L, int what, int data))              \
    X(SS_LUA_PUSHED, lua_getuservalue, (lua_State * L, int index))   \
    X(void *, lua_newuserdata, (lua_State * L, size_t size))         \
    X(size_t, lua_rawlen, (lua_State * L, int index))                \
    X(int, lua_resume, (lua_State * L, lua_State * from, int nargs)) \
    X(void, lua_setuservalue, (lua_State * L, int index))
#else
#if LUA_VERSION_NUM >= 505
#define SS_LUA_NEWSTATE_FUNCTIONS(X)                                              \
    X(lua_State *, lua_newstate, (lua_Alloc allocate, void *data, unsigned seed)) \
    X(void, lua_closeslot, (lua_State * L, int index))                            \
    X(int, lua_closethread, (lua_State * L, lua_State * from))
#else
#define SS_LUA_NEWSTATE_FUNCTIONS(X)                               \
    X(lua_State *, lua_newstate, (lua_Alloc allocate, void *data)) \
    X(int, lua_resetthread, (lua_State * L))
#endif
#define SS_LUA_VERSION_FUNCTIONS(X)                                                 \
    SS_LUA_FUNCTIONS_SINCE_52(X)                                                    \
    SS_LUA_FUNCTIONS_SINCE_53(X)                                                    \
    SS_LUA_NEWSTATE_FUNCTIONS(X)                                                    \
    X(lua_Number, lua_version, (lua_State * L))                                     \
    X(int, luaL_typeerror, (lua_State * L, int argument, const char *name))         \
    X(int, lua_gc, (lua_State * L, int what, ...))                                  \
    X(int, lua_getiuservalue, (lua_State * L, int index, int n))                    \
    X(void *, lua_newuserdatauv, (lua_State * L, size_t size, int values))          \
    X(lua_Unsigned, lua_rawlen, (lua_State * L, int index))                         \
    X(int, lua_resume, (lua_State * L, lua_State * from, int nargs, int *nresults)) \
    X(int, lua_setiuservalue, (lua_State * L, int index, int n))                    \
    X(void, lua_toclose, (lua_State * L, int index))
#endif

/*
 * Those that came with a later release of a version, 5.4.3 and 5.4.6.  In an older one
 * lua_closeslot is NULL, and lua_closethread a function of ours that does what was done before.
 */
#if LUA_VERSION_NUM == 504
#define SS_LUA_LATER_FUNCTIONS(X)                      \
    X(void, lua_closeslot, (lua_State * L, int index)) \
    X(int, lua_closethread, (lua_State * L, lua_State * from))
#else
#define SS_LUA_LATER_FUNCTIONS(X)
#endif

#endif
