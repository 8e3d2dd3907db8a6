/*
 * How new runtimes and new LuaErrors are noticed: the slots that make them are replaced in lupa's
 * types, so that the types, and what they print, stay the same.
 */
#include "lupa/lupa.h"
#include <dlfcn.h>
#include <string.h>

enum { MAX_WATCHED = 64 };

/* A type of lupa with its former slots; what is NULL is not replaced.  Never freed: subclasses that
   were made meanwhile keep our functions. */
typedef struct watched {
    PyTypeObject *type; /* counted */
    newfunc make;
    initproc init;
    PyMethodDef *method; /* set_overflow_handler, which lupa calls as it makes a runtime */
    PyCFunction set_handler;
} watched;
static watched table[MAX_WATCHED];
static int table_count; /* (GIL) */

static watched *find(const PyTypeObject *type)
{
    for (int i = 0; i < table_count; i++)
        if (table[i].type == type)
            return &table[i];
    return NULL;
}

/* The row of TYPE, or that of the type from which it inherits. */
static const watched *row_of(PyTypeObject *type, bool makes)
{
    for (; type; type = type->tp_base) {
        const watched *row = find(type);

        if (row && (makes ? row->make != NULL : row->init != NULL))
            return row;
    }
    return NULL;
}

/* ---- Methods that Cython compiled: what Python sees of one stays when its C function is replaced --*/

/* Cython's functions begin as the interpreter's own do, but say so nowhere.  So the pointer is
   followed only into the file that TYPE itself is from. */
PyMethodDef *sspy_lupa_method(PyTypeObject *type, const char *name)
{
    PyObject *function = PyDict_GetItemString(type->tp_dict, name);
    Dl_info here, there;
    PyMethodDef *found;

    if (!function || Py_TYPE(function)->tp_basicsize < (Py_ssize_t)sizeof(PyCFunctionObject))
        return NULL;
    found = ((PyCFunctionObject *)function)->m_ml;
    if (!dladdr((void *)(uintptr_t)type->tp_dealloc, &here) || !dladdr(found, &there) ||
        here.dli_fbase != there.dli_fbase)
        return NULL;
    return found->ml_flags == (METH_FASTCALL | METH_KEYWORDS) && !strcmp(found->ml_name, name)
               ? found
               : NULL;
}

/* ---- The slots --------------------------------------------------------------------------------*/

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

static PyObject *make_runtime(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *runtime = row_of(type, true)->make(type, arguments, keywords);

    if (runtime)
        tell_created(runtime);
    return runtime;
}

/* lupa sets the handler of each new runtime, and then begins to count its memory: what we need of
   it is not counted against the limit of the program. */
static PyObject *set_handler(PyObject *runtime, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names)
{
    sspy_fast_function set = sspy_lupa_fast(row_of(Py_TYPE(runtime), true)->set_handler);
    PyObject *result = set(runtime, arguments, count, names);

    if (result)
        tell_created(runtime);
    return result;
}

static int init_error(PyObject *exc, PyObject *arguments, PyObject *keywords)
{
    sspy_state *state;

    if (row_of(Py_TYPE(exc), false)->init(exc, arguments, keywords))
        return -1;
    state = sspy_state_current();
    if (state && sspy_lupa_has_runtimes(state))
        sspy_lupa_error_made(state, exc, __builtin_frame_address(0));
    PyErr_Clear();
    return 0;
}

bool sspy_lupa_is_error(PyObject *exc)
{
    return Py_TYPE(exc)->tp_init == init_error;
}

/* Exchange the slots of TYPE and of those below it that inherited them. */
static void exchange(PyTypeObject *type, const watched *from, const watched *to)
{
    PyObject *below = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);

    if (from->make && type->tp_new == from->make)
        type->tp_new = to->make;
    if (from->init && type->tp_init == from->init)
        type->tp_init = to->init;
    for (Py_ssize_t i = 0; below && i < PyList_GET_SIZE(below); i++) {
        PyTypeObject *subclass = (PyTypeObject *)PyList_GET_ITEM(below, i);

        if (subclass->tp_base == type)
            exchange(subclass, from, to);
    }
    Py_XDECREF(below);
    PyErr_Clear(); /* without memory, subclasses stay as they are */
}

/* ---- Functions --------------------------------------------------------------------------------*/

static const watched ours = {NULL, make_runtime, init_error, NULL, NULL};
static const PyCFunction our_set_handler = (PyCFunction)(void (*)(void))set_handler;

/* -1 with an exception. */
static int watch(PyTypeObject *type, bool makes)
{
    watched *row = find(type);

    if (!row && table_count == MAX_WATCHED) {
        PyErr_SetString(PyExc_RuntimeError, "too many copies of lupa");
        return -1;
    }
    if (!row) {
        row = &table[table_count];
        *row =
            (watched){type, makes ? type->tp_new : NULL, makes ? NULL : type->tp_init, NULL, NULL};
        if (makes)
            row->method = sspy_lupa_method(type, "set_overflow_handler");
        if (row->method)
            row->set_handler = row->method->ml_meth;
        Py_INCREF(type);
        table_count++;
    }
    exchange(type, row, &ours);
    if (row->method)
        row->method->ml_meth = our_set_handler;
    return 0;
}

PyObject *sspy_lupa_watch(PyObject *module, PyObject *arguments)
{
    sspy_lupa *lupa = sspy_record(PyModule_GetState(module), SSPY_OF_LUPA, sizeof *lupa);
    PyObject *runtime, *error, *created;

    if (!PyArg_ParseTuple(arguments, "O!O!O:_lupa_watch", &PyType_Type, &runtime, &PyType_Type,
                          &error, &created))
        return NULL;
    if (!lupa)
        return PyErr_NoMemory();
    Py_XSETREF(lupa->created, Py_NewRef(created));
    if (watch((PyTypeObject *)runtime, true) || watch((PyTypeObject *)error, false))
        return NULL;
    Py_RETURN_NONE;
}

void sspy_lupa_unwatch_types(void)
{
    for (int i = 0; i < table_count; i++) {
        const watched mine = {NULL, table[i].make ? ours.make : NULL,
                              table[i].init ? ours.init : NULL, NULL, NULL};

        exchange(table[i].type, &mine, &table[i]);
        if (table[i].method && table[i].method->ml_meth == our_set_handler)
            table[i].method->ml_meth = table[i].set_handler;
    }
}
