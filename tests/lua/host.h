/* What the tests of lua.h share: states, errors and stacks as the host sees them. */
#ifndef TESTS_LUA_HOST_H
#define TESTS_LUA_HOST_H

#include "lua_state.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <stacksplice/source.h>

/* The frame of error itself, which has ended in a call of the function that throws: LuaJIT's is shown. */
#if SS_LUA_JIT
#define RAISED "lua:error:0 "
#else
#define RAISED ""
#endif

static inline void load(lua_State *L, const char *script)
{
    if (luaL_loadbufferx(L, script, strlen(script), "@host.lua", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

/* The thread's error, left in the slot. */
static inline IRestrictedErrorInfo *peek(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_OK);
    error->lpVtbl->Release(error);
    return error;
}

static inline void assert_no_error(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_FALSE);
    assert_null(error);
}

static inline IUnknown *exception_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL;
    IUnknown *exception = NULL;

    assert_int_equal(
        error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetLanguageException(info, &exception), S_OK);
    info->lpVtbl->Release(info);
    return exception;
}

static inline unsigned nodes_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL, *next = NULL;
    unsigned count = 0;

    assert_int_equal(
        error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetPropagationContextHead(info, &next), S_OK);
    info->lpVtbl->Release(info);
    while (next) {
        info = next;
        next = NULL;
        count++;
        assert_int_equal(info->lpVtbl->GetPreviousLanguageExceptionErrorInfo(info, &next), S_OK);
        info->lpVtbl->Release(info);
    }
    return count;
}

/* One line for each frame: "lua:f:3", "gap:why"; native frames are left out. */
typedef struct text {
    char text[4000];
} text;

static inline int add_frame(const stacksplice_frame *frame, void *data)
{
    text *out = data;
    size_t used = strlen(out->text);

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(out->text + used, sizeof out->text - used, "%s:%s:%u%s ", frame->language,
                       frame->function, frame->line,
                       frame->trust == STACKSPLICE_TRUST_TRACEBACK ? "t" : "");
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(out->text + used, sizeof out->text - used, "gap:%s ", frame->reason);
    return 0;
}

static inline text script_stack(IUnknown *error)
{
    uintptr_t frames[512];
    uint32_t count = 0;
    text out = {""};

    assert_true(SUCCEEDED(stacksplice_error_stack(error, 512, frames, &count)));
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, &out);
    return out;
}

#define assert_stack(error, expected)                  \
    do {                                               \
        text got_ = script_stack((IUnknown *)(error)); \
        assert_string_equal(got_.text, expected);      \
    } while (0)

/* Raises the thread's error, as a C function between Lua and other code does. */
static inline int raise_slot(lua_State *L)
{
    HRESULT hr = (HRESULT)lua_tointeger(L, lua_upvalueindex(1));

    return stacksplice_lua_raise(L, hr);
}

/* border(f): calls f under stacksplice_lua_pcall and raises what comes out. */
static inline int border(lua_State *L)
{
    HRESULT hr = stacksplice_lua_pcall(L, 0, 0);

    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    return 0;
}

#endif
