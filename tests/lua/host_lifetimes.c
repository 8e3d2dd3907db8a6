/* What outlives its state, its thread or its process. */
#include "host.h"

#include <stacksplice/script.h>
#include "threads.h"

/* ---- Lifetimes -------------------------------------------------------------------------------*/

STATE_TEST(test_everything_outlives_lua_close)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error = NULL;
    IScriptException *script = NULL;
    IUnknown *x;
    size_t length;

    load(L,
         "local function f() error(setmetatable({}, {__tostring = function() return 'kept' end})) "
         "end f()");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    x = exception_of(error);
    lua_close(L);
    *state = NULL;
    assert_int_equal(
        x->lpVtbl->QueryInterface(x, &stacksplice_IID_IScriptException, (void **)&script), S_OK);
    assert_string_equal(script->lpVtbl->GetMessage(script, &length), "kept");
    assert_stack(error, "lua:f:1 lua:main chunk:1 ");
    script->lpVtbl->Release(script);
    x->lpVtbl->Release(x);
    error->lpVtbl->Release(error);
}

static void *release(void *object)
{
    ((IUnknown *)object)->lpVtbl->Release(object);
    return NULL;
}

STATE_TEST(test_release_on_another_thread_frees_the_value_at_the_next_entry)
{
    lua_State *L = *state;
    IRestrictedErrorInfo *error = NULL;

    load(L, "weak = setmetatable({}, {__mode = 'v'}) weak[1] = {} error(weak[1])");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    load(L, "collectgarbage() collectgarbage() assert(weak[1])");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    (void)thread_run(release, error);
    load(L, "stacksplice.peek_error() collectgarbage() collectgarbage() assert(not weak[1])");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
}

static void *release_many(void *data)
{
    IRestrictedErrorInfo **errors = data;

    for (int i = 0; i < 200; i++)
        errors[i]->lpVtbl->Release(errors[i]);
    return NULL;
}

STATE_TEST(test_releases_race_with_the_state)
{
    lua_State *L = *state;
    static IRestrictedErrorInfo *errors[200];
    pthread_t thread;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++) {
            load(L, i % 2 ? "error({})" : "error('text')");
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
            assert_int_equal(GetRestrictedErrorInfo(&errors[i]), S_OK);
        }
        thread = thread_start(release_many, errors);
        for (int i = 0; i < 200; i++) {
            load(L, "error({})");
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
        }
        if (round == 19) {
            RoClearError();
            lua_close(L);
            *state = NULL;
        }
        (void)thread_end(thread);
    }
}

STATE_TEST(test_the_slot_may_keep_an_error_after_its_state)
{
    for (int i = 0; i < 3; i++) {
        void *another;

        (void)open_state(&another);
        load(another, "error({})");
        assert_int_equal(stacksplice_lua_pcall(another, 0, 0), E_FAIL);
        lua_close(another);
        assert_stack(peek(), "lua:main chunk:1 ");
    }
    RoClearError();
}

STATE_TEST(test_a_child_of_fork_goes_on)
{
    lua_State *L = *state;
    pid_t child;

    load(L, "error('before fork', 0)");
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    child = fork();
    if (child == 0) {
        load(L, "error('in child', 0)");
        _exit(stacksplice_lua_pcall(L, 0, 0) == E_FAIL &&
                      strcmp(script_stack((IUnknown *)peek()).text, "lua:main chunk:1 ") == 0
                  ? 0
                  : 1);
    }
    child_check(child);
}
