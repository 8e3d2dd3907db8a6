/*
 * A host that embeds Python: errors in the slot and in C's hands outlive the interpreter, twice.
 * Prints "ok" at its end.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stacksplice/python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                            \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1);                                                \
        }                                                           \
    } while (0)

static int python_frames;

static int count_python(const stacksplice_frame *frame, void *data)
{
    (void)data;
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
    (void)data;
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

static IUnknown *raise_and_originate(const char *path)
{
    IUnknown *object = NULL;
    PyObject *value;
    HRESULT hr;

    Py_Initialize();
    if (path) {
        PyObject *list = PySys_GetObject("path"), *text = PyUnicode_FromString(path);

        CHECK(list && text && PyList_Insert(list, 0, text) == 0);
        Py_DECREF(text);
    }
    import_or_tell();
    value = PyObject_CallFunction(PyExc_ValueError, "s", "from the interpreter");
    CHECK(value && stacksplice_python_exception(value, &object) == S_OK);
    PyErr_SetObject(PyExc_ValueError, value);
    Py_DECREF(value);
    hr = stacksplice_python_originate();
    CHECK(hr == (HRESULT)0x80070057 && !PyErr_Occurred());
    return object;
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : NULL;
    IRestrictedErrorInfo *error = NULL;
    uintptr_t frames[64];
    uint32_t captured = 0;
    IUnknown *object;

    CHECK(stacksplice_python_import() == (HRESULT)0x800401F0); /* no interpreter */
    CHECK(stacksplice_python_originate() == (HRESULT)0x800401F0);
    CHECK(stacksplice_python_object(NULL) == NULL);
    for (int round = 0; round < 2; round++) {
        object = raise_and_originate(path);
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
        RoClearError();
    }
    puts("ok");
    return 0;
}
