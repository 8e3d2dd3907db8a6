/*
 * What bindings/shared knows of this Python, as a module: position(code, lasti), the reader of
 * location tables alone; and differences(), where the offsets are other ones than those of Python's
 * own headers.
 */
#include "life/compat.h" /* first: Python.h chooses what the system's headers declare */

#include "shared/python.h"

#include <stddef.h>
#include <string.h>

static PyObject *position(PyObject *self, PyObject *arguments)
{
    PyObject *code, *table;
    int lasti;
    sspy_position found;

    if (!PyArg_ParseTuple(arguments, "O!i", &PyCode_Type, &code, &lasti))
        return NULL;
    table = ((PyCodeObject *)code)->co_linetable;
    found = sspy_position_in((const unsigned char *)PyBytes_AS_STRING(table),
                             (size_t)PyBytes_GET_SIZE(table),
                             ((PyCodeObject *)code)->co_firstlineno, lasti);
    return Py_BuildValue("(IIII)", found.line, found.end_line, found.column, found.end_column);
}

typedef struct offset {
    const char *name;
    size_t known, real;
} offset;

#define ROW(known, type, member)               \
    {                                          \
#member, known, offsetof(type, member) \
    }

/* NAMES and the names of those of ALL that differ. */
static PyObject *with_differences(PyObject *names, const offset *all, size_t count)
{
    for (size_t i = 0; names && i < count; i++)
        if (all[i].known != all[i].real) {
            PyObject *text =
                PyUnicode_FromFormat("%s: %zu, not %zu", all[i].name, all[i].known, all[i].real);

            if (!text || PyList_Append(names, text))
                Py_CLEAR(names);
            Py_XDECREF(text);
        }
    return names;
}

/* RUNTIME: the address of _PyRuntime. */
static PyObject *differences(PyObject *self, PyObject *runtime)
{
    sspy_layout known;
    const char *why = sspy_layout_of(Py_Version, PyLong_AsVoidPtr(runtime), &known);
    const offset same[] = {
        ROW(sspy_members(&known, SSPY_CODE_FLAGS), PyCodeObject, co_flags),
        ROW(sspy_members(&known, SSPY_CODE_VARIABLES), PyCodeObject, co_localsplusnames),
        ROW(sspy_members(&known, SSPY_CODE_KINDS), PyCodeObject, co_localspluskinds),
        ROW(sspy_members(&known, SSPY_CODE_FILE), PyCodeObject, co_filename),
        ROW(sspy_members(&known, SSPY_CODE_NAME), PyCodeObject, co_name),
        ROW(sspy_members(&known, SSPY_CODE_QUALNAME), PyCodeObject, co_qualname),
        ROW(sspy_members(&known, SSPY_CODE_TABLE), PyCodeObject, co_linetable),
        ROW(sspy_members(&known, SSPY_OBJECT_TYPE), PyObject, ob_type),
        ROW(sspy_members(&known, SSPY_VAR_SIZE), PyVarObject, ob_size),
        ROW(sspy_members(&known, SSPY_BYTES_DATA), PyBytesObject, ob_sval),
        ROW(sspy_members(&known, SSPY_TEXT_LENGTH), PyASCIIObject, length),
        ROW(sspy_members(&known, SSPY_TEXT_STATE), PyASCIIObject, state),
        ROW(sspy_members(&known, SSPY_TYPE_NAME), PyTypeObject, tp_name),
        ROW(sspy_members(&known, SSPY_TYPE_INSTANCE_SIZE), PyTypeObject, tp_basicsize),
        ROW(sspy_members(&known, SSPY_TYPE_FLAGS), PyTypeObject, tp_flags),
        ROW(SSPY_HANDLED_VALUE, _PyErr_StackItem, exc_value),
        ROW(SSPY_HANDLED_PREVIOUS, _PyErr_StackItem, previous_item),
        ROW(sspy_members(&known, SSPY_EXCEPTION_ARGS), PyBaseExceptionObject, args),
        ROW(sspy_members(&known, SSPY_EXCEPTION_TRACEBACK), PyBaseExceptionObject, traceback),
        ROW(sspy_members(&known, SSPY_EXCEPTION_CONTEXT), PyBaseExceptionObject, context),
        ROW(sspy_members(&known, SSPY_EXCEPTION_CAUSE), PyBaseExceptionObject, cause),
        ROW(sspy_members(&known, SSPY_EXCEPTION_SUPPRESSES), PyBaseExceptionObject,
            suppress_context),
        ROW(sspy_members(&known, SSPY_TRACEBACK_NEXT), PyTracebackObject, tb_next),
        ROW(sspy_members(&known, SSPY_TRACEBACK_FRAME), PyTracebackObject, tb_frame),
        ROW(sspy_members(&known, SSPY_TRACEBACK_INSTRUCTION), PyTracebackObject, tb_lasti),
    };
    const offset own[] = {
        ROW(known.thread_next, PyThreadState, next),
        ROW(known.thread_interpreter, PyThreadState, interp),
        ROW(known.thread_ident, PyThreadState, thread_id),
        ROW(known.thread_id, PyThreadState, native_thread_id),
        ROW(known.thread_handled, PyThreadState, exc_info),
#if PY_VERSION_HEX >= 0x030C0000
        ROW(known.thread_raised, PyThreadState, current_exception),
#else
        ROW(known.thread_raised, PyThreadState, curexc_value),
#endif
        ROW(sspy_members(&known, known.code_first_line), PyCodeObject, co_firstlineno),
        ROW(sspy_members(&known, known.code_first_traceable), PyCodeObject, _co_firsttraceable),
        ROW(sspy_code_start(&known, 0), PyCodeObject, co_code_adaptive),
        ROW(sspy_members(&known, known.tuple_items), PyTupleObject, ob_item),
        ROW(sspy_members(&known, known.type_keys), PyHeapTypeObject, ht_cached_keys),
        {"an ASCII text", sspy_members(&known, known.text_ascii), sizeof(PyASCIIObject)},
        {"another text", sspy_members(&known, known.text_compact), sizeof(PyCompactUnicodeObject)},
    };
    PyObject *names = why ? NULL : PyList_New(0);

    if (why)
        PyErr_SetString(PyExc_AssertionError, why);
    names = with_differences(names, same, sizeof same / sizeof *same);
    return with_differences(names, own, sizeof own / sizeof *own);
}

static PyMethodDef methods[] = {{"position", position, METH_VARARGS, NULL},
                                {"differences", differences, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "shared", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_shared(void)
{
    return PyModule_Create(&definition);
}
