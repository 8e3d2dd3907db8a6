/*
 * The extension module "proof": native frames of a running CPython against libgcc's walk of the
 * same stack, by the probe of tests/core.
 *
 *   start(every=1)   from now on every EVERY-th call, return or call of a C function in this thread
 *                    compares both walks in place
 *   stop()           no more of them in this thread
 *   compare()        compares here; the number of frames
 *   interrupt(us)    compares in a signal handler each US microseconds of processor time, until 0;
 *                    nothing else may compare in this process meanwhile
 *   step(count)      compares in this thread at each new instruction of COUNT, from time to time;
 *                    0 ends that.  This and interrupt survive crashes of libgcc's walk
 *   steps()          (instructions, addresses compared, walks in which libgcc crashed, registers
 *                    that only libgcc found)
 *   falsify(what)    falsifies one value of libgcc's walk in the next comparison
 *   results()        (frames, interrupted frames, differences, first difference or None)
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "stepping.h"
#include "unwind_probe.h"

static _Thread_local unsigned long every_nth, events;

static int on_event(PyObject *object, PyFrameObject *frame, int what, PyObject *argument)
{
    if (++events % every_nth == 0)
        (void)probe_compare();
    return 0;
}

static PyObject *start(PyObject *self, PyObject *arguments)
{
    unsigned long every = 1;

    if (!PyArg_ParseTuple(arguments, "|k", &every))
        return NULL;
    every_nth = every ? every : 1;
    PyEval_SetProfile(on_event, NULL);
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *unused)
{
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

static PyObject *compare(PyObject *self, PyObject *unused)
{
    return PyLong_FromUnsignedLong(probe_compare());
}

static void on_signal(int number)
{
    int saved = errno;

    (void)probe_compare();
    errno = saved;
}

static PyObject *interrupt(PyObject *self, PyObject *microseconds)
{
    long us = PyLong_AsLong(microseconds);
    struct itimerval never = {{0, 0}, {0, 0}}, timer = {{0, us}, {0, us}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    if (us == -1 && PyErr_Occurred())
        return NULL;
    /* First: a handler that interrupts a capture of its own thread finds a gap. */
    if (setitimer(ITIMER_PROF, &never, NULL) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    (void)probe_compare();
    if (us && (!probe_survive() || sigaction(SIGPROF, &action, NULL) != 0 ||
               setitimer(ITIMER_PROF, &timer, NULL) != 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *step(PyObject *self, PyObject *count)
{
    unsigned long steps = PyLong_AsUnsignedLong(count);

    if (PyErr_Occurred())
        return NULL;
    probe_expect_wrong_data();
    if (!probe_survive() || !stepping_begin((unsigned)steps))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *steps(PyObject *self, PyObject *unused)
{
    return Py_BuildValue("(KKII)", (unsigned long long)stepping_steps(),
                         (unsigned long long)stepping_places(), probe_crashes(), probe_unknown());
}

static PyObject *falsify(PyObject *self, PyObject *what)
{
    const char *name = PyUnicode_AsUTF8(what);

    if (!name)
        return NULL;
    if (!probe_falsify(name))
        return PyErr_Format(PyExc_ValueError, "nothing is called %R", what);
    Py_RETURN_NONE;
}

static PyObject *results(PyObject *self, PyObject *unused)
{
    const char *first;
    uint32_t differences = probe_differences(&first);

    return Py_BuildValue("(KKIz)", (unsigned long long)probe_frames(),
                         (unsigned long long)probe_signals(), differences, first);
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"compare", compare, METH_NOARGS, NULL},
    {"interrupt", interrupt, METH_O, NULL},
    {"step", step, METH_O, NULL},
    {"steps", steps, METH_NOARGS, NULL},
    {"falsify", falsify, METH_O, NULL},
    {"results", results, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "proof", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_proof(void)
{
    probe_begin();
    return PyModule_Create(&definition);
}
