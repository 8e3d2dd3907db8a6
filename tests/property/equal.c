/*
 * The extension module "equal": states of Lua, and the borders that errors of test_equal_errors.py pass.
 * The program knows which error is on its way (flying): a list of numbers, since code that raises a text
 * again may make a new error.  The functions d0 to d9 of a stack, of Lua in the chunk "equal", say
 * which number its error has.
 *
 *   start(seed, budget, step)   a program begins on this thread; STEP is Python's
 *   call(i)      the steps of state I
 *   number() random(n) budget() fly(way) flying() add(n) lose() check(exc, where)   as in equal.lua
 *   raise_kept() raises an error that C kept
 *   end() -> (list of what is wrong; how many checks found the error; how many did not know one that
 *            nobody can know; how many had forgotten it)
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stacksplice/source.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STATES = 2, NUMBERS = 1000, WAYS = 4096, STEPS = 8, KEPT = 8, FRAMES = 600, MAX_DEPTH = 24 };

/* Which error it may be; the first is where it was born. */
typedef struct way {
    int numbers[STEPS], count;
    bool lost; /* nobody may know it */
} way;

typedef struct kept {
    IRestrictedErrorInfo *error;
    HRESULT hr;
    int way;
} kept;

/* A thread's program. */
typedef struct program {
    lua_State *states[STATES], *running[STATES];
    uint64_t random;
    int budget, number, depth, way_count, flying, kept_count;
    bool keeps_first; /* what closes a coroutine raises is dropped */
    way ways[WAYS];
    kept kept[KEPT];
    PyObject *step, *wrong;
    long found, unknown, forgotten;
} program;

static _Thread_local program *now;
static const char *script;
static size_t script_length;

static int chance(int n)
{
    now->random = now->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 1 + (int)((now->random >> 33) % (uint64_t)n);
}

static int new_number(void)
{
    return ++now->number % NUMBERS;
}

/* ---- The truth --------------------------------------------------------------------------------*/

static int new_way(const way *w)
{
    if (now->way_count == WAYS)
        Py_FatalError("too many ways");
    now->ways[now->way_count] = *w;
    return now->way_count++;
}

static void fly_new(int number)
{
    now->flying = new_way(&(way){.numbers = {number}, .count = 1});
}

/* LOST: it may be lost all the same. */
static void fly_add(int number, bool lost)
{
    way w = now->ways[now->flying];

    if (w.count == STEPS)
        w.count--;
    w.numbers[w.count++] = number;
    w.lost = w.lost && lost;
    now->flying = new_way(&w);
}

static void fly_lost(void)
{
    way w = now->ways[now->flying];

    w.lost = true;
    now->flying = new_way(&w);
}

typedef struct digits {
    int count, number;
} digits;

static int read_frame(const stacksplice_frame *frame, void *data)
{
    static const int weights[] = {1, 10, 100};
    const char *name = frame->function ? frame->function : "";
    digits *d = data;
    int digit = -1;

    if (frame->file && !strcmp(frame->file, "equal") && frame->line >= 2)
        digit = (int)frame->line - 2;
    else if (name[0] == 'd' && name[1] >= '0' && name[1] <= '9' && !name[2])
        digit = name[1] - '0';
    if (digit >= 0 && d->count < 3)
        d->number += weights[d->count++] * digit;
    return 0;
}

static int print(const char *text, size_t length, void *data)
{
    PyObject **all = data, *part = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");

    PyUnicode_AppendAndDel(all, part);
    return 0;
}

static void complain(PyObject *report, const char *where, int number)
{
    PyObject *text = PyUnicode_FromFormat("%s: %d, expected", where, number), *part;
    const way *w = &now->ways[now->flying];

    for (int i = 0; i < w->count; i++) {
        part = PyUnicode_FromFormat(" %d", w->numbers[i]);
        PyUnicode_AppendAndDel(&text, part);
    }
    part = PyUnicode_FromString("\n");
    PyUnicode_AppendAndDel(&text, part);
    PyUnicode_Append(&text, report);
    PyList_Append(now->wrong, text);
    Py_DECREF(text);
}

/* Whether what D says is in the truth, or D says nothing. */
static bool is_true(const digits *d)
{
    const way *w = &now->ways[now->flying];

    for (int i = 0; i < w->count; i++)
        if (d->count == 3 && w->numbers[i] == d->number)
            return ++now->found > 0;
    now->unknown += !d->count && w->lost;
    now->forgotten += !d->count && !w->lost;
    return !d->count;
}

/* ERROR is the one that flies, or its report says that nobody knows. */
static void check(IUnknown *error, const char *where)
{
    static _Thread_local uintptr_t frames[FRAMES];
    PyObject *text;
    uint32_t count = 0;
    digits d = {0, 0};

    if (FAILED(stacksplice_error_stack(error, FRAMES, frames, &count)))
        Py_FatalError("no stack");
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], read_frame, &d);
    if (is_true(&d))
        return;
    text = PyUnicode_FromString("");
    (void)stacksplice_format(error, STACKSPLICE_FORMAT_TEXT, NULL, print, &text);
    complain(text, where, d.count == 3 ? d.number : -1);
    Py_DECREF(text);
}

/* ---- C as a border ----------------------------------------------------------------------------*/

static IRestrictedErrorInfo *peek(void)
{
    IRestrictedErrorInfo *error = NULL;

    if (stacksplice_peek_error(&error) != S_OK)
        return NULL;
    error->lpVtbl->Release(error);
    return error;
}

static void keep_error(HRESULT hr)
{
    kept *place = &now->kept[now->kept_count < KEPT ? now->kept_count++ : chance(KEPT) - 1];
    IRestrictedErrorInfo *former = place->error;

    place->error = NULL;
    if (GetRestrictedErrorInfo(&place->error) == S_OK)
        (void)SetRestrictedErrorInfo(place->error);
    place->hr = hr;
    place->way = now->flying;
    if (former)
        former->lpVtbl->Release(former);
}

static HRESULT call_step(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &script);
    return stacksplice_lua_pcall(L, 0, 0);
}

/* Clean-up code that fails itself. */
static void clean_up(lua_State *L)
{
    stacksplice_saved_error saved;
    int flying = now->flying;
    IRestrictedErrorInfo *error = NULL;

    (void)stacksplice_save_error(&saved);
    if (FAILED(call_step(L)) && chance(2) == 1 && GetRestrictedErrorInfo(&error) == S_OK)
        error->lpVtbl->Release(error);
    stacksplice_restore_error(&saved);
    now->flying = flying;
}

/* HR failed.  Zero: it is handled. */
static HRESULT handle(lua_State *L, HRESULT hr, const char *where)
{
    IRestrictedErrorInfo *error = peek();

    if (!error)
        Py_FatalError("no error");
    check((IUnknown *)error, where);
    if (chance(3) == 1)
        keep_error(hr);
    if (chance(3) == 1)
        clean_up(L);
    if (chance(6) == 1 && now->kept_count) {
        const kept *old = &now->kept[chance(now->kept_count) - 1];

        now->flying = old->way;
        (void)SetRestrictedErrorInfo(old->error);
        check((IUnknown *)old->error, "C kept");
        return old->hr;
    }
    if (chance(4) == 1) {
        RoClearError();
        return S_OK;
    }
    return hr;
}

static int raise_it(lua_State *L, HRESULT hr)
{
    lua_settop(L, 0);
    if (SUCCEEDED(hr))
        return 0;
    if (chance(2) == 1)
        return stacksplice_lua_raise(L, hr);
    if (!stacksplice_lua_push_error(L, hr))
        return 0;
    if (chance(2) == 1)
        clean_up(L);
    return lua_error(L);
}

static int finish(lua_State *L, HRESULT hr, const char *where)
{
    return raise_it(L, FAILED(hr) ? handle(L, hr, where) : hr);
}

static int host_pcall(lua_State *L)
{
    return finish(L, stacksplice_lua_pcall(L, 0, 0), "pcall");
}

#if LUA_VERSION_NUM >= 502
static int continued(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    return finish(L, status == LUA_YIELD ? S_OK : (HRESULT)status, "pcallk");
}

static int host_pcallk(lua_State *L)
{
    return finish(L, stacksplice_lua_pcallk(L, 0, 0, 0, continued), "pcallk");
}
#else
#define host_pcallk host_pcall
#endif

/* Lua's own call, without a handler of ours: nobody may know.  What stands below tells it from a call whose
   handler was removed. */
static int host_plain(lua_State *L)
{
    enum { BELOW = 6 };
    int status;

    lua_settop(L, 1 + BELOW);
    lua_rotate(L, 1, BELOW);
    status = lua_pcall(L, 0, 0, 0);
    HRESULT hr = S_OK;

    if (status != LUA_OK) {
        fly_lost();
        hr = stacksplice_lua_originate(L, -1);
    }
    return finish(L, hr, "plain");
}

static int host_with_handler(lua_State *L)
{
    HRESULT hr = S_OK;
    int status;

    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_insert(L, 1);
    status = lua_pcall(L, 0, 0, 1);
    if (status != LUA_OK && chance(4) == 1)
        return 0; /* nobody asks */
    if (status != LUA_OK)
        hr = stacksplice_lua_originate(L, -1);
    return finish(L, hr, "with_handler");
}

static int host_resume(lua_State *L)
{
    lua_State *co = lua_newthread(L);
    bool before = now->keeps_first;
    HRESULT hr;
    int results;

    lua_insert(L, 1);
    lua_xmove(L, co, 1);
    now->keeps_first = true;
    hr = stacksplice_lua_resume(co, L, 0, &results);
    now->keeps_first = before;
    if (hr == S_FALSE)
        hr = S_OK;
    return finish(L, hr, "resume");
}

static int host_kept(lua_State *L)
{
    const kept *old = now->kept_count ? &now->kept[chance(now->kept_count) - 1] : NULL;

    if (!old)
        return 0;
    now->flying = old->way;
    (void)SetRestrictedErrorInfo(old->error);
    return raise_it(L, old->hr);
}

/* No border. */
static int host_call(lua_State *L)
{
    lua_call(L, 0, 0);
    return 0;
}

static int which(lua_State *L)
{
    return (int)lua_tointeger(L, lua_upvalueindex(1));
}

static int host_python(lua_State *L)
{
    int state = which(L);
    lua_State *before = now->running[state];
    PyObject *result;
    HRESULT hr = S_OK;

    if (now->depth == MAX_DEPTH)
        return 0;
    now->depth++;
    now->running[state] = L;
    result = PyObject_CallNoArgs(now->step);
    now->running[state] = before;
    now->depth--;
    if (!result)
        hr = stacksplice_python_originate();
    Py_XDECREF(result);
    return finish(L, hr, "python");
}

/* ---- What equal.lua asks ----------------------------------------------------------------------*/

static int host_random(lua_State *L)
{
    lua_pushinteger(L, chance((int)luaL_checkinteger(L, 1)));
    return 1;
}

static bool may_go_on(void)
{
    return now->budget > 0 && now->budget--;
}

static int host_budget(lua_State *L)
{
    lua_Debug activation;

    lua_pushboolean(L, !lua_getstack(L, 150, &activation) && may_go_on());
    return 1;
}

static int host_keeps_first(lua_State *L)
{
    lua_pushboolean(L, now->keeps_first);
    return 1;
}

static int host_number(lua_State *L)
{
    lua_pushinteger(L, new_number());
    return 1;
}

static int host_path(lua_State *L)
{
    lua_pushfstring(L, "%d%d%d", now->number % NUMBERS / 100, now->number % 100 / 10,
                    now->number % 10);
    return 1;
}

/* A number is a new error; light userdata is a way. */
static int host_fly(lua_State *L)
{
    if (lua_islightuserdata(L, 1))
        now->flying = (int)(intptr_t)lua_touserdata(L, 1);
    else
        fly_new((int)luaL_checkinteger(L, 1));
    return 0;
}

static int host_flying(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)(intptr_t)now->flying);
    return 1;
}

static int host_add(lua_State *L)
{
    fly_add((int)luaL_checkinteger(L, 1), lua_toboolean(L, 2));
    return 0;
}

/* The error object is looked at in the slot. */
static int host_check(lua_State *L)
{
    stacksplice_saved_error saved;

    (void)stacksplice_save_error(&saved);
    lua_pushvalue(L, 1);
    (void)stacksplice_lua_originate(L, -1);
    check((IUnknown *)peek(), luaL_checkstring(L, 2));
    stacksplice_restore_error(&saved);
    return 0;
}

static int host_lose(lua_State *L)
{
    (void)L;
    fly_lost();
    return 0;
}

static const luaL_Reg functions[] = {{"random", host_random},
                                     {"budget", host_budget},
                                     {"number", host_number},
                                     {"keeps_first", host_keeps_first},
                                     {"path", host_path},
                                     {"fly", host_fly},
                                     {"flying", host_flying},
                                     {"add", host_add},
                                     {"check", host_check},
                                     {"lose", host_lose},
                                     {"pcall", host_pcall},
                                     {"pcallk", host_pcallk},
                                     {"plain", host_plain},
                                     {"resume", host_resume},
                                     {"kept", host_kept},
                                     {"with_handler", host_with_handler},
                                     {"python", host_python},
                                     {"call", host_call},
                                     {NULL, NULL}};

/* ---- The module -------------------------------------------------------------------------------*/

static int open_state(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    if (luaL_loadbuffer(L, script, script_length, "@equal.lua") != LUA_OK)
        return lua_error(L);
    lua_insert(L, 2);
    lua_newtable(L);
    lua_pushvalue(L, 1);
    luaL_setfuncs(L, functions, 1);
    lua_call(L, 2, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &script);
    return 0;
}

static PyObject *start(PyObject *module, PyObject *arguments)
{
    unsigned long long seed;
    PyObject *step;
    int budget;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "KiO", &seed, &budget, &step))
        return NULL;
    now = PyMem_RawCalloc(1, sizeof *now);
    if (!now)
        return PyErr_NoMemory();
    now->random = seed;
    now->budget = budget;
    now->step = Py_NewRef(step);
    now->wrong = PyList_New(0);
    fly_new(0);
    for (int i = 0; i < STATES; i++) {
        lua_State *L = luaL_newstate();

        lua_pushcfunction(L, open_state);
        lua_pushinteger(L, i);
        if (lua_pcall(L, 1, 0, 0) != LUA_OK)
            return PyErr_Format(PyExc_RuntimeError, "%s", lua_tostring(L, -1));
        now->states[i] = now->running[i] = L;
    }
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *unused)
{
    program *gone = now;
    PyObject *result =
        Py_BuildValue("Nlll", gone->wrong, gone->found, gone->unknown, gone->forgotten);

    (void)module;
    (void)unused;
    for (int i = 0; i < gone->kept_count; i++)
        gone->kept[i].error->lpVtbl->Release(gone->kept[i].error);
    for (int i = 0; i < STATES; i++)
        lua_close(gone->states[i]);
    RoClearError();
    Py_DECREF(gone->step);
    PyMem_RawFree(gone);
    now = NULL;
    return result;
}

static PyObject *call(PyObject *module, PyObject *argument)
{
    lua_State *L = now->running[PyLong_AsLong(argument)];
    HRESULT hr;

    (void)module;
    if (now->depth == MAX_DEPTH || !lua_checkstack(L, 2 * LUA_MINSTACK))
        Py_RETURN_NONE;
    now->depth++;
    hr = call_step(L);
    now->depth--;
    if (FAILED(hr))
        hr = handle(L, hr, "from Python");
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    Py_RETURN_NONE;
}

static PyObject *raise_kept(PyObject *module, PyObject *unused)
{
    const kept *old = now->kept_count ? &now->kept[chance(now->kept_count) - 1] : NULL;

    (void)module;
    (void)unused;
    if (!old)
        Py_RETURN_NONE;
    now->flying = old->way;
    (void)SetRestrictedErrorInfo(old->error);
    return stacksplice_python_raise(old->hr);
}

static PyObject *python_random(PyObject *module, PyObject *argument)
{
    (void)module;
    return PyLong_FromLong(chance((int)PyLong_AsLong(argument)));
}

static PyObject *python_budget(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(may_go_on());
}

static PyObject *python_new(PyObject *module, PyObject *unused)
{
    int number = new_number();

    (void)module;
    (void)unused;
    fly_new(number);
    return PyUnicode_FromFormat("%d%d%d", number / 100, number / 10 % 10, number % 10);
}

static PyObject *python_flying(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(now->flying);
}

static PyObject *python_fly(PyObject *module, PyObject *argument)
{
    (void)module;
    now->flying = (int)PyLong_AsLong(argument);
    Py_RETURN_NONE;
}

/* check(names, info, where): the frames of an error in Python, the innermost first. */
static PyObject *python_check(PyObject *module, PyObject *arguments)
{
    PyObject *names, *info, *report;
    const char *where;
    digits d = {0, 0};

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!Os", &PyList_Type, &names, &info, &where))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
        stacksplice_frame frame = {.function = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i))};

        (void)read_frame(&frame, &d);
    }
    if (is_true(&d))
        Py_RETURN_NONE;
    report = PyObject_CallMethod(info, "format", NULL);
    if (!report)
        return NULL;
    complain(report, where, d.count == 3 ? d.number : -1);
    Py_DECREF(report);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, NULL},
    {"end", end, METH_NOARGS, NULL},
    {"call", call, METH_O, NULL},
    {"raise_kept", raise_kept, METH_NOARGS, NULL},
    {"random", python_random, METH_O, NULL},
    {"budget", python_budget, METH_NOARGS, NULL},
    {"new", python_new, METH_NOARGS, NULL},
    {"flying", python_flying, METH_NOARGS, NULL},
    {"fly", python_fly, METH_O, NULL},
    {"check", python_check, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "equal", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_equal(void)
{
    PyObject *module = PyModule_Create(&definition);
    FILE *file = fopen(EQUAL_LUA, "rb");
    static char text[1 << 16];

    script_length = file ? fread(text, 1, sizeof text, file) : 0;
    script = text;
    if (file)
        (void)fclose(file);
    return module;
}
