/*
 * Exceptions and HRESULTs, both columns of one table.
 *
 * Out, the most derived match wins: the exception's classes are tried in the order of its MRO.  An
 * exception's own integer `hresult` attribute, when it is a failure code, comes before all.
 */
#include "binding.h"

#include <errno.h>
#include <string.h>

enum { BACK_NONE = -1 };

/* Where errno has no twin in Windows' codes: customer bit, facility 0x53, the errno. */
#define ERRNO_HRESULT UINT32_C(0xA0530000)
#define WIN32_HRESULT UINT32_C(0x80070000)

/* One exception class: what goes out, and what comes back for that HRESULT. */
typedef struct class_row {
    PyObject **type; /* a builtin class */
    uint32_t hresult;
    PyObject **back; /* NULL: another row of this HRESULT has it */
    int back_errno;  /* of an OSError */
} class_row;

static const class_row class_rows[] = {
    {&PyExc_MemoryError, 0x8007000E, &PyExc_MemoryError, 0},
    {&PyExc_NotImplementedError, 0x80004001, &PyExc_NotImplementedError, 0},
    {&PyExc_IndexError, 0x8000000B, &PyExc_IndexError, 0},
    {&PyExc_KeyError, 0x8000000B, NULL, 0},
    {&PyExc_ValueError, 0x80070057, &PyExc_ValueError, 0},
    {&PyExc_TypeError, 0x80070057, NULL, 0},
    {&PyExc_UnicodeError, 0x80070459, &PyExc_ValueError, 0},
    {&PyExc_PermissionError, 0x80070005, &PyExc_OSError, EACCES},
    {&PyExc_FileNotFoundError, 0x80070002, &PyExc_OSError, ENOENT},
    {&PyExc_FileExistsError, 0x80070050, &PyExc_OSError, EEXIST},
    {&PyExc_TimeoutError, 0x800705B4, &PyExc_OSError, ETIMEDOUT},
    {&PyExc_KeyboardInterrupt, 0x800704C7, &PyExc_OSError, ECANCELED},
    {&PyExc_EOFError, 0x80070026, &PyExc_EOFError, 0},
    {&PyExc_OverflowError, 0x80070216, &PyExc_OverflowError, 0},
    {&PyExc_ZeroDivisionError, 0x80020012, &PyExc_ZeroDivisionError, 0},
    {&PyExc_RecursionError, 0x800703E9, &PyExc_RecursionError, 0},
    {&PyExc_ModuleNotFoundError, 0x8007007E, &PyExc_ModuleNotFoundError, 0},
    {&PyExc_AttributeError, 0x80020003, &PyExc_AttributeError, 0},
    {&PyExc_NameError, 0x80020006, &PyExc_NameError, 0},
};

/* Classes that live in modules we do not import: known by where they are defined. */
static const struct {
    const char *module, *name;
    uint32_t hresult;
} named_rows[] = {
    {"asyncio.exceptions", "CancelledError", 0x800704C7},
    {"concurrent.futures._base", "CancelledError", 0x800704C7},
};

/* errno and its twin in winerror.h.  On the way back the first row of a code wins. */
static const struct {
    int number;
    uint16_t win32;
} errno_rows[] = {
    {ENOENT, 2}, /* FILE_NOT_FOUND */
    {ENOENT, 3}, /* PATH_NOT_FOUND */
    {EMFILE, 4}, /* TOO_MANY_OPEN_FILES */
    {EACCES, 5}, /* ACCESS_DENIED */
    {EPERM, 5},
    {EBADF, 6},             /* INVALID_HANDLE */
    {ENOMEM, 14},           /* OUTOFMEMORY */
    {EXDEV, 17},            /* NOT_SAME_DEVICE */
    {EROFS, 19},            /* WRITE_PROTECT */
    {ENODEV, 20},           /* BAD_UNIT */
    {ENXIO, 55},            /* DEV_NOT_EXIST */
    {EIO, 1117},            /* IO_DEVICE */
    {EEXIST, 80},           /* FILE_EXISTS */
    {EEXIST, 183},          /* ALREADY_EXISTS */
    {EINVAL, 87},           /* INVALID_PARAMETER */
    {EPIPE, 109},           /* BROKEN_PIPE */
    {EPIPE, 232},           /* NO_DATA: the pipe is being closed */
    {ENOSPC, 112},          /* DISK_FULL */
    {ENOSPC, 39},           /* HANDLE_DISK_FULL */
    {ENOSYS, 120},          /* CALL_NOT_IMPLEMENTED */
    {ENOTEMPTY, 145},       /* DIR_NOT_EMPTY */
    {EBUSY, 170},           /* BUSY */
    {ENOEXEC, 193},         /* BAD_EXE_FORMAT */
    {ENAMETOOLONG, 206},    /* FILENAME_EXCED_RANGE */
    {EFBIG, 223},           /* FILE_TOO_LARGE */
    {ECHILD, 128},          /* WAIT_NO_CHILDREN */
    {ENOTDIR, 267},         /* DIRECTORY */
    {EISDIR, 336},          /* DIRECTORY_NOT_SUPPORTED */
    {ESRCH, 1168},          /* NOT_FOUND */
    {ENOTSUP, 50},          /* NOT_SUPPORTED */
    {EDEADLK, 1131},        /* POSSIBLE_DEADLOCK */
    {EMLINK, 1142},         /* TOO_MANY_LINKS */
    {ELOOP, 1921},          /* CANT_RESOLVE_FILENAME */
    {ENOTCONN, 2250},       /* NOT_CONNECTED */
    {ECANCELED, 1223},      /* CANCELLED */
    {ETIMEDOUT, 1460},      /* TIMEOUT */
    {EINTR, 10004},         /* WSAEINTR */
    {EAGAIN, 10035},        /* WSAEWOULDBLOCK */
    {EINPROGRESS, 10036},   /* WSAEINPROGRESS */
    {EALREADY, 10037},      /* WSAEALREADY */
    {ENOTSOCK, 10038},      /* WSAENOTSOCK */
    {EMSGSIZE, 10040},      /* WSAEMSGSIZE */
    {EADDRINUSE, 10048},    /* WSAEADDRINUSE */
    {EADDRNOTAVAIL, 10049}, /* WSAEADDRNOTAVAIL */
    {ENETDOWN, 10050},      /* WSAENETDOWN */
    {ENETUNREACH, 10051},   /* WSAENETUNREACH */
    {ECONNABORTED, 1236},   /* CONNECTION_ABORTED */
    {ECONNRESET, 10054},    /* WSAECONNRESET */
    {ENOBUFS, 10055},       /* WSAENOBUFS */
    {EISCONN, 10056},       /* WSAEISCONN */
    {ECONNREFUSED, 1225},   /* CONNECTION_REFUSED */
    {EHOSTUNREACH, 1232},   /* HOST_UNREACHABLE */
};

/* ---- Out --------------------------------------------------------------------------------------*/

static uint32_t hresult_of_errno(long number)
{
    for (size_t i = 0; i < SSPY_COUNT_OF(errno_rows); i++)
        if (errno_rows[i].number == number)
            return WIN32_HRESULT | errno_rows[i].win32;
    return number > 0 && number <= 0xFFFF ? ERRNO_HRESULT | (uint32_t)number : 0;
}

/* An attribute of EXC that is a plain integer; errors of looking it up are nobody's business. */
static bool integer_attribute(PyObject *exc, const char *name, long long *value)
{
    PyObject *attribute = PyObject_GetAttrString(exc, name);
    bool found = false;
    int overflow = 0;

    if (attribute && PyLong_Check(attribute) && !PyBool_Check(attribute)) {
        *value = PyLong_AsLongLongAndOverflow(attribute, &overflow);
        found = !overflow;
    }
    Py_XDECREF(attribute);
    PyErr_Clear();
    return found;
}

/* A failing HRESULT, signed or unsigned, as 32 bits; 0 when VALUE is none. */
static uint32_t failing(long long value)
{
    if (value < INT32_MIN || value > UINT32_MAX)
        return 0;
    return (uint32_t)value & 0x80000000u ? (uint32_t)value : 0;
}

static uint32_t hresult_of_os_error(PyObject *exc)
{
    long long value = 0;

    /* A Windows code in the range of HRESULT_FROM_WIN32, or a HRESULT, as PyWinRT leaves it. */
    if (integer_attribute(exc, "winerror", &value)) {
        if (value > 0 && value <= 0xFFFF)
            return WIN32_HRESULT | (uint32_t)value;
        if (failing(value))
            return failing(value);
    }
    if (integer_attribute(exc, "errno", &value) && value > 0 && value <= 0xFFFF)
        return hresult_of_errno((long)value);
    return 0;
}

static bool is_named(PyTypeObject *type, const char *module, const char *name)
{
    const char *own = strrchr(type->tp_name, '.');
    PyObject *where;
    bool same;

    if (strcmp(own ? own + 1 : type->tp_name, name) != 0)
        return false;
    where = PyObject_GetAttrString((PyObject *)type, "__module__");
    same = where && PyUnicode_Check(where) && PyUnicode_CompareWithASCIIString(where, module) == 0;
    Py_XDECREF(where);
    PyErr_Clear();
    return same;
}

/* The row of exactly TYPE, or 0. */
static uint32_t hresult_of_class(PyTypeObject *type, PyObject *exc)
{
    for (size_t i = 0; i < SSPY_COUNT_OF(class_rows); i++)
        if ((PyObject *)type == *class_rows[i].type)
            return class_rows[i].hresult;
    for (size_t i = 0; i < SSPY_COUNT_OF(named_rows); i++)
        if (is_named(type, named_rows[i].module, named_rows[i].name))
            return named_rows[i].hresult;
    return (PyObject *)type == PyExc_OSError ? hresult_of_os_error(exc) : 0;
}

HRESULT sspy_hresult_of(sspy_state *state, PyObject *exc)
{
    PyObject *mro = Py_TYPE(exc)->tp_mro;
    long long own = 0;
    uint32_t hresult = 0;

    (void)state;
    if (integer_attribute(exc, "hresult", &own))
        hresult = failing(own);
    for (Py_ssize_t i = 0; !hresult && i < PyTuple_GET_SIZE(mro); i++)
        hresult = hresult_of_class((PyTypeObject *)PyTuple_GET_ITEM(mro, i), exc);
    return hresult ? (HRESULT)hresult : E_FAIL;
}

/* ---- Back -------------------------------------------------------------------------------------*/

PyObject *sspy_type_for(HRESULT hr, int *errno_out)
{
    uint32_t bits = (uint32_t)hr;

    *errno_out = 0;
    for (size_t i = 0; i < SSPY_COUNT_OF(class_rows); i++)
        if (class_rows[i].hresult == bits && class_rows[i].back) {
            *errno_out = class_rows[i].back_errno;
            return *class_rows[i].back;
        }
    if ((bits & 0xFFFF0000u) == ERRNO_HRESULT) {
        *errno_out = (int)(bits & 0xFFFF);
    } else if ((bits & 0xFFFF0000u) == WIN32_HRESULT) {
        for (size_t i = 0; i < SSPY_COUNT_OF(errno_rows) && !*errno_out; i++)
            if (errno_rows[i].win32 == (bits & 0xFFFF))
                *errno_out = errno_rows[i].number;
    }
    return *errno_out ? PyExc_OSError : PyExc_Exception;
}

/* ---- For tests and callers --------------------------------------------------------------------*/

PyObject *sspy_hresult_table(void)
{
    PyObject *classes = PyList_New(0), *numbers = PyList_New(0), *row = NULL;
    bool failed = !classes || !numbers;

    for (size_t i = 0; !failed && i < SSPY_COUNT_OF(class_rows); i++) {
        row = Py_BuildValue("(OI)", *class_rows[i].type, class_rows[i].hresult);
        failed = !row || PyList_Append(classes, row);
        Py_XDECREF(row);
    }
    for (size_t i = 0; !failed && i < SSPY_COUNT_OF(errno_rows); i++) {
        row = Py_BuildValue("(iI)", errno_rows[i].number, WIN32_HRESULT | errno_rows[i].win32);
        failed = !row || PyList_Append(numbers, row);
        Py_XDECREF(row);
    }
    row = failed ? NULL : Py_BuildValue("(OO)", classes, numbers);
    Py_XDECREF(classes);
    Py_XDECREF(numbers);
    return row;
}

int sspy_hresult_from(PyObject *number, const char *argument, HRESULT *hr)
{
    int overflow = 0;
    long long value;

    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%s must be int, not %.200s", argument,
                     Py_TYPE(number)->tp_name);
        return -1;
    }
    value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow || value < INT32_MIN || value > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s must fit in 32 bits, signed or unsigned", argument);
        return -1;
    }
    *hr = (HRESULT)(uint32_t)value;
    return 0;
}
