/*
 * A host in which nothing of stacksplice has run when something of it is needed for the first time.
 * usage: first lua|python|both|bare|required WHAT WHEN
 *
 * bare: a state of Lua that never saw stacksplice; required: its script requires the module.
 * WHAT is the first capture, error, token, name or report; WHEN says in which trouble.  Prints
 * "LANGUAGE FUNCTION" for each script frame that it has then, innermost first, "gap REASON" for each
 * gap, "C FUNCTION" for the function that scripts call, and "failed" where memory is missing.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "check.h"

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/crash.h>
#include <stacksplice/deadline.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stacksplice/source.h>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 64 };

static const char *languages, *what, *when;

static bool is(const char *argument, const char *text)
{
    return strcmp(argument, text) == 0;
}

/* ---- What comes first ------------------------------------------------------------------------*/

static void print(const char *kind, const char *text)
{
    char line[300];
    int length = snprintf(line, sizeof line, "%s %s\n", kind, text ? text : "");

    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(3);
}

static int print_script(const stacksplice_frame *frame, void *data)
{
    (void)data;
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        print(frame->language, frame->function);
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        print("gap", frame->reason);
    return 0;
}

static int print_native(const stacksplice_frame *frame, void *data)
{
    (void)data;
    print(frame->function ? "C" : "failed", frame->function ? frame->function : "name");
    return 1;
}

static void print_all(const uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], print_script, NULL);
}

static void capture(void)
{
    uintptr_t frames[FRAMES];
    uint32_t count = 0;
    HRESULT hr = stacksplice_capture(0, FRAMES, frames, &count, NULL);

    CHECK(hr == S_OK || hr == E_OUTOFMEMORY);
    if (hr != S_OK)
        print("failed", "capture");
    print_all(frames, count);
}

/* There is always an error for E_OUTOFMEMORY, if need be one without a stack. */
static IRestrictedErrorInfo *new_error(void)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr = is(when, "memory") ? E_OUTOFMEMORY : E_FAIL, is_for = S_OK;

    (void)stacksplice_originate(hr, "first", 5, NULL, NULL);
    CHECK(stacksplice_peek_error(&error) == S_OK);
    CHECK(stacksplice_error_hresult((IUnknown *)error, &is_for) == S_OK && is_for == hr);
    return error;
}

static void make_error(void)
{
    uintptr_t frames[FRAMES];
    uint32_t count = 0;

    CHECK(stacksplice_error_stack((IUnknown *)new_error(), FRAMES, frames, &count) == S_OK);
    if (!count)
        print("failed", "stack");
    print_all(frames, count);
}

static void make_token(void)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_EXACT,
                                         .language = "test",
                                         .function = "coined"};
    uintptr_t token = 0;

    (void)stacksplice_intern(&info, &token); /* without memory the token says so */
    (void)stacksplice_resolve(token, print_script, NULL);
}

static int act_in_lua(lua_State *L);

static void find_name(void)
{
    (void)stacksplice_resolve((uintptr_t)act_in_lua + 1, print_native, NULL);
}

static int write_text(const char *text, size_t length, void *data)
{
    (void)data;
    return write(STDOUT_FILENO, text, length) != (ssize_t)length;
}

static void report(void)
{
    CHECK(stacksplice_format((IUnknown *)new_error(), STACKSPLICE_FORMAT_TEXT, NULL, write_text,
                             NULL) == S_OK);
}

static void do_it(void)
{
    static const struct {
        const char *name;
        void (*act)(void);
    } acts[] = {{"capture", capture},
                {"error", make_error},
                {"token", make_token},
                {"name", find_name},
                {"report", report}};

    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (is(what, acts[i].name))
            acts[i].act();
}

/* ---- In which trouble ------------------------------------------------------------------------*/

static sem_t is_called, may_act, has_acted;

static void fault(void)
{
    int *volatile nowhere = (int *)8;

    *nowhere = 1;
}

static void handle(int number)
{
    (void)number;
    do_it();
}

static void handle_and_end(int number)
{
    do_it();
    _exit(number == SIGSEGV ? 0 : 3);
}

static void let_the_other_act(int number)
{
    (void)number;
    sem_post(&may_act);
    while (sem_wait(&has_acted) != 0)
        continue;
    _exit(0);
}

static void wait_for_the_crash(void)
{
    sem_post(&is_called);
    while (sem_wait(&may_act) != 0)
        continue;
    do_it();
    sem_post(&has_acted);
    for (;;)
        pause();
}

/* The report of a deadline is made by another thread. */
static atomic_int is_missed;

static void act_late(void *by_report)
{
    if (!by_report && !atomic_load(&is_missed))
        do_it();
    atomic_store(&is_missed, 1);
}

static void miss_deadline(void)
{
    bool by_report = is(what, "report");
    const stacksplice_deadline_options options = {
        .size = sizeof options,
        .flags = by_report ? STACKSPLICE_DEADLINE_NO_FILE
                           : STACKSPLICE_DEADLINE_NO_FILE | STACKSPLICE_DEADLINE_NO_TEXT,
        .interrupt = act_late,
        .data = by_report ? &is_missed : NULL};
    stacksplice_deadline deadline;

    CHECK(stacksplice_deadline_begin(1, &options, &deadline) == S_OK);
    while (!atomic_load(&is_missed))
        continue;
    (void)stacksplice_deadline_end(deadline);
}

static void act_in_child(void)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        do_it();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void exhaust_memory(void)
{
    const struct rlimit none = {1, 1};
    void *volatile block; /* a compiler may leave out what nobody uses */

    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    for (size_t bytes = 1 << 20; bytes >= 16;) {
        block = malloc(bytes);
        if (!block)
            bytes /= 2;
    }
}

/* What scripts call. */
static void act(void)
{
    if (is(when, "handler")) {
        (void)raise(SIGUSR1);
    } else if (is(when, "crash")) {
        fault();
    } else if (is(when, "deadline")) {
        miss_deadline();
    } else if (is(when, "other")) {
        wait_for_the_crash();
    } else if (is(when, "child")) {
        act_in_child();
    } else {
        exhaust_memory();
        if (is(what, "report"))
            fault();
        do_it();
        _exit(0); /* no interpreter goes on without memory */
    }
}

/* ---- Scripts ---------------------------------------------------------------------------------*/

static int act_in_lua(lua_State *L)
{
    (void)L;
    act();
    return 0;
}

static void run_lua(void)
{
    static const char script[] = "local function inner() act() end\n"
                                 "local function outer() inner() end\n"
                                 "outer()\n";
    lua_State *L = luaL_newstate();

    CHECK(L);
    luaL_openlibs(L);
    if (is(languages, "required")) {
        luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
        lua_pushcfunction(L, luaopen_stacksplice);
        lua_setfield(L, -2, "stacksplice");
        lua_pop(L, 1);
        CHECK(luaL_dostring(L, "require 'stacksplice'") == LUA_OK);
    } else if (!is(languages, "bare")) {
        luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    }
    lua_register(L, "act", act_in_lua);
    CHECK(luaL_loadbufferx(L, script, sizeof script - 1, "@first.lua", "t") == LUA_OK);
    CHECK(lua_pcall(L, 0, 0, 0) == LUA_OK);
}

static PyObject *act_in_python(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (is(languages, "both"))
        run_lua();
    else
        act();
    Py_RETURN_NONE;
}

static void begin_python(void)
{
    PyConfig config;

    PyConfig_InitPythonConfig(&config);
    config.site_import = 0;
    CHECK(!PyStatus_Exception(
        PyConfig_SetBytesString(&config, &config.program_name, STACKSPLICE_PYTHON)));
    CHECK(!PyStatus_Exception(Py_InitializeFromConfig(&config)));
    PyConfig_Clear(&config);
    CHECK(stacksplice_python_import() == S_OK);
}

static void run_python(void)
{
    static PyMethodDef method = {"act", act_in_python, METH_NOARGS, NULL};
    PyObject *function = PyCFunction_New(&method, NULL);

    CHECK(function && PyObject_SetAttrString(PyImport_AddModule("__main__"), "act", function) == 0);
    CHECK(PyRun_SimpleString("def inner():\n    act()\n"
                             "def outer():\n    inner()\n"
                             "outer()\n") == 0);
}

static bool use_python(void)
{
    return is(languages, "python") || is(languages, "both");
}

static void run_scripts(void)
{
    if (use_python())
        run_python();
    else
        run_lua();
}

static void *run_in_thread(void *unused)
{
    PyGILState_STATE state = PyGILState_UNLOCKED;

    if (Py_IsInitialized())
        state = PyGILState_Ensure();
    run_scripts();
    if (Py_IsInitialized())
        PyGILState_Release(state);
    return unused;
}

/* This thread crashes while another one is in a script. */
static void crash_beside_scripts(void)
{
    pthread_t thread;

    if (Py_IsInitialized())
        (void)PyEval_SaveThread();
    CHECK(pthread_create(&thread, NULL, run_in_thread, NULL) == 0);
    while (sem_wait(&is_called) != 0)
        continue;
    fault();
}

/* Of crashes the report is ours, anything else is up to a handler of the host. */
static void set_handlers(void)
{
    const struct rlimit none = {0, 0};

    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    (void)signal(SIGUSR1, handle);
    if (is(what, "report") && !is(when, "deadline"))
        CHECK(stacksplice_install_crash_handler(NULL) == S_OK);
    else if (is(when, "crash") || is(when, "other"))
        (void)signal(SIGSEGV, is(when, "crash") ? handle_and_end : let_the_other_act);
}

int main(int count, char **arguments)
{
    CHECK(count == 4);
    languages = arguments[1];
    what = arguments[2];
    when = arguments[3];
    CHECK(sem_init(&is_called, 0, 0) == 0 && sem_init(&may_act, 0, 0) == 0 &&
          sem_init(&has_acted, 0, 0) == 0);
    set_handlers();
    if (use_python())
        begin_python();
    if (is(when, "other"))
        crash_beside_scripts();
    else
        run_scripts();
    return 0;
}
