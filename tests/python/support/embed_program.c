/*
 * A host that embeds Python: errors in the slot and in C's hands outlive the interpreter, each of
 * several, and arrive in the next one by value.
 * Prints "ok" at its end.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "check.h"

#include <pthread.h>
#include <stacksplice/python.h>
#include <string.h>

static int python_frames;

static int count_python(const stacksplice_frame *frame, void *data)
{
    if (!strcmp(frame->language, "python"))
        python_frames++;
    return 0;
}

static void *release(void *object)
{
    ((IUnknown *)object)->lpVtbl->Release((IUnknown *)object);
    return NULL;
}

static void release_on_a_thread(IUnknown *object)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, release, object) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static int to_stderr(const char *text, size_t length, void *data)
{
    return fwrite(text, 1, length, stderr) != length;
}

/* The import fails without the package; the thread's error says why. */
static void import_or_tell(void)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr = stacksplice_python_import();

    CHECK(!PyErr_Occurred());
    if (hr == S_OK)
        return;
    CHECK(hr == (HRESULT)0x8007007E && stacksplice_peek_error(&error) == S_OK && error);
    (void)stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, to_stderr, NULL);
    exit(7);
}

/* What Python code finds wrong ends the process. */
static void check_in_python(const char *code)
{
    CHECK(PyRun_SimpleString(code) == 0);
}

static PyObject *pending(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* The slot's error, from an interpreter that has ended, is raised in this one. */
static void receive_from_before(void)
{
    PyObject *exc;

    CHECK(stacksplice_python_raise((HRESULT)0x80070057) == NULL && PyErr_Occurred());
    exc = pending();
    CHECK(PyObject_SetAttrString(PyImport_AddModule("__main__"), "received", exc) == 0);
    Py_DECREF(exc);
    check_in_python("import stacksplice\n"
                    "assert isinstance(received, stacksplice.HResultError), received\n"
                    "assert str(received) == 'from the interpreter', received\n"
                    "info = stacksplice.error_info(received)\n"
                    "assert info.type == 'ValueError' and info.language_exception is None\n"
                    "assert stacksplice.peek_error() is None\n");
}

/* Out of Python, back, and out again: the same object, with one node more. */
static void cross_both_ways(void)
{
    PyObject *exc, *again;

    CHECK(PyRun_String("1 / 0", Py_eval_input, PyModule_GetDict(PyImport_AddModule("__main__")),
                       PyModule_GetDict(PyImport_AddModule("__main__"))) == NULL);
    exc = pending();
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    CHECK(stacksplice_python_raise(stacksplice_python_originate()) == NULL);
    again = pending();
    CHECK(again == exc);
    CHECK(PyObject_SetAttrString(PyImport_AddModule("__main__"), "crossed", exc) == 0);
    Py_DECREF(exc);
    Py_DECREF(again);
    check_in_python("import stacksplice\n"
                    "assert len(stacksplice.error_info(crossed).propagation) == 1\n");
}

static IUnknown *raise_and_originate(void)
{
    IUnknown *object = NULL;
    PyObject *value;
    HRESULT hr;

    value = PyObject_CallFunction(PyExc_ValueError, "s", "from the interpreter");
    CHECK(value && stacksplice_python_exception(value, &object) == S_OK);
    PyErr_SetObject(PyExc_ValueError, value);
    Py_DECREF(value);
    hr = stacksplice_python_originate();
    CHECK(hr == (HRESULT)0x80070057 && !PyErr_Occurred());
    return object;
}

int main(void)
{
    IRestrictedErrorInfo *error = NULL;
    uintptr_t frames[64];
    uint32_t captured = 0;
    IUnknown *object;

    CHECK(stacksplice_python_import() == (HRESULT)0x800401F0); /* no interpreter */
    CHECK(stacksplice_python_originate() == (HRESULT)0x800401F0);
    CHECK(stacksplice_python_object(NULL) == NULL);
    for (int round = 0; round < 5; round++) {
        Py_Initialize();
        import_or_tell();
        if (round)
            receive_from_before();
        cross_both_ways();
        object = raise_and_originate();
        CHECK(Py_FinalizeEx() == 0);

        /* By value the error still tells everything; nothing of the dead interpreter is asked. */
        CHECK(stacksplice_peek_error(&error) == S_OK && error);
        CHECK(stacksplice_python_object(NULL) == NULL);
        CHECK(stacksplice_python_originate() == (HRESULT)0x800401F0);
        CHECK(stacksplice_capture(0, 64, frames, &captured, NULL) == S_OK);
        for (uint32_t i = 0; i < captured; i++)
            CHECK(stacksplice_resolve(frames[i], count_python, NULL) == S_OK);
        CHECK(python_frames == 0);
        error->lpVtbl->Release(error);
        release_on_a_thread(object);
        CHECK(stacksplice_python_raise((HRESULT)0x80004005) == NULL);
    }
    RoClearError();
    puts("ok");
    return 0;
}
