/* stacksplice_lua_pcall_within: a host's call whose script is interrupted when it is late. */
#include "host.h"

#include "instruments.h"

#include <stacksplice/deadline.h>

#include <unistd.h>

#define TIMED_OUT ((HRESULT)0x800705B4)

enum { SOON = 20, QUIET = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE };

typedef struct message {
    const char *wanted;
    bool found;
} message;

static int look_for(const char *part, size_t length, void *data)
{
    message *m = data;

    m->found = m->found || memmem(part, length, m->wanted, strlen(m->wanted));
    return 0;
}

/* Whether some part of the thread's error as text has WANTED. */
static bool tells(const char *wanted)
{
    message m = {wanted, false};

    assert_int_equal(
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_TEXT, NULL, look_for, &m), S_OK);
    return m.found;
}

/* ThreadSanitizer keeps signals until the thread calls a function that it watches. */
#if UNDER_TSAN
#define WORK "rest()"
#else
#define WORK ""
#endif

static int rest(lua_State *L)
{
    (void)L;
    (void)usleep(1);
    return 0;
}

STATE_TEST(test_a_late_script_is_interrupted)
{
    static const char *const scripts[] = {
        "while true do " WORK " end",
        "while true do pcall(function() while true do " WORK " end end) end",
        "coroutine.wrap(function() while true do " WORK " end end)()",
        "local function loop() while true do " WORK " end end xpcall(loop, loop)",
        /* The second error passes the host's borders, too. */
        "while true do pcall(border, function() while true do " WORK " end end) end",
    };
    lua_State *L = *state;

    lua_register(L, "rest", rest);
    lua_register(L, "border", border);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        load(L, scripts[i]);
        assert_int_equal(stacksplice_lua_pcall_within(L, 0, 1, SOON, QUIET, "pricing"), TIMED_OUT);
        assert_int_equal(lua_gettop(L), 0);
        assert_true(tells("pricing did not finish within 0.02 s"));
        assert_false(tells("ss_lua_")); /* nor a function of ours */
        RoClearError();
        load(L, "for i = 1, 1000 do end return 1");
        assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
    }
}

STATE_TEST(test_arguments)
{
    lua_State *L = *state;

    lua_pushnil(L);
    assert_int_equal(stacksplice_lua_pcall_within(L, 0, 0, 1, 4, NULL), E_INVALIDARG);
    assert_int_equal(lua_gettop(L), 1);
    RoClearError();
}
