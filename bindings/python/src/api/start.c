/*
 * `stacksplice run`: the interpreter starts anew, with the command line of the program
 * alone, and this library loaded before it (LD_PRELOAD).  So all that Python does at its start and
 * at its end is its own.  Between the two, when it is about to run the program, install() is called.
 *
 * STACKSPLICE_RUN says what is wanted: `options:folder`, where the folder has the package.
 */
#include "life/life.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static char wanted[PATH_MAX + 64]; /* the options, an end, the folder; the end alone once done */

/* Children of the program are not to load this library.  It stands last in the variable. */
static void restore_environment(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    const char *end = preloaded ? strrchr(preloaded, ':') : NULL;
    char *others = end ? strndup(preloaded, (size_t)(end - preloaded)) : NULL;

    (void)unsetenv("STACKSPLICE_RUN");
    if (!others || setenv("LD_PRELOAD", others, 1))
        (void)unsetenv("LD_PRELOAD");
    free(others);
}

/* Let PATH, sys.path, find the package in FOLDER and nothing in the folder of the program, which
   stands first unless that is not safe. */
static int look_elsewhere(PyObject *path, const char *folder)
{
    PyObject *flags = PySys_GetObject("flags"); /* borrowed */
    PyObject *is_safe = flags ? PyObject_GetAttrString(flags, "safe_path") : NULL;
    PyObject *text = is_safe ? PyUnicode_DecodeFSDefault(folder) : NULL;
    int failed = !text || (is_safe == Py_False && PyList_SetSlice(path, 0, 1, NULL)) ||
                 PyList_Append(path, text);

    Py_XDECREF(text);
    Py_XDECREF(is_safe);
    return failed ? -1 : 0;
}

static int call_begin(PyObject *path, const char *options, const char *folder)
{
    PyObject *module = NULL, *result = NULL;

    if (!look_elsewhere(path, folder))
        module = PyImport_ImportModule("stacksplice._hooks.program");
    if (module)
        result = PyObject_CallMethod(module, "begin", "s", options);
    Py_XDECREF(module);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int begin(const char *options, const char *folder)
{
    PyObject *path = PySys_GetObject("path"); /* borrowed */
    PyObject *entries =
        path && PyList_Check(path) ? PyList_GetSlice(path, 0, PY_SSIZE_T_MAX) : NULL;
    int failed = !entries || call_begin(path, options, folder);

    if (entries && !failed)
        failed = PyList_SetSlice(path, 0, PY_SSIZE_T_MAX, entries);
    Py_XDECREF(entries);
    return failed;
}

/* An audit hook; events before this one come from the start of the interpreter. */
static int on_event(const char *event, PyObject *Py_UNUSED(arguments), void *Py_UNUSED(data))
{
    static const char runs[] = "cpython.run_";
    char *folder = strchr(wanted, ':');

    if (!folder || strncmp(event, runs, sizeof runs - 1) != 0)
        return 0;
    *folder = '\0'; /* once */
    return begin(wanted, folder + 1);
}

/* ---- Before the interpreter's start -----------------------------------------------------------*/

static PyObject *(*plain_posix)(void);

/* The first module of those in every start.  A hook that was added before would be released by
   another allocator than it was made by, under -X dev. */
static PyObject *init_posix(void)
{
    static bool is_hooked; /* (GIL) */

    if (!is_hooked && PySys_AddAuditHook(on_event, NULL))
        return NULL;
    is_hooked = true;
    return plain_posix();
}

__attribute__((constructor)) static void on_load(void)
{
    const char *text = getenv("STACKSPLICE_RUN");
    struct _inittab *module = PyImport_Inittab;

    if (!text || Py_IsInitialized() || strlen(text) >= sizeof wanted)
        return;
    strcpy(wanted, text);
    restore_environment();
    while (module->name && strcmp(module->name, "posix") != 0)
        module++;
    plain_posix = module->initfunc;
    if (module->name)
        module->initfunc = init_posix;
}
