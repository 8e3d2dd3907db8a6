/*
 * The truth about the stack of an error, for comparison: a library that is preloaded into the
 * unchanged example host and logs what the interpreters and libgcc say.
 *
 * It keeps a call log (Python: trace and profile events; Lua: call and return hooks) and, at each
 * raise, writes one line of JSON: the call log in order, the lines of every script frame as
 * the interpreters' own debug interfaces give them, and the native frames by _Unwind_Backtrace.
 * When the host formats a report as JSON, the frames of that report are written too.
 *
 * Nothing in here uses the library under test, except to read the report that is checked.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <dlfcn.h>
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <stacksplice/script.h>
#include <stdbool.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))real(#name))
#define MAX_CALLS 4000
#define MAX_NATIVE 2000

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found) {
        fprintf(stderr, "oracle: no %s: %s\n", name, dlerror());
        abort();
    }
    return found;
}

/* ---- The log file ----------------------------------------------------------------------------*/

static FILE *log_file;

static void put_string(const char *text)
{
    putc('"', log_file);
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == '"' || c == '\\')
            fprintf(log_file, "\\u%04x", c);
        else
            putc(c, log_file);
    }
    putc('"', log_file);
}

static void put_member(const char *name, const char *value)
{
    fprintf(log_file, ", \"%s\": ", name);
    if (value)
        put_string(value);
    else
        fputs("null", log_file);
}

/* ---- The call log ----------------------------------------------------------------------------*/

typedef struct call {
    enum { PYTHON, PYTHON_C, LUA, LUA_C } kind;
    const void *id;     /* the Python frame, or the lua_State */
    int depth;          /* of a Lua call: levels below it in its lua_State */
    uintptr_t function; /* of a C function: its address */
} call;

static call calls[MAX_CALLS];
static size_t call_count;
static lua_State *main_state;

static void push_call(call c)
{
    if (call_count == MAX_CALLS)
        abort();
    calls[call_count++] = c;
}

static int lua_depth(lua_State *L)
{
    lua_Debug ar;
    int depth = 0;

    while (lua_getstack(L, depth, &ar))
        depth++;
    return depth;
}

static uintptr_t c_function_of(lua_State *L, lua_Debug *ar)
{
    uintptr_t function;

    lua_getinfo(L, "f", ar);
    function = (uintptr_t)lua_tocfunction(L, -1);
    lua_pop(L, 1);
    return function;
}

static void push_lua_level(lua_State *L, int level, int depth)
{
    lua_Debug ar;
    call c = {LUA, L, depth, 0};

    lua_getstack(L, level, &ar);
    lua_getinfo(L, "S", &ar);
    if (*ar.what == 'C') {
        c.kind = LUA_C;
        c.function = c_function_of(L, &ar);
    }
    push_call(c);
}

/* Forget the calls of L from DEPTH on, and all that they called. */
static void pop_lua(lua_State *L, int depth)
{
    for (size_t i = 0; i < call_count; i++) {
        bool lua = calls[i].kind == LUA || calls[i].kind == LUA_C;

        if (lua && calls[i].id == L && calls[i].depth >= depth)
            call_count = i;
    }
}

/* A coroutine that yielded or died ended its calls without an event. */
static void pop_stopped_coroutines(void)
{
    for (size_t i = 0; i < call_count; i++) {
        lua_State *L = (lua_State *)calls[i].id;

        if ((calls[i].kind == LUA || calls[i].kind == LUA_C) && L != main_state &&
            (lua_status(L) != LUA_OK || lua_depth(L) <= calls[i].depth))
            call_count = i;
    }
}

/* Make the log hold the first DEPTH levels of L: those of a coroutine that was resumed are new. */
static void complete_lua(lua_State *L, int depth)
{
    int have = 0, all = lua_depth(L);

    for (size_t i = 0; i < call_count; i++)
        if ((calls[i].kind == LUA || calls[i].kind == LUA_C) && calls[i].id == L)
            have = calls[i].depth + 1;
    for (; have < depth; have++)
        push_lua_level(L, all - 1 - have, have);
}

static void pop_python(const void *frame, bool c_function)
{
    for (size_t i = call_count; i-- > 0;) {
        if (calls[i].kind == (c_function ? PYTHON_C : PYTHON) && calls[i].id == frame) {
            call_count = i;
            return;
        }
    }
}

/* ---- One raise -------------------------------------------------------------------------------*/

static uintptr_t function_start(uintptr_t ip)
{
    return (uintptr_t)_Unwind_FindEnclosingFunction((void *)(ip - 1));
}

static void put_native(uintptr_t ip)
{
    uintptr_t start = function_start(ip);
    Dl_info info = {0};

    dladdr((void *)(ip - 1), &info);
    fprintf(log_file, "{\"kind\": \"native\", \"ip\": %ju, \"start\": %ju", (uintmax_t)ip,
            (uintmax_t)start);
    put_member("symbol", (uintptr_t)info.dli_saddr == start ? info.dli_sname : NULL);
    put_member("module", info.dli_fname);
    putc('}', log_file);
}

struct walk {
    uintptr_t ips[MAX_NATIVE];
    size_t count;
};

static _Unwind_Reason_Code add_native(struct _Unwind_Context *context, void *data)
{
    struct walk *w = data;
    uintptr_t ip = _Unwind_GetIP(context);

    if (ip && w->count < MAX_NATIVE)
        w->ips[w->count++] = ip;
    return _URC_NO_REASON;
}

static void put_python_frame(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);

    fprintf(log_file, "{\"kind\": \"python\", \"line\": %d", PyFrame_GetLineNumber(frame));
    put_member("file", PyUnicode_AsUTF8(code->co_filename));
    put_member("function", PyUnicode_AsUTF8(code->co_qualname));
    putc('}', log_file);
    Py_DECREF(code);
}

static void put_lua_frame(const call *c)
{
    lua_State *L = (lua_State *)c->id;
    lua_Debug ar;

    lua_getstack(L, lua_depth(L) - 1 - c->depth, &ar);
    lua_getinfo(L, "Sln", &ar);
    fprintf(log_file, "{\"kind\": \"lua\", \"line\": %d", ar.currentline);
    put_member("file", ar.source);
    put_member("function", ar.name);
    putc('}', log_file);
}

static void put_calls(void)
{
    fputs(", \"calls\": [", log_file);
    for (size_t i = call_count; i-- > 0;) {
        if (calls[i].kind == PYTHON)
            put_python_frame((PyFrameObject *)calls[i].id);
        else if (calls[i].kind == LUA)
            put_lua_frame(&calls[i]);
        else
            fprintf(log_file, "{\"kind\": \"c\", \"start\": %ju}", (uintmax_t)calls[i].function);
        if (i)
            fputs(", ", log_file);
    }
    putc(']', log_file);
}

/* The same Python frames as sys._getframe and f_back give them. */
static void put_frame_chain(void)
{
    PyFrameObject *frame = PyEval_GetFrame();

    Py_XINCREF(frame);
    fputs(", \"getframe\": [", log_file);
    while (frame) {
        PyFrameObject *back = PyFrame_GetBack(frame);

        put_python_frame(frame);
        if (back)
            fputs(", ", log_file);
        Py_DECREF(frame);
        frame = back;
    }
    putc(']', log_file);
}

static __attribute__((noinline)) void log_raise(const char *language, const char *type)
{
    static struct walk w;

    if (!log_file)
        return;
    pop_stopped_coroutines();
    fputs("{\"event\": \"raise\"", log_file);
    put_member("language", language);
    put_member("type", type);
    put_calls();
    put_frame_chain();
    w.count = 0;
    _Unwind_Backtrace(add_native, &w);
    fputs(", \"native\": [", log_file);
    for (size_t i = 0; i < w.count; i++) {
        if (i)
            fputs(", ", log_file);
        put_native(w.ips[i]);
    }
    fputs("]}\n", log_file);
}

/* ---- Python ----------------------------------------------------------------------------------*/

static PyObject *last_raised; /* kept alive, so that no other exception gets its address */

static void python_raised(PyObject *triple)
{
    PyObject *value = PyTuple_GET_ITEM(triple, 1);

    if (value == last_raised) /* the same one, seen again in an outer frame */
        return;
    Py_XDECREF(last_raised);
    last_raised = Py_NewRef(value);
    log_raise("python", Py_TYPE(value)->tp_name);
}

/* Each order begins anew: what earlier ones raised and handled does not count. */
static void log_order(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);

    if (log_file && PyUnicode_CompareWithASCIIString(code->co_name, "process") == 0)
        fputs("{\"event\": \"order\"}\n", log_file);
    Py_DECREF(code);
}

static int trace(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    if (what == PyTrace_CALL) {
        push_call((call){PYTHON, frame, 0, 0});
        log_order(frame);
    } else if (what == PyTrace_RETURN)
        pop_python(frame, false);
    else if (what == PyTrace_EXCEPTION)
        python_raised(arg);
    return 0;
}

static int profile(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    if (what == PyTrace_C_CALL && PyCFunction_Check(arg))
        push_call((call){PYTHON_C, frame, 0, (uintptr_t)PyCFunction_GetFunction(arg)});
    else if ((what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) && PyCFunction_Check(arg))
        pop_python(frame, true);
    return 0;
}

EXPORT PyStatus Py_InitializeFromConfig(const PyConfig *config)
{
    PyStatus status = REAL(Py_InitializeFromConfig)(config);
    const char *path = getenv("ORACLE_LOG");

    if (!PyStatus_Exception(status) && path) {
        log_file = fopen(path, "w");
        PyEval_SetTrace(trace, NULL);
        PyEval_SetProfile(profile, NULL);
    }
    return status;
}

/* ---- Lua -------------------------------------------------------------------------------------*/

static void hook(lua_State *L, lua_Debug *ar)
{
    int depth = lua_depth(L) - 1;

    pop_stopped_coroutines();
    pop_lua(L, depth);
    if (ar->event == LUA_HOOKRET)
        return;
    complete_lua(L, depth + 1);
    lua_getinfo(L, "Sn", ar);
    /* The builtin `error` raises next; a coroutine has no message handler that would see it. */
    if (L != main_state && *ar->what == 'C' && ar->name && strcmp(ar->name, "error") == 0)
        log_raise("lua", NULL);
}

EXPORT lua_State *(luaL_newstate)(void)
{
    lua_State *L = REAL(luaL_newstate)();

    if (!main_state) {
        main_state = L;
        lua_sethook(L, hook, LUA_MASKCALL | LUA_MASKRET, 0);
    }
    return L;
}

/*
 * The host's message handler is a function of its static library that no symbol table of the
 * dynamic linker names: the test tells its offset in the program.
 */
static lua_CFunction host_handler(void)
{
    static lua_CFunction handler;
    const char *offset = getenv("ORACLE_HANDLER");
    struct link_map *program;

    if (!handler && offset && dlinfo(dlopen(NULL, RTLD_LAZY), RTLD_DI_LINKMAP, &program) == 0)
        handler = (lua_CFunction)(program->l_addr + strtoul(offset, NULL, 16));
    return handler;
}

/* In its place.  The jump leaves no frame of this function. */
static int seen_by_handler(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    if (lua_tothread(L, -1) == main_state)
        log_raise("lua", NULL);
    lua_pop(L, 1);
    return host_handler()(L);
}

EXPORT void(lua_pushcclosure)(lua_State *L, lua_CFunction function, int upvalues)
{
    lua_CFunction handler = host_handler();

    REAL(lua_pushcclosure)
    (L, handler && function == handler ? seen_by_handler : function, upvalues);
}

/* ---- C code and reports ----------------------------------------------------------------------*/

EXPORT BOOL(RoOriginateErrorW)(HRESULT hr, UINT length, PCWSTR message)
{
    __typeof__(&RoOriginateErrorW) next = real("stacksplice_RoOriginateErrorW");

    log_raise("native", NULL);
    return next(hr, length, message);
}

EXPORT stacksplice_hresult stacksplice_originate(stacksplice_hresult hr, const char *message,
                                                 size_t length, IUnknown *exception,
                                                 IRestrictedErrorInfo **error)
{
    if (!exception)
        log_raise("native", NULL);
    return REAL(stacksplice_originate)(hr, message, length, exception, error);
}

static int put_resolved(const stacksplice_frame *frame, void *data)
{
    fputs("{\"kind\": ", log_file);
    put_string(frame->kind == STACKSPLICE_FRAME_GAP ? "gap" : frame->language);
    fprintf(log_file, ", \"line\": %u", frame->line);
    put_member("file", frame->file);
    put_member("function", frame->function);
    put_member("reason", frame->reason);
    putc('}', log_file);
    return 1; /* one line per element */
}

static void put_stack(IUnknown *error)
{
    static uintptr_t frames[MAX_NATIVE];
    uint32_t count = 0;

    stacksplice_error_stack(error, MAX_NATIVE, frames, &count);
    putc('[', log_file);
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            fputs(", ", log_file);
        if (frames[i] >> 48 == 0x5353)
            stacksplice_resolve(frames[i], put_resolved, NULL);
        else
            put_native(frames[i]);
    }
    putc(']', log_file);
}

static void put_chain(IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL, *node = NULL, *next;

    fputs(", \"chain\": [", log_file);
    if (SUCCEEDED(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2,
                                                (void **)&info))) {
        info->lpVtbl->GetPropagationContextHead(info, &node);
        info->lpVtbl->Release(info);
    }
    for (bool first = true; node; first = false, node = next) {
        if (!first)
            fputs(", ", log_file);
        put_stack((IUnknown *)node);
        next = NULL;
        node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &next);
        node->lpVtbl->Release(node);
    }
    putc(']', log_file);
}

EXPORT stacksplice_hresult stacksplice_format(IUnknown *error, stacksplice_format_kind kind,
                                              const stacksplice_format_options *options,
                                              stacksplice_write_callback write, void *data)
{
    if (kind == STACKSPLICE_FORMAT_JSON && log_file) {
        fputs("{\"event\": \"report\", \"stack\": ", log_file);
        put_stack(error);
        put_chain(error);
        fputs("}\n", log_file);
        fflush(log_file);
    }
    return REAL(stacksplice_format)(error, kind, options, write, data);
}
