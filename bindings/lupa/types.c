/*
 * How new runtimes, new LuaErrors and resumed coroutines are noticed: slots and methods of lupa's types
 * are replaced, so that the types, and what they print, stay the same.
 */
#include "lupa/lupa.h"
#include <dlfcn.h>
#include <string.h>

enum { MAX_WATCHED = 80 };

/* What METH_FASTCALL | METH_KEYWORDS stands for. */
typedef PyObject *(*fast_function)(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                                   PyObject *names);

/* A method with its former function; DEFINITION is NULL if it is none that we know. */
typedef struct method {
    PyMethodDef *definition;
    PyCFunction former;
} method;

/* A type of lupa with its former slots; what is NULL is not replaced.  Never freed: subclasses that
   were made meanwhile keep our functions. */
typedef struct watched {
    PyTypeObject *type; /* counted */
    newfunc make;
    initproc init;
    ternaryfunc call;
    iternextfunc next;
    method set_handler; /* set_overflow_handler, which lupa calls as it makes a runtime */
    method next_method, send;
    method execute, eval, compile;
} watched;
static watched table[MAX_WATCHED];
static int table_count;   /* (GIL) */
static bool limits_calls; /* (GIL) some runtime does */

static watched *find(const PyTypeObject *type)
{
    for (int i = 0; i < table_count; i++)
        if (table[i].type == type)
            return &table[i];
    return NULL;
}

/* The row of TYPE, or that of the type from which it inherits. */
static const watched *row_of(PyTypeObject *type)
{
    while (type && !find(type))
        type = type->tp_base;
    return type ? find(type) : NULL;
}

/* ---- Methods: what Python sees of one stays when its C function is replaced -------------------*/

static method method_of(PyMethodDef *definition)
{
    return (method){definition, definition ? definition->ml_meth : NULL};
}

static void replace(const method *m, PyCFunction ours)
{
    if (m->definition)
        m->definition->ml_meth = ours;
}

static void put_back(const method *m, PyCFunction ours)
{
    if (m->definition && m->definition->ml_meth == ours)
        m->definition->ml_meth = m->former;
}

static fast_function fast(const method *m)
{
    return (fast_function)(void (*)(void))m->former;
}

/* What TYPE itself has of that NAME.  From 3.12 on the interpreter's own types show no dictionary. */
static PyObject *member_of(const PyTypeObject *type, const char *name)
{
    return type->tp_dict ? PyDict_GetItemString(type->tp_dict, name) : NULL;
}

/* Whether DEFINITION, wherever it points, is one of the method NAME in the file that TYPE itself is from. */
static bool is_compiled(const PyMethodDef *definition, const PyTypeObject *type, const char *name)
{
    Dl_info here, there;

    return dladdr((void *)(uintptr_t)type->tp_dealloc, &here) && dladdr(definition, &there) &&
           here.dli_fbase == there.dli_fbase &&
           definition->ml_flags == (METH_FASTCALL | METH_KEYWORDS) &&
           strcmp(definition->ml_name, name) == 0;
}

/* Visits what a function of Cython holds: *FOUND is the definition of the interpreter's function in it. */
static int find_definition(PyObject *held, void *found)
{
    if (PyCFunction_CheckExact(held))
        *(PyMethodDef **)found = ((PyCFunctionObject *)held)->m_ml;
    return 0;
}

/* The method NAME of TYPE that Cython compiled.  Cython's functions begin as the interpreter's own do,
   but say so nowhere; those for the stable ABI hold one instead.  So the pointer is followed only into
   that file. */
static method compiled_method(PyTypeObject *type, const char *name)
{
    PyObject *function = member_of(type, name);
    PyMethodDef *found;

    if (!function || Py_TYPE(function)->tp_basicsize < (Py_ssize_t)sizeof(PyCFunctionObject))
        return method_of(NULL);
    found = ((PyCFunctionObject *)function)->m_ml;
    if (is_compiled(found, type, name))
        return method_of(found);
    found = NULL;
    if (PyObject_IS_GC(function) && Py_TYPE(function)->tp_traverse)
        (void)Py_TYPE(function)->tp_traverse(function, find_definition, &found);
    return method_of(found && is_compiled(found, type, name) ? found : NULL);
}

/* The method __next__ of TYPE, which may have only the slot. */
static method next_method_of(PyTypeObject *type)
{
    PyObject *found = member_of(type, "__next__");
    PyMethodDef *definition = NULL;

    if (found && Py_IS_TYPE(found, &PyMethodDescr_Type))
        definition = ((PyMethodDescrObject *)found)->d_method;
    if (definition && (definition->ml_flags & ~METH_COEXIST) != METH_NOARGS)
        definition = NULL;
    return method_of(definition);
}

/* ---- Runtimes and errors ----------------------------------------------------------------------*/

static void tell_created(PyObject *runtime)
{
    sspy_state *state = sspy_state_current();

    if (state && sspy_lupa_created(state)) {
        PyObject *done = PyObject_CallOneArg(sspy_lupa_created(state), runtime);

        Py_XDECREF(done);
    }
    if (PyErr_Occurred()) /* the runtime is as good as without us */
        PyErr_WriteUnraisable(runtime);
}

/* Whether this thread makes a runtime, in which nothing is compiled yet. */
static _Thread_local bool making;

static PyObject *make_runtime(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    bool former = making;
    PyObject *runtime;

    making = true;
    runtime = row_of(type)->make(type, arguments, keywords);
    if (runtime)
        tell_created(runtime);
    making = former;
    return runtime;
}

/* lupa sets the handler of each new runtime, and then begins to count its memory: what we need of
   it is not counted against the limit of the program. */
static PyObject *set_handler(PyObject *runtime, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names)
{
    fast_function set = fast(&row_of(Py_TYPE(runtime))->set_handler);
    PyObject *result = set(runtime, arguments, count, names);

    if (result)
        tell_created(runtime);
    return result;
}

static int init_error(PyObject *exc, PyObject *arguments, PyObject *keywords)
{
    sspy_state *state;

    if (row_of(Py_TYPE(exc))->init(exc, arguments, keywords))
        return -1;
    state = sspy_state_current();
    if (state && sspy_lupa_has_runtimes(state))
        sspy_lupa_error_made(state, exc, __builtin_frame_address(0));
    PyErr_Clear();
    return 0;
}

/* ---- Chunks -----------------------------------------------------------------------------------*/

/* The argument NAME, which may also stand at POSITION; NULL if it is not given. */
static PyObject *argument(PyObject *const *arguments, Py_ssize_t count, PyObject *names,
                          const char *name, Py_ssize_t position)
{
    PyObject *found = position < count ? arguments[position] : NULL;

    for (Py_ssize_t i = 0; !found && names && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name) == 0)
            found = arguments[count + i];
    return found && found != Py_None ? found : NULL;
}

/* RESULT of a call of ATTACHED, which may be NULL: that, or the exception of late work that is lost. */
static PyObject *late_result(sspy_state *state, const sspy_attached *attached, PyObject *result)
{
    bool may_be_lost =
        attached && sspy_late_has_raised() &&
        (result || (PyErr_Occurred() && ((PyTypeObject *)PyErr_Occurred())->tp_init == init_error));

    return may_be_lost ? sspy_late_result(state, attached, result) : result;
}

/* Call METHOD, which compiles a chunk.  RUNS: and runs it; else the name may also stand second. */
static PyObject *with_chunk(const method *m, bool runs, PyObject *runtime,
                            PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *code = argument(arguments, count, names, "lua_code", 0), *result;
    PyObject *name = argument(arguments, count, names, "name", runs ? PY_SSIZE_T_MAX : 1);
    sspy_state *state = code ? sspy_state_current() : NULL;
    sspy_attached *attached = state ? sspy_attached_find(state, (uintptr_t)runtime) : NULL;
    uint64_t number;
    sspy_late late;

    PyErr_Clear(); /* of an interpreter without us */
    if (sspy_late_begin_call(state, &late, attached))
        return NULL;
    number = attached ? sspy_lupa_begin_chunk(attached, code, name, runs) : 0;
    result = late_result(state, attached, fast(m)(runtime, arguments, count, names));
    sspy_lupa_end_chunk(number);
    sspy_late_end(&late);
    if (!result && state)
        sspy_lupa_left(state);
    return result;
}

static PyObject *execute(PyObject *runtime, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *names)
{
    return with_chunk(&row_of(Py_TYPE(runtime))->execute, true, runtime, arguments, count, names);
}

static PyObject *evaluate(PyObject *runtime, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *names)
{
    return with_chunk(&row_of(Py_TYPE(runtime))->eval, true, runtime, arguments, count, names);
}

static PyObject *compile_chunk(PyObject *runtime, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *names)
{
    return with_chunk(&row_of(Py_TYPE(runtime))->compile, false, runtime, arguments, count, names);
}

/* ---- Calls of runtimes with a limit ------------------------------------------------------------*/

typedef struct owner {
    sspy_state *state;
    sspy_attached *found;
} owner;

static int look_for_runtime(PyObject *object, void *data)
{
    owner *o = data;

    if (!o->found)
        o->found = sspy_attached_find(o->state, (uintptr_t)object);
    return 0;
}

/* The runtime that OBJECT is of, if that is attached. */
static owner owner_of(PyObject *object)
{
    owner o = {sspy_state_current(), NULL};

    if (o.state && Py_TYPE(object)->tp_traverse)
        (void)Py_TYPE(object)->tp_traverse(object, look_for_runtime, &o);
    PyErr_Clear();
    return o;
}

/* Begin a call that OBJECT of a runtime makes; -1 with an exception. */
static int begin_call(PyObject *object, sspy_late *late)
{
    owner o = limits_calls ? owner_of(object) : (owner){NULL, NULL};

    return sspy_late_begin_call(o.state, late, o.found);
}

/* Its RESULT, which may be NULL. */
static PyObject *end_call(PyObject *object, sspy_late *late, PyObject *result)
{
    if (sspy_late_has_raised()) {
        PyObject *pending = sspy_take_pending();
        owner o = owner_of(object);

        sspy_set_pending(pending);
        result = late_result(o.state, o.found, result);
    }
    sspy_late_end(late);
    if (!result)
        sspy_lupa_left(NULL);
    return result;
}

static PyObject *call_object(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *result;
    sspy_late late;

    while (!find(type) || !find(type)->call)
        type = type->tp_base;
    if (begin_call(object, &late)) {
        sspy_late_end(&late);
        return NULL;
    }
    result = find(type)->call(object, arguments, keywords);
    return end_call(object, &late, result);
}

/* ---- Coroutines -------------------------------------------------------------------------------*/

/* What this thread was doing before it resumed a coroutine. */
typedef struct former {
    sspy_call call;
    sspy_resumed resumed;
    sspy_late late;
} former;

/* -1 with an exception, and then nothing is to be ended. */
static int begin_resuming(PyObject *coroutine, former *before)
{
    if (begin_call(coroutine, &before->late))
        return -1;
    before->call = sspy_lupa_resuming(sspy_call_now(PyThreadState_Get()));
    before->resumed = sspy_late_resuming(coroutine);
    return 0;
}

/* VALUE is what resuming COROUTINE returned; only a LuaError tells of its failure. */
static PyObject *end_resuming(PyObject *coroutine, PyObject *value, former *before,
                              const void *above)
{
    (void)sspy_lupa_resuming(before->call);
    sspy_late_set_resumed(before->resumed);
    if (!value && PyErr_Occurred() && ((PyTypeObject *)PyErr_Occurred())->tp_init == init_error)
        sspy_lupa_resume_failed(coroutine, above);
    return end_call(coroutine, &before->late, value);
}

/* What next() and loops call. */
static PyObject *next_value(PyObject *coroutine)
{
    PyObject *value;
    former before;

    if (begin_resuming(coroutine, &before))
        return NULL;
    value = row_of(Py_TYPE(coroutine))->next(coroutine);
    return end_resuming(coroutine, value, &before, __builtin_frame_address(0));
}

static PyObject *next_method(PyObject *coroutine, PyObject *unused)
{
    PyObject *value;
    former before;

    if (begin_resuming(coroutine, &before))
        return NULL;
    value = row_of(Py_TYPE(coroutine))->next_method.former(coroutine, unused);
    return end_resuming(coroutine, value, &before, __builtin_frame_address(0));
}

static PyObject *send_value(PyObject *coroutine, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    PyObject *value;
    former before;

    if (begin_resuming(coroutine, &before))
        return NULL;
    value = fast(&row_of(Py_TYPE(coroutine))->send)(coroutine, arguments, count, names);
    return end_resuming(coroutine, value, &before, __builtin_frame_address(0));
}

/* ---- Functions --------------------------------------------------------------------------------*/

static const watched ours = {.make = make_runtime, .init = init_error, .call = call_object};
static const PyCFunction our_set_handler = (PyCFunction)(void (*)(void))set_handler;
static const PyCFunction our_execute = (PyCFunction)(void (*)(void))execute;
static const PyCFunction our_eval = (PyCFunction)(void (*)(void))evaluate;
static const PyCFunction our_compile = (PyCFunction)(void (*)(void))compile_chunk;
static const PyCFunction our_send = (PyCFunction)(void (*)(void))send_value;

/* Exchange the slots of TYPE and of those below it that inherited them. */
static void exchange(PyTypeObject *type, const watched *from, const watched *to)
{
    PyObject *below = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);

    if (from->make && type->tp_new == from->make)
        type->tp_new = to->make;
    if (from->init && type->tp_init == from->init)
        type->tp_init = to->init;
    if (from->call && type->tp_call == from->call)
        type->tp_call = to->call;
    for (Py_ssize_t i = 0; below && i < PyList_GET_SIZE(below); i++) {
        PyTypeObject *subclass = (PyTypeObject *)PyList_GET_ITEM(below, i);

        if (subclass->tp_base == type)
            exchange(subclass, from, to);
    }
    Py_XDECREF(below);
    PyErr_Clear(); /* without memory, subclasses stay as they are */
}

/* The row of TYPE, which is ROW if it has none yet; NULL with an exception. */
static watched *keep(const watched *row)
{
    watched *known = find(row->type);

    if (known)
        return known;
    if (table_count == MAX_WATCHED) {
        PyErr_SetString(PyExc_RuntimeError, "too many copies of lupa");
        return NULL;
    }
    Py_INCREF(row->type);
    table[table_count] = *row;
    return &table[table_count++];
}

/* Notice failures of coroutines of TYPE that Python resumes; -1 with an exception. */
static int watch_coroutines(PyTypeObject *type)
{
    watched *row = keep(&(watched){.type = type,
                                   .next = type->tp_iternext,
                                   .next_method = next_method_of(type),
                                   .send = compiled_method(type, "send")});

    if (!row)
        return -1;
    if (row->next)
        type->tp_iternext = next_value;
    replace(&row->next_method, next_method);
    replace(&row->send, our_send);
    return 0;
}

/* Notice calls of objects of TYPE, and of others that are called in the same way; -1 with an exception. */
static int watch_calls(PyTypeObject *type)
{
    watched *row;

    while (type->tp_base && type->tp_base->tp_call == type->tp_call)
        type = type->tp_base;
    if (!type->tp_call || type->tp_call == call_object)
        return 0;
    row = keep(&(watched){.type = type, .call = type->tp_call});
    if (row)
        exchange(type, row, &ours);
    return row ? 0 : -1;
}

PyObject *sspy_lupa_attach(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_new_runtime new = {.raised = sspy_lupa_raised,
                            .caught = sspy_lupa_caught,
                            .find_in = sspy_lupa_find_in,
                            .is_fresh = making};
    PyObject *key, *lua, *globals, *coroutine;
    const char *library;

    if (!PyArg_ParseTuple(arguments, "O!O!OsO!O:_lupa_attach", &PyLong_Type, &key, &PyLong_Type,
                          &lua, &coroutine, &library, &PyDict_Type, &globals, &new.lock))
        return NULL;
    new.key = (uintptr_t)PyLong_AsVoidPtr(key);
    new.L = PyLong_AsVoidPtr(lua);
    new.globals = globals;
    new.coroutines = Py_TYPE(coroutine);
    if (PyErr_Occurred() ||
        (!sspy_attached_find(state, new.key) &&
         (watch_coroutines(Py_TYPE(coroutine)) || watch_calls(Py_TYPE(coroutine)) ||
          sspy_attached_add(state, &new, library))))
        return NULL;
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_limit(PyObject *module, PyObject *arguments)
{
    unsigned long long key;
    unsigned milliseconds;
    sspy_attached *attached;
    PyObject *object;

    if (!PyArg_ParseTuple(arguments, "KIO:_lupa_limit", &key, &milliseconds, &object))
        return NULL;
    attached = sspy_attached_find(PyModule_GetState(module), (uintptr_t)key);
    if (watch_calls(Py_TYPE(object)))
        return NULL;
    limits_calls = true;
    if (attached)
        attached->limit = milliseconds;
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_watch(PyObject *module, PyObject *arguments)
{
    sspy_lupa *lupa = sspy_record(PyModule_GetState(module), SSPY_OF_LUPA, sizeof *lupa);
    PyTypeObject *runtime, *error;
    watched *runtimes, *errors;
    PyObject *created;

    if (!PyArg_ParseTuple(arguments, "O!O!O:_lupa_watch", &PyType_Type, &runtime, &PyType_Type,
                          &error, &created))
        return NULL;
    if (!lupa)
        return PyErr_NoMemory();
    runtimes = keep(&(watched){.type = runtime,
                               .make = runtime->tp_new,
                               .set_handler = compiled_method(runtime, "set_overflow_handler"),
                               .execute = compiled_method(runtime, "execute"),
                               .eval = compiled_method(runtime, "eval"),
                               .compile = compiled_method(runtime, "compile")});
    errors = runtimes ? keep(&(watched){.type = error, .init = error->tp_init}) : NULL;
    if (!errors)
        return NULL;
    Py_XSETREF(lupa->created, Py_NewRef(created));
    exchange(runtime, runtimes, &ours);
    exchange(error, errors, &ours);
    replace(&runtimes->set_handler, our_set_handler);
    replace(&runtimes->execute, our_execute);
    replace(&runtimes->eval, our_eval);
    replace(&runtimes->compile, our_compile);
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_unwatch(PyObject *module, PyObject *unused)
{
    sspy_lupa *lupa = sspy_lupa_of(PyModule_GetState(module));

    (void)unused;
    if (lupa)
        Py_CLEAR(lupa->created);
    for (int i = 0; i < table_count; i++) {
        const watched *row = &table[i];
        const watched mine = {.make = row->make ? ours.make : NULL,
                              .init = row->init ? ours.init : NULL,
                              .call = row->call ? ours.call : NULL};

        exchange(row->type, &mine, row);
        if (row->type->tp_iternext == next_value)
            row->type->tp_iternext = row->next;
        put_back(&row->set_handler, our_set_handler);
        put_back(&row->execute, our_execute);
        put_back(&row->eval, our_eval);
        put_back(&row->compile, our_compile);
        put_back(&row->next_method, next_method);
        put_back(&row->send, our_send);
    }
    Py_RETURN_NONE;
}
