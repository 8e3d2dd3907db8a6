/*
 * A confined script: all it has are load, error, pcall and this module.  It may call its chunks
 * what it likes, and must not learn of a file by that, neither what is in it nor whether it is
 * there.
 */
#include "host.h"
#include "threads.h"

#include <stdlib.h>
#include <sys/stat.h>

#define SECRET "the secret line"

/* The errors of chunks called NAME in every form that the module has for a script. */
static const char script[] =
    "local results, count = {}, 0\n"
    "local function tell(text) count = count + 1 results[count] = text end\n"
    "local chunk = load('local raise = ... local function deeper() raise({}) end deeper()',"
    " '@' .. name)\n"
    "local function raise(v) tell(stacksplice.traceback('here')) error(v) end\n"
    "local function run() chunk(raise) end\n"
    "local ok, value, err = stacksplice.pcall(run)\n"
    "tell(err:text()) tell(err:text(true)) tell(err:json()) tell(err:json{brief = true})\n"
    "tell('' .. err) tell(err.message)\n"
    "ok, value, err = stacksplice.pcall(stacksplice.error, 'made of it', err)\n"
    "tell(err:text(true)) tell(err:json())\n"
    "stacksplice.xpcall(run, function(v)"
    " tell(stacksplice.error_info(v):text()) tell(stacksplice.traceback('handler')) end)\n"
    "pcall(function() stacksplice.originate(value) tell(stacksplice.peek_error():text()) end)\n"
    "ok, value = stacksplice.resume(coroutine_of(run))\n"
    "err = stacksplice.error_info(value) tell(err:text())\n"
    "for i = 1, #err.stack do local f = err.stack[i]"
    " tell((f.source or '-') .. (f.name or '-') .. (f.reason or '-') .. (f.currentline or '-')) "
    "end\n"
    "return results\n";

static char folder[] = "/tmp/stacksplice-confined-XXXXXX";
static char secret[64], missing[64], fifo[64], link_to_environ[64], link_to_folder[64];

static int make_files(void **state)
{
    FILE *file;

    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(secret, sizeof secret, "%s/secret", folder);
    (void)snprintf(missing, sizeof missing, "%s/missing", folder);
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    (void)snprintf(link_to_environ, sizeof link_to_environ, "%s/link", folder);
    (void)snprintf(link_to_folder, sizeof link_to_folder, "%s/self/environ", folder);
    file = fopen(secret, "w");
    if (!file || fputs(SECRET "\n", file) < 0 || fclose(file))
        return -1;
    link_to_folder[strlen(link_to_folder) - strlen("/environ")] = '\0';
    if (symlink("/proc/self/environ", link_to_environ) || symlink("/proc/self", link_to_folder))
        return -1;
    link_to_folder[strlen(link_to_folder)] = '/';
    return mkfifo(fifo, 0600);
}

static int remove_files(void **state)
{
    link_to_folder[strlen(link_to_folder) - strlen("/environ")] = '\0';
    (void)unlink(secret);
    (void)unlink(fifo);
    (void)unlink(link_to_environ);
    (void)unlink(link_to_folder);
    return rmdir(folder);
}

/* The confined environment: the script reaches what is put in here, and nothing else. */
static void push_environment(lua_State *L, const char *name)
{
    static const char *const given[] = {"load", "error", "pcall", "stacksplice"};

    lua_newtable(L);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        lua_getglobal(L, given[i]);
        lua_setfield(L, -2, given[i]);
    }
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "create");
    lua_setfield(L, -3, "coroutine_of");
    lua_pop(L, 1);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
}

/* What differs in every error and at every call, to leave out: KEY, and what follows it. */
static const struct varying {
    const char *key, *value;
} varying[] = {
    {"\"reference\":\"", "0123456789abcdef-"},
    {"\"fingerprint\":\"", "0123456789abcdef"},
    {"\"loose_fingerprint\":\"", "0123456789abcdef"},
    {"\"module_offset\":", "0123456789"},
    {"0x", "0123456789abcdef"},
    {"thread ", "0123456789"},
    {"\"thread_id\":", "0123456789"},
};

/* Copy REPORT to OUT with NAME as "NAME", and without what differs. */
static void put_neutral(FILE *out, const char *report, const char *name)
{
    while (*report) {
        for (size_t i = 0; i < sizeof varying / sizeof *varying; i++) {
            if (!strncmp(report, varying[i].key, strlen(varying[i].key))) {
                report += strlen(varying[i].key);
                report += strspn(report, varying[i].value);
            }
        }
        if (!strncmp(report, name, strlen(name))) {
            fputs("NAME", out);
            report += strlen(name);
        } else if (*report) {
            fputc(*report++, out);
        }
    }
}

/* ---- Asking ----------------------------------------------------------------------------------*/

/* One question, asked in a thread of its own, where the frames of C are the same for each. */
typedef struct question {
    void (*ask)(lua_State *L, const char *name, FILE *out);
    lua_State *L;
    const char *name;
    FILE *out;
} question;

static void *ask(void *data)
{
    const question *q = data;

    q->ask(q->L, q->name, q->out);
    RoClearError();
    return NULL;
}

/* The neutral form of what ASK writes about chunks called NAME; the caller frees it. */
static char *answer(void (*asked)(lua_State *L, const char *name, FILE *out), lua_State *L,
                    const char *name)
{
    char *whole = NULL, *neutral = NULL;
    size_t length = 0;
    question q = {asked, L, name, open_memstream(&whole, &length)};
    FILE *out = open_memstream(&neutral, &length);

    (void)thread_run(ask, &q);
    (void)fclose(q.out);
    put_neutral(out, whole, name);
    (void)fclose(out);
    free(whole);
    return neutral;
}

/* All that the script gets to read. */
static void ask_script(lua_State *L, const char *name, FILE *out)
{
    assert_int_equal(luaL_loadbufferx(L, script, strlen(script), "=sandboxed", "t"), LUA_OK);
    push_environment(L, name);
    assert_string_equal(lua_setupvalue(L, -2, 1), "_ENV");
    if (lua_pcall(L, 0, 1, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    assert_true(lua_rawlen(L, -1) > 20);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, -1); i++) {
        lua_rawgeti(L, -1, i);
        fprintf(out, "%s\n", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int append(const char *report, size_t length, void *data)
{
    return fwrite(report, 1, length, data) != length;
}

/* What the host is told by itself of an error in a chunk of that name. */
static void ask_host(lua_State *L, const char *name, FILE *out)
{
    static const char chunk[] = "error({})";
    stacksplice_format_options options = {.size = sizeof options, .all_frames = 1};
    char at_name[80];

    (void)snprintf(at_name, sizeof at_name, "@%s", name);
    assert_int_equal(luaL_loadbufferx(L, chunk, strlen(chunk), at_name, "t"), LUA_OK);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_FAIL);
    assert_int_equal(
        stacksplice_format((IUnknown *)peek(), STACKSPLICE_FORMAT_TEXT, &options, append, out),
        S_OK);
}

static void assert_answer(void (*asked)(lua_State *L, const char *name, FILE *out), lua_State *L,
                          const char *name, const char *expected)
{
    char *got = answer(asked, L, name);

    assert_string_equal(got, expected);
    free(got);
}

static void assert_shows_secret(void (*asked)(lua_State *L, const char *name, FILE *out),
                                lua_State *L)
{
    char *got = answer(asked, L, secret);

    assert_non_null(strstr(got, "\n        " SECRET "\n"));
    free(got);
}

/* ---- What the script is told -----------------------------------------------------------------*/

STATE_TEST(test_a_confined_script_learns_nothing_of_files)
{
    const char *names[] = {secret,
                           "/etc/hostname",
                           "/proc/self/environ",
                           "/proc/self/cmdline",
                           "/dev/null",
                           "/dev/ptmx",
                           folder,
                           fifo,
                           link_to_environ,
                           link_to_folder,
                           "no such file"};
    lua_State *L = *state;
    char *expected = answer(ask_script, L, missing);

    assert_non_null(strstr(expected, "File \"NAME\", line 1"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_answer(ask_script, L, names[i], expected);
    free(expected);
}

STATE_TEST(test_the_installed_traceback_opens_nothing)
{
    lua_State *L = *state;
    char *expected;

    load(L, "stacksplice.install()");
    lua_call(L, 0, 0);
    expected = answer(ask_script, L, missing);
    assert_answer(ask_script, L, secret, expected);
    free(expected);
}

/* ---- What the host allows, and asks for itself -----------------------------------------------*/

STATE_TEST(test_a_host_can_allow_source_lines)
{
    lua_State *L = *state;
    char *closed = answer(ask_script, L, missing), *allowed;

    stacksplice_lua_allow_source_lines(lua_newthread(L), 1); /* of any coroutine: for all */
    lua_pop(L, 1);
    assert_shows_secret(ask_script, L);
    allowed = answer(ask_script, L, missing);
    assert_answer(ask_script, L, link_to_environ, allowed); /* the kernel's are nobody's */
    free(allowed);
    stacksplice_lua_allow_source_lines(L, 0);
    assert_answer(ask_script, L, secret, closed);
    free(closed);
}

STATE_TEST(test_a_host_reads_regular_files_only)
{
    /* Not cmdline: memcheck puts a file of its own in its place. */
    const char *names[] = {"/proc/self/environ", "/proc/self/status", "/dev/null", fifo,
                           link_to_environ,      link_to_folder,      folder};
    lua_State *L = *state;
    char *expected = answer(ask_host, L, missing);

    assert_shows_secret(ask_host, L);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_answer(ask_host, L, names[i], expected);
    free(expected);
}

GROUP(make_files, remove_files)
