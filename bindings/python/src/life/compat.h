/*
 * The differences between the CPythons we are built for, one name for each fact.
 */
#ifndef SSPY_COMPAT_H
#define SSPY_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#if PY_VERSION_HEX < 0x030B0000
#error "stacksplice needs CPython 3.11 or newer"
#endif

/* Take the pending exception as one object with its traceback set (new reference); or NULL. */
static inline PyObject *sspy_take_pending(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (!type)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback && value)
        (void)PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* Make EXC (taken over; NULL for none) the pending exception. */
static inline void sspy_set_pending(PyObject *exc)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (exc)
        PyErr_SetRaisedException(exc);
    else
        PyErr_Clear();
#else
    if (exc)
        PyErr_Restore(Py_NewRef(Py_TYPE(exc)), exc, PyException_GetTraceback(exc));
    else
        PyErr_Clear();
#endif
}

/* EXC's traceback (new reference), or NULL: CPython 3.11 to 3.13 keep a None that was set. */
static inline PyObject *sspy_traceback_of(PyObject *exc)
{
    PyObject *traceback = PyException_GetTraceback(exc);

    if (traceback && !PyTraceBack_Check(traceback))
        Py_CLEAR(traceback);
    return traceback;
}

/* The object of a weak reference (new reference), or NULL without an exception. */
static inline PyObject *sspy_weakref_get(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object = NULL;

    if (PyWeakref_GetRef(reference, &object) < 0)
        PyErr_Clear();
    return object;
#else
    PyObject *object = PyWeakref_GetObject(reference);

    return object && object != Py_None ? Py_NewRef(object) : NULL;
#endif
}

/* Whether several threads run Python at once: there is no lock of the interpreter. */
#ifdef Py_GIL_DISABLED
#define SSPY_IS_FREE_THREADED 1
#else
#define SSPY_IS_FREE_THREADED 0
#endif

/* A lock around a few instructions that run no code of the interpreter; and a section in which no other
   thread is for the same OBJECT, until the section calls something that waits.  With the interpreter's lock,
   under which no other thread runs there, both are nothing. */
#if SSPY_IS_FREE_THREADED
#define SSPY_LOCK_OF(name) static PyMutex name
#define SSPY_LOCK(name) PyMutex_Lock(&(name))
#define SSPY_UNLOCK(name) PyMutex_Unlock(&(name))
typedef PyCriticalSection sspy_critical;
#define SSPY_CRITICAL_BEGIN(section, object) PyCriticalSection_Begin(section, object)
#define SSPY_CRITICAL_END(section) PyCriticalSection_End(section)
#else
#define SSPY_LOCK_OF(name) typedef char name
#define SSPY_LOCK(name) (void)sizeof(name)
#define SSPY_UNLOCK(name) (void)sizeof(name)
typedef struct sspy_critical {
    char unused;
} sspy_critical;
#define SSPY_CRITICAL_BEGIN(section, object) ((void)(section), (void)(object))
#define SSPY_CRITICAL_END(section) ((void)(section))
#endif

/* The value of KEY in DICT (new reference), or NULL: without an exception if it has none. */
static inline PyObject *sspy_dict_get(PyObject *dict, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *value = NULL;

    (void)PyDict_GetItemRef(dict, key, &value);
    return value;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

/* The value that DICT has for KEY (new reference), VALUE if it had none; NULL with an exception. */
static inline PyObject *sspy_dict_set_default(PyObject *dict, PyObject *key, PyObject *value)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;

    (void)PyDict_SetDefaultRef(dict, key, value, &found);
    return found;
#else
    return Py_XNewRef(PyDict_SetDefault(dict, key, value));
#endif
}

/* OBJECT's attribute NAME (new reference), or NULL with an exception.  PyObject_GetAttrString makes
   a new string each time, and each may stay in the interpreter's cache of methods. */
static inline PyObject *sspy_attribute(PyObject *object, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *attribute = key ? PyObject_GetAttr(object, key) : NULL;

    Py_XDECREF(key);
    return attribute;
}

/* OBJECT's attribute NAME (new reference).  NULL without an exception if it has none, which is
   cheap; NULL with an exception if the lookup failed. */
static inline PyObject *sspy_optional_attribute(PyObject *object, PyObject *name)
{
    PyObject *attribute = NULL;

#if PY_VERSION_HEX >= 0x030D0000
    (void)PyObject_GetOptionalAttr(object, name, &attribute);
#else
    (void)_PyObject_LookupAttr(object, name, &attribute);
#endif
    return attribute;
}

/* The thread state that runs now; before 3.12 it may be another thread's (see frames/source.c). */
static inline PyThreadState *sspy_current_thread_state(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

/* From 3.12 on that thread state is thread-local: if it is not NULL, this thread holds its lock. */
#define SSPY_CURRENT_IS_THREAD_LOCAL (PY_VERSION_HEX >= 0x030C0000)

#endif
