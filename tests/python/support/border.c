/*
 * A native module as an outsider would write it: uses stacksplice/python.h only.  What it offers to
 * the tests is said at each function.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stacksplice/python.h>
#include <stdlib.h>

#include "border.h"

enum { MAX_FRAMES = 4096 };

/* call(function, *arguments): the error of FUNCTION leaves as an HRESULT and comes back. */
static PyObject *call(PyObject *self, PyObject *arguments)
{
    PyObject *function = PyTuple_GetItem(arguments, 0), *rest, *result;

    if (!function)
        return NULL;
    rest = PyTuple_GetSlice(arguments, 1, PyTuple_GET_SIZE(arguments));
    result = rest ? PyObject_Call(function, rest, NULL) : NULL;
    Py_XDECREF(rest);
    return result ? result : border_raise(stacksplice_python_originate());
}

/* call_plain(function): a border that knows nothing of us. */
static PyObject *call_plain(PyObject *self, PyObject *function)
{
    return PyObject_CallNoArgs(function);
}

/* drop_elsewhere(list): empties LIST while a sub-interpreter of this thread is the current one, as
   it can be in a host whose interpreters share objects. */
static PyObject *drop_elsewhere(PyObject *self, PyObject *list)
{
    PyThreadState *mine = PyThreadState_Get(), *other = Py_NewInterpreter();
    int failed = 0;

    if (other) {
        failed = PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
        Py_EndInterpreter(other);
    }
    PyThreadState_Swap(mine);
    if (!other || failed)
        return PyErr_Format(PyExc_RuntimeError, "no sub-interpreter, or the list stays");
    Py_RETURN_NONE;
}

/* originate(exc): EXC is raised in C and leaves; the HRESULT. */
static PyObject *originate(PyObject *self, PyObject *exc)
{
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    return PyLong_FromLong(stacksplice_python_originate());
}

/* raise_error(hresult): the thread's error is raised. */
static PyObject *raise_error(PyObject *self, PyObject *number)
{
    return border_raise((HRESULT)PyLong_AsUnsignedLongMask(number));
}

/* fail(hresult, message): native code fails, and Python receives it. */
static PyObject *fail(PyObject *self, PyObject *arguments)
{
    const char *message;
    Py_ssize_t length;
    unsigned int hr;

    if (!PyArg_ParseTuple(arguments, "Is#", &hr, &message, &length))
        return NULL;
    (void)stacksplice_originate((HRESULT)hr, message, (size_t)length, NULL, NULL);
    return border_raise((HRESULT)hr);
}

static PyObject *list_of(const uintptr_t *frames, uint32_t count)
{
    PyObject *list = PyList_New(count);

    for (uint32_t i = 0; list && i < count; i++)
        PyList_SET_ITEM(list, i, PyLong_FromUnsignedLongLong(frames[i]));
    return list;
}

/* Both stacks of one moment; with the lock let go while they are taken if WITHOUT_LOCK. */
static PyObject *both(int without_lock)
{
    uintptr_t *combined = calloc(2 * MAX_FRAMES, sizeof *combined);
    uintptr_t *native = combined + MAX_FRAMES;
    PyThreadState *saved = without_lock ? PyEval_SaveThread() : NULL;
    uint32_t combined_count = 0;
    HRESULT hr = stacksplice_capture(0, MAX_FRAMES, combined, &combined_count, NULL);
    USHORT native_count = RtlCaptureStackBackTrace(0, MAX_FRAMES, (PVOID *)native, NULL);
    PyObject *result;

    if (without_lock)
        PyEval_RestoreThread(saved);
    result = Py_BuildValue("(iNN)", (int)hr, list_of(combined, combined_count),
                           list_of(native, native_count));
    free(combined);
    return result;
}

/* capture_both(): (HRESULT, combined, native only). */
static PyObject *capture_both(PyObject *self, PyObject *unused)
{
    return both(0);
}

static PyObject *capture_both_without_lock(PyObject *self, PyObject *unused)
{
    return both(1);
}

static int answers(IUnknown *object, REFIID iid)
{
    IUnknown *out = NULL;
    HRESULT hr = object->lpVtbl->QueryInterface(object, iid, (void **)&out);

    if (out)
        out->lpVtbl->Release(out);
    return hr == S_OK;
}

static int interrupts(IUnknown *object)
{
    IScriptException *script = NULL;
    int result;

    (void)object->lpVtbl->QueryInterface(object, &stacksplice_IID_IScriptException,
                                         (void **)&script);
    result = script && script->lpVtbl->IsInterrupt(script);
    if (script)
        script->lpVtbl->Release(script);
    return result;
}

static PyObject *back_trace(IUnknown *object, ULONG room)
{
    ILanguageExceptionStackBackTrace *provider = NULL;
    UINT_PTR *frames = calloc(room + 1, sizeof *frames);
    ULONG count = 12345;
    PyObject *list = NULL;
    HRESULT hr = object->lpVtbl->QueryInterface(object, &IID_ILanguageExceptionStackBackTrace,
                                                (void **)&provider);

    frames[room] = 0xABCD; /* must stay */
    if (hr == S_OK)
        hr = provider->lpVtbl->GetStackBackTrace(provider, room, frames, &count);
    if (hr == S_OK && frames[room] == 0xABCD)
        list = list_of(frames, count);
    else
        PyErr_Format(PyExc_AssertionError, "GetStackBackTrace: 0x%08x", (unsigned)hr);
    if (provider)
        provider->lpVtbl->Release(provider);
    free(frames);
    return list;
}

/* examine(exc): what its language exception answers, and its stack with room for 0, 1, 8, 1000. */
static PyObject *examine(PyObject *self, PyObject *exc)
{
    IUnknown *object = NULL, *again = NULL;
    ILanguageExceptionTransform *transform = NULL;
    IRestrictedErrorInfo *cause = NULL;
    PyObject *back, *result;
    HRESULT hr = stacksplice_python_exception(exc, &object);

    if (hr != S_OK)
        return PyErr_Format(PyExc_AssertionError, "exception: 0x%08x", (unsigned)hr);
    (void)stacksplice_python_exception(exc, &again);
    back = stacksplice_python_object(object);
    if (object->lpVtbl->QueryInterface(object, &IID_ILanguageExceptionTransform,
                                       (void **)&transform) == S_OK) {
        (void)transform->lpVtbl->GetTransformedRestrictedErrorInfo(transform, &cause);
        transform->lpVtbl->Release(transform);
    }
    result = Py_BuildValue(
        "(iiiiiiiNNNNN)", answers(object, &IID_IUnknown), answers(object, &IID_IAgileObject),
        answers(object, &IID_ILanguageExceptionStackBackTrace),
        answers(object, &IID_ILanguageExceptionTransform), cause != NULL, again == object,
        interrupts(object), back ? back : Py_NewRef(Py_None), back_trace(object, 0),
        back_trace(object, 1), back_trace(object, 8), back_trace(object, 1000));
    if (cause)
        cause->lpVtbl->Release(cause);
    again->lpVtbl->Release(again);
    object->lpVtbl->Release(object);
    return result;
}

static void *release_object(void *object)
{
    ((IUnknown *)object)->lpVtbl->Release((IUnknown *)object);
    return NULL;
}

/* hold(exc): a COM reference, as a number.  release_elsewhere(number): on a thread of C's own. */
static PyObject *hold(PyObject *self, PyObject *exc)
{
    IUnknown *object = NULL;
    HRESULT hr = stacksplice_python_exception(exc, &object);

    if (hr != S_OK)
        return PyErr_Format(PyExc_AssertionError, "exception: 0x%08x", (unsigned)hr);
    return PyLong_FromVoidPtr(object);
}

static PyObject *release_elsewhere(PyObject *self, PyObject *number)
{
    void *object = PyLong_AsVoidPtr(number);
    pthread_t thread;

    Py_BEGIN_ALLOW_THREADS pthread_create(&thread, NULL, release_object, object);
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* release_beside(number): the same while this thread keeps the lock and waits. */
static PyObject *release_beside(PyObject *self, PyObject *number)
{
    void *object = PyLong_AsVoidPtr(number);
    pthread_t thread;

    if (pthread_create(&thread, NULL, release_object, object) != 0)
        return PyErr_NoMemory();
    pthread_join(thread, NULL);
    Py_RETURN_NONE;
}

/* release_later(number): on a thread of C's own that nobody waits for. */
static PyObject *release_later(PyObject *self, PyObject *number)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, release_object, PyLong_AsVoidPtr(number)) == 0)
        pthread_detach(thread);
    Py_RETURN_NONE;
}

/* refuse(): the HRESULTs of bad arguments. */
static PyObject *refuse(PyObject *self, PyObject *unused)
{
    IUnknown *out = (IUnknown *)&out;
    HRESULT no_exception = stacksplice_python_exception(NULL, &out);
    HRESULT no_out = stacksplice_python_exception(Py_None, NULL);
    HRESULT none = stacksplice_python_exception(Py_None, &out);
    HRESULT nothing = stacksplice_python_originate();

    return Py_BuildValue("(iiiiiO)", (int)no_exception, (int)no_out, (int)none, (int)nothing,
                         out == (IUnknown *)&out,
                         stacksplice_python_object(NULL) ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"call", call, METH_VARARGS, NULL},
    {"call_plain", call_plain, METH_O, NULL},
    {"drop_elsewhere", drop_elsewhere, METH_O, NULL},
    {"originate", originate, METH_O, NULL},
    {"raise_error", raise_error, METH_O, NULL},
    {"fail", fail, METH_VARARGS, NULL},
    {"capture_both", capture_both, METH_NOARGS, NULL},
    {"capture_both_without_lock", capture_both_without_lock, METH_NOARGS, NULL},
    {"examine", examine, METH_O, NULL},
    {"hold", hold, METH_O, NULL},
    {"release_elsewhere", release_elsewhere, METH_O, NULL},
    {"release_beside", release_beside, METH_O, NULL},
    {"release_later", release_later, METH_O, NULL},
    {"refuse", refuse, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int import(PyObject *module)
{
    HRESULT hr = stacksplice_python_import();

    if (hr >= 0)
        return 0;
    PyErr_Format(PyExc_ImportError, "stacksplice_python_import: 0x%08x", (unsigned)hr);
    return -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, import},
#ifdef Py_MOD_PER_INTERPRETER_GIL_SUPPORTED
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "border", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_border(void)
{
    return PyModuleDef_Init(&definition);
}
