/* An interrupt of another language, and the state that its tests begin with. */
#ifndef TESTS_LUA_INTERRUPTS_H
#define TESTS_LUA_INTERRUPTS_H

#include "lua_state.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <stacksplice/script.h>

#define CANCELLED ((HRESULT)0x800704C7)

/* ---- A language exception of some other language ---------------------------------------------*/

static atomic_int references;
static bool is_interrupt;

static inline HRESULT STDMETHODCALLTYPE double_QueryInterface(IUnknown *self, REFIID iid,
                                                              void **out)
{
    *out = NULL;
    if (memcmp(iid, &IID_IUnknown, sizeof *iid) != 0 &&
        memcmp(iid, &IID_IAgileObject, sizeof *iid) != 0 &&
        !(is_interrupt && memcmp(iid, &stacksplice_IID_IScriptInterrupt, sizeof *iid) == 0))
        return E_NOINTERFACE;
    atomic_fetch_add(&references, 1);
    *out = self;
    return S_OK;
}

static inline ULONG STDMETHODCALLTYPE double_AddRef(IUnknown *self)
{
    return (ULONG)atomic_fetch_add(&references, 1) + 1;
}

static inline ULONG STDMETHODCALLTYPE double_Release(IUnknown *self)
{
    return (ULONG)atomic_fetch_sub(&references, 1) - 1;
}

static const IUnknownVtbl double_vtbl = {double_QueryInterface, double_AddRef, double_Release};
static IUnknown exception = {&double_vtbl};

/* ---- Helpers ---------------------------------------------------------------------------------*/

/* Fails as a function does that called the other language. */
static inline int interrupt(lua_State *L)
{
    (void)stacksplice_originate(CANCELLED, "stop", 4, &exception, NULL);
    return stacksplice_lua_raise(L, CANCELLED);
}

/* A host's function in the middle that knows of borders: f() and on with its failure. */
static inline int border(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall(L, 0, 0);

    return FAILED(hr) ? stacksplice_lua_raise(L, hr) : 0;
}

static inline int plain_border(lua_State *L)
{
    lua_pushboolean(L, lua_pcall(L, 0, 0, 0) == LUA_OK);
    return 1;
}

static inline int open_interruptible(void **state)
{
    lua_State *L = fill_state(luaL_newstate());

    lua_register(L, "interrupt", interrupt);
    lua_register(L, "border", border);
    lua_register(L, "plain_border", plain_border);
    is_interrupt = true;
    *state = L;
    return 0;
}

static inline int close_and_count(void **state)
{
    (void)close_state(state);
    assert_int_equal(atomic_load(&references), 0);
    return 0;
}

#define INTERRUPT_TEST(name) TEST_WITH(name, open_interruptible, close_and_count)

static inline HRESULT run(lua_State *L, const char *script)
{
    HRESULT hr;

    if (luaL_loadbufferx(L, script, strlen(script), "@interrupts.lua", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    hr = stacksplice_lua_pcall(L, 0, 0);
    assert_int_equal(lua_gettop(L), 0);
    return hr;
}

/* What a script set before it was interrupted. */
static inline void assert_reached(lua_State *L, const char *expected)
{
    lua_getglobal(L, "reached");
    assert_string_equal(luaL_tolstring(L, -1, NULL), expected);
    lua_pop(L, 2);
}

static inline void assert_clean(lua_State *L)
{
    assert_null((void *)(uintptr_t)lua_gethook(L));
    assert_int_equal(run(L, "reached = 'clean' pcall(error) reached = 'after'"), S_OK);
    assert_reached(L, "after");
}

#endif
