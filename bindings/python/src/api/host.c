/* Deadlines and crash reports, for a program of Python. */
#include "api/api.h"
#include "lupa/lupa.h"

#include <limits.h>
#include <stacksplice/crash.h>
#include <stacksplice/deadline.h>
#include <string.h>

/* ---- Deadlines ---------------------------------------------------------------------------------*/

/* The type below stacksplice.deadline.  Its methods are C, so that Ctrl-C cannot leave a deadline
   without its end. */

typedef struct deadline_object {
    PyObject_HEAD sspy_late late; /* (GIL) */
    bool interrupts;
    char name[STACKSPLICE_DEADLINE_NAME_MAX + 1]; /* "": none */
} deadline_object;

static int deadline_init(deadline_object *self, PyObject *arguments, PyObject *Py_UNUSED(unused))
{
    unsigned milliseconds;
    const char *name;
    size_t length;
    int interrupts;

    if (!PyArg_ParseTuple(arguments, "Izp:deadline", &milliseconds, &name, &interrupts))
        return -1;
    name = name ? name : "";
    length = stacksplice_deadline_name_length(name);
    memcpy(self->name, name, length);
    self->name[length] = 0;
    self->interrupts = interrupts;
    self->late.milliseconds = milliseconds;
    self->late.name = length ? self->name : "this block";
    return 0;
}

static PyObject *deadline_enter(deadline_object *self, PyObject *Py_UNUSED(unused))
{
    const stacksplice_deadline_options options = {.size = sizeof options, .name = self->name};
    sspy_state *state = sspy_state_current();

    if (!state)
        return NULL;
    if (self->late.deadline) {
        PyErr_SetString(PyExc_RuntimeError, "this deadline is in use: make one for each block");
        return NULL;
    }
    if (sspy_late_begin(state, &self->late, self->interrupts, &options))
        return NULL;
    return Py_NewRef((PyObject *)self);
}

static PyObject *deadline_exit(deadline_object *self, PyObject *const *Py_UNUSED(arguments),
                               Py_ssize_t Py_UNUSED(count))
{
    sspy_late_end(&self->late);
    Py_RETURN_NONE;
}

static void deadline_dealloc(deadline_object *self)
{
    PyTypeObject *type = Py_TYPE(self);

    sspy_late_end(&self->late);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef deadline_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))deadline_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))deadline_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int sspy_add_deadline_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_init, deadline_init},
        {Py_tp_dealloc, deadline_dealloc},
        {Py_tp_methods, deadline_methods},
        {Py_tp_doc, "What stacksplice.deadline is made of."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice._Deadline",
        .basicsize = sizeof(deadline_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

    Py_XDECREF(type);
    return result;
}

/* ---- Reports by signal ------------------------------------------------------------------------*/

const char sspy_report_on_signal_doc[] =
    "report_on_signal(number, /)\n--\n\n"
    "Have a signal, such as signal.SIGUSR1, report every thread of this process.\n\n"
    "The stacks of all threads go to stderr and to a file, as those of a missed deadline do, that "
    "of the\n"
    "thread that got the signal first, and the program goes on.  Nobody needs rights to look into "
    "the\n"
    "process: kill -USR1 PID is enough, also where the interpreter's lock is held or C code "
    "hangs.\n\n"
    "It takes the place of the signal's handler, and signal.signal takes its place.  A thread "
    "writes the\n"
    "report, which this call starts and a fork leaves behind: call it again in the child, which "
    "else only\n"
    "writes a line that says so.\n\n"
    "Raises TypeError and ValueError for what is no signal that can be caught, and for those of "
    "crashes;\n"
    "MemoryError if no thread can be started.";

PyObject *sspy_report_on_signal(PyObject *Py_UNUSED(module), PyObject *number)
{
    long signal;
    HRESULT hr;

    if (!PyLong_Check(number))
        return PyErr_Format(PyExc_TypeError, "number must be int, not %.200s",
                            Py_TYPE(number)->tp_name);
    signal = PyLong_AsLong(number);
    if (signal == -1 && PyErr_Occurred())
        PyErr_Clear(); /* too large: it is no signal */
    hr = stacksplice_report_on_signal(signal > INT_MAX || signal < 0 ? -1 : (int)signal);
    if (hr == E_INVALIDARG)
        return PyErr_Format(PyExc_ValueError,
                            "number must be a signal that can be caught and is not of a crash, "
                            "such as signal.SIGUSR1, not %S",
                            number);
    if (FAILED(hr))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* ---- Crashes -----------------------------------------------------------------------------------*/

/* Reports of crashes, for a program of Python. */

/* True if the handler was not installed before. */
PyObject *sspy_install_crash_handler(PyObject *Py_UNUSED(module), PyObject *others_first)
{
    const stacksplice_crash_options options = {.size = sizeof options, .others_first = 1};
    HRESULT hr = stacksplice_install_crash_handler(others_first == Py_True ? &options : NULL);

    return FAILED(hr) ? PyErr_NoMemory() : PyBool_FromLong(hr == S_OK);
}

PyObject *sspy_remove_crash_handler(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    (void)stacksplice_remove_crash_handler();
    Py_RETURN_NONE;
}

/* Without memory for it the thread goes on as it was. */
PyObject *sspy_crash_thread(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    (void)stacksplice_crash_thread();
    Py_RETURN_NONE;
}
