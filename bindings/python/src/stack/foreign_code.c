/*
 * Whose code native frames are in: Python's own, or that of another language.  Each exception that
 * leaves a loop of the interpreter asks, so the answer is found by addresses and names of binaries,
 * without a search of symbols, and nothing is kept by address.
 */
#include "stack/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef enum owner { UNKNOWN, PYTHON, ASYNCIO, OTHERS } owner;

/* A loaded binary. */
typedef struct binary {
    uintptr_t begin, end; /* END 0: unknown */
    const char *path;
} binary;

#ifdef DLFO_STRUCT_HAS_EH_DBASE /* glibc 2.35 */
static bool find_binary(uintptr_t ip, binary *found)
{
    struct dl_find_object object;

    if (_dl_find_object((void *)ip, &object))
        return false;
    *found = (binary){(uintptr_t)object.dlfo_map_start, (uintptr_t)object.dlfo_map_end,
                      object.dlfo_link_map->l_name};
    return true;
}
#else
static bool find_binary(uintptr_t ip, binary *found)
{
    Dl_info info;

    if (!dladdr((const void *)ip, &info) || !info.dli_fname)
        return false;
    *found = (binary){(uintptr_t)info.dli_fbase, 0, info.dli_fname};
    return true;
}
#endif

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A module of Python's library, greenlet, or ours.  Not so _ctypes, whose calls are those of other
   languages. */
static owner owner_by_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (begins(name, "_stacksplice.") || begins(name, "libstacksplice") ||
        begins(name, "_greenlet."))
        return PYTHON;
    if (!strstr(path, "/lib-dynload/") || begins(name, "_ctypes."))
        return OTHERS;
    return begins(name, "_asyncio.") ? ASYNCIO : PYTHON;
}

/* Python's own binary, which is never unloaded.  Interpreters with own locks find the same. */
static atomic_uintptr_t python_begin, python_end;

static uintptr_t find_python(void)
{
    binary python;

    if (!find_binary((uintptr_t)&PyType_Type, &python))
        return 0;
    atomic_store_explicit(&python_end, python.end, memory_order_relaxed);
    atomic_store_explicit(&python_begin, python.begin, memory_order_relaxed);
    return python.begin;
}

/* Whose code the call before ADDRESS is in; UNKNOWN: made at run time, its callers tell. */
static owner owner_of(uintptr_t address)
{
    uintptr_t python = atomic_load_explicit(&python_begin, memory_order_relaxed);
    binary here;

    if (!python)
        python = find_python();
    if (!find_binary(address - 1, &here))
        return UNKNOWN;
    return here.begin == python ? PYTHON : owner_by_path(here.path);
}

static inline bool is_in_python(uintptr_t address)
{
    return address > atomic_load_explicit(&python_begin, memory_order_relaxed) &&
           address <= atomic_load_explicit(&python_end, memory_order_relaxed);
}

bool sspy_is_foreign_code(uintptr_t address)
{
    return !is_in_python(address) && owner_of(address) == OTHERS;
}

sspy_way sspy_way_through(const uintptr_t *frames, uint32_t count, bool ends_tasks)
{
    for (uint32_t i = 0; i < count; i++) {
        owner whose = is_in_python(frames[i]) ? PYTHON : owner_of(frames[i]);

        if (whose == OTHERS)
            return SSPY_OF_OTHERS;
        if (whose == ASYNCIO && !ends_tasks)
            return SSPY_KEPT_BY_TASK;
    }
    return SSPY_PYTHONS_OWN;
}

/* ---- Foreign frame ---------------------------------------------------------------------------*/

/*
 * Frame objects for frames of other languages: their globals mark them, and hold their stack
 * element.
 */

#define ELEMENT_KEY "__stacksplice__"
#define ELEMENT_NAME "stacksplice.element"

/* The address 1 is no element: it stands for a function that was inlined into the next one. */
static void *const inlined_part = (void *)1;

bool sspy_foreign_frame(PyFrameObject *frame, uintptr_t *element)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool other = !sspy_may_be_foreign(code);
    PyObject *globals, *capsule;
    void *found = NULL;

    Py_DECREF(code);
    if (other)
        return false;
    globals = PyFrame_GetGlobals(frame);
    capsule = PyDict_GetItemString(globals, ELEMENT_KEY);
    if (capsule && PyCapsule_IsValid(capsule, ELEMENT_NAME))
        found = PyCapsule_GetPointer(capsule, ELEMENT_NAME);
    Py_DECREF(globals);
    if (element)
        *element = found == inlined_part ? 0 : (uintptr_t)found;
    return found != NULL;
}

static int set_item(PyObject *dict, const char *key, PyObject *value)
{
    int failed = !value || PyDict_SetItemString(dict, key, value);

    Py_XDECREF(value);
    return failed;
}

PyObject *sspy_foreign_globals(const stacksplice_frame *frame, PyObject *file)
{
    void *element = frame->inlined ? inlined_part : (void *)frame->address;
    PyObject *globals = PyDict_New();

    if (globals && (set_item(globals, "__name__", PyUnicode_FromString(frame->language)) ||
                    (file && set_item(globals, "__file__", Py_NewRef(file))) ||
                    set_item(globals, ELEMENT_KEY, PyCapsule_New(element, ELEMENT_NAME, NULL))))
        Py_CLEAR(globals);
    return globals;
}
