/* What outlives its state, its thread or its process; errors of a state that is closed elsewhere. */
#include "host.h"

#include "threads.h"

#include <stacksplice/script.h>

/* ---- Threads and children --------------------------------------------------------------------*/

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
                      strcmp(script_stack((IUnknown *)peek()).text, RAISED "lua:main chunk:1 ") == 0
                  ? 0
                  : 1);
    }
    child_check(child);
}

/* ---- Several states --------------------------------------------------------------------------*/

/* raise(): the thread's error, whatever its HRESULT. */
static int raise_any(lua_State *L)
{
    HRESULT hr = E_FAIL;

    assert_int_equal(stacksplice_error_hresult((IUnknown *)peek(), &hr), S_OK);
    return stacksplice_lua_raise(L, hr);
}

static void run(lua_State *L, const char *script)
{
    run_chunk(L, "@states.lua", script, 0);
}

/* An error of a state with a cause, put into the slot; the state is still open. */
static lua_State *fail_in_new_state(void)
{
    static const char script[] =
        "local function inner() error(setmetatable({hresult = 0x80070002, cause = 'its cause'},\n"
        "{__tostring = function() return 'kept' end})) end\ninner()";
    lua_State *L = fill_state(luaL_newstate());

    assert_int_equal(luaL_loadbufferx(L, script, strlen(script), "@closed.lua", "t"), LUA_OK);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), (HRESULT)0x80070002);
    return L;
}

static const char check_it[] =
    "local ok, e = pcall(raise) assert(not ok)\n"
    "for i = 1, 2 do\n"
    "  assert(e.value == nil and e.message == 'kept' and tostring(e) == 'kept')\n"
    "  assert(e.hresult == 0x80070002 and e.language == 'lua' and e.type_name == 'table')\n"
    "  assert(e.cause.message == 'its cause' and e.cause.value == nil and not e.cause.cause)\n"
    "  local names = {}\n"
    "  for _, f in ipairs(e.stack) do if f.kind == 'script' and f.name ~= 'error' then\n"
    "    assert(f.source == 'closed.lua', f.source) names[#names + 1] = f.name end end\n"
    "  assert(names[1] == 'inner' and names[2] == 'main chunk' and #names == 2)\n"
    "  assert(e:text():find('kept', 1, true) and e:text():find('closed.lua', 1, true))\n"
    "  assert(e:text():find('its cause', 1, true))\n"
    "  assert(e:json():find('\"message\":\"kept\"', 1, true))\n"
    "  assert(#e.propagation == 1 and e.fingerprint and e.thread_id > 0)\n"
    "  local _, again, info = stacksplice.pcall(error, e)\n"
    "  assert(rawequal(again, e) and rawequal(info, e))\n"
    "  collectgarbage() collectgarbage()\n"
    "end kept = e";

TEST(test_an_error_of_a_closed_state_is_whole_in_another)
{
    lua_State *L = fill_state(luaL_newstate());

    lua_register(L, "raise", raise_any);
    lua_close(fail_in_new_state()); /* in flight: it is in the slot */
    run(L, check_it);
    lua_close(L);
}

TEST(test_a_state_closes_while_another_holds_its_error)
{
    lua_State *L = fill_state(luaL_newstate()), *other = fail_in_new_state();

    lua_register(L, "raise", raise_any);
    run(L, "ok, kept = pcall(raise)");
    lua_close(other);
    run(L, "raise = function() error(kept) end");
    run(L, check_it);
    /* A state of the same memory, as allocators have it, is another one. */
    for (int i = 0; i < 20; i++) {
        other = fill_state(luaL_newstate());
        lua_register(other, "raise", raise_any);
        run(L, "stacksplice.originate(kept)");
        run(other, "local ok, e = pcall(raise) assert(e.value == nil and e.message == 'kept')\n"
                   "assert(e.cause.value == nil)");
        lua_close(other);
    }
    lua_close(L);
}

/* Through three states, each closed before the error comes to the next. */
TEST(test_an_error_goes_on_through_states_that_close)
{
    lua_State *L = fail_in_new_state();

    for (int i = 0; i < 5; i++) {
        lua_State *next = fill_state(luaL_newstate());

        lua_close(L);
        L = next;
        lua_register(L, "raise", raise_any);
        assert_int_equal(luaL_loadstring(L, "raise()"), LUA_OK);
        assert_int_equal(stacksplice_lua_pcall(L, 0, 0), (HRESULT)0x80070002);
    }
    lua_register(L, "raise", raise_any);
    run(L, "local _, e = pcall(raise) assert(#e.propagation == 6 and e.value == nil)\n"
           "assert(e.message == 'kept' and e.cause.message == 'its cause')");
    lua_close(L);
}

static int discard(const char *bytes, size_t length, void *data)
{
    *(size_t *)data += length;
    return 0;
}

static void *print_and_release(void *object)
{
    size_t length = 0;

    assert_int_equal(stacksplice_format(object, STACKSPLICE_FORMAT_TEXT, NULL, discard, &length),
                     S_OK);
    assert_true(length > 100);
    ((IUnknown *)object)->lpVtbl->Release(object);
    return NULL;
}

TEST(test_another_thread_prints_and_releases_after_the_end)
{
    for (int i = 0; i < 50; i++) {
        lua_State *L = fail_in_new_state();
        IRestrictedErrorInfo *error = NULL;
        pthread_t thread;

        assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
        if (i % 2)
            lua_close(L);
        thread = thread_start(print_and_release, error);
        if (!(i % 2))
            lua_close(L); /* meanwhile */
        (void)thread_end(thread);
    }
}

TEST(test_finalizers_of_a_closing_state_may_make_errors)
{
    lua_State *L = fill_state(luaL_newstate());

    run(L, "for i = 1, 10 do setmetatable({}, {__gc = function()\n"
           "  local ok, v, e = stacksplice.pcall(error, {cause = 'c'})\n"
           "  if e then e:text() stacksplice.originate(e) end end}) end");
    lua_close(L);
    RoClearError();
}

/* os.exit(true, true) closes the state below running functions. */
TEST(test_exit_from_a_script)
{
    static const char *const scripts[] = {
        "os.exit(true, true)",
        "stacksplice.pcall(os.exit, true, true)",
        "local _, _, e = stacksplice.pcall(error, {cause = {}}) kept = e stacksplice.originate(e)\n"
        "coroutine.wrap(function() stacksplice.pcall(os.exit, true, true) end)()",
        "xpcall(error, function() stacksplice.originate({}) os.exit(true, true) end)",
        "setmetatable({}, {__gc = function() stacksplice.pcall(error, 'x') end}) os.exit(true, "
        "true)",
    };

#if LUA_VERSION_NUM == 501
    SKIP("os.exit of Lua 5.1 closes no state");
#endif
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            lua_State *L = fill_state(luaL_newstate());

            (void)luaL_loadstring(L, scripts[i]);
            (void)stacksplice_lua_pcall(L, 0, 0);
            _exit(99);
        }
        status = child_status(child);
        if (status != 0)
            fail_msg("%s: status %x", scripts[i], status);
    }
}
