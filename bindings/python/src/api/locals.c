/*
 * Local variables in reports.  The frames of an exception's traceback keep them, so they are read
 * when a report is made.  An element of a stack stands for a place, not for a frame: the entries of
 * the traceback are found in the stack in their order, from the innermost outward.
 */
#include "api/api.h"
#include "lupa/lupa.h"
#include "stack/variables.h"

/* The innermost entries of a traceback, each frame once: the last is the innermost. */
typedef struct innermost {
    PyTracebackObject *entries[SSPY_LOCAL_FRAMES]; /* borrowed; a ring */
    uint32_t count;                                /* also of those that were replaced */
} innermost;

static innermost innermost_of(PyTracebackObject *entry)
{
    innermost found = {.count = 0};

    for (; entry; entry = entry->tb_next) {
        if (!entry->tb_next || entry->tb_next->tb_frame != entry->tb_frame)
            found.entries[found.count++ % SSPY_LOCAL_FRAMES] = entry;
    }
    return found;
}

/* Whether ELEMENT stands for the place of ENTRY. */
static bool is_place(PyTracebackObject *entry, uintptr_t element)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool is = false;

    for (int trust = STACKSPLICE_TRUST_EXACT; !is && trust <= STACKSPLICE_TRUST_TRACEBACK; trust++)
        is = trust != STACKSPLICE_TRUST_INFERRED &&
             element == sspy_token_known(code, entry->tb_lasti, entry->tb_lineno,
                                         (stacksplice_trust)trust);
    Py_DECREF(code);
    return is;
}

/* What the core asks about. */
typedef struct question {
    const uintptr_t *frames;
    uint32_t count;
    stacksplice_local_callback put;
    void *put_data;
} question;

/* -1 with an exception, or when no more is taken. */
static int tell_frame(const question *asked, uint32_t element, PyFrameObject *frame)
{
    PyObject *variables = sspy_variables_of(frame), *name, *value;
    Py_ssize_t at = 0, length;
    int failed = !variables;

    while (!failed && PyDict_Next(variables, &at, &name, &value)) {
        const char *key = PyUnicode_AsUTF8(name), *text = PyUnicode_AsUTF8AndSize(value, &length);

        failed = !key || !text || asked->put(element, key, text, (size_t)length, asked->put_data);
    }
    Py_XDECREF(variables);
    return failed ? -1 : 0;
}

static void tell(const question *asked, PyTracebackObject *traceback)
{
    innermost found = innermost_of(traceback);
    uint32_t most = found.count < SSPY_LOCAL_FRAMES ? found.count : SSPY_LOCAL_FRAMES, from = 0;

    for (uint32_t i = 1; i <= most; i++) {
        PyTracebackObject *entry = found.entries[(found.count - i) % SSPY_LOCAL_FRAMES];
        uint32_t at = from;

        while (at < asked->count && !is_place(entry, asked->frames[at]))
            at++;
        if (at == asked->count)
            continue; /* the stack does not have it */
        if (tell_frame(asked, at, entry->tb_frame))
            return;
        from = at + 1;
    }
}

/* A stacksplice_locals_callback. */
static void read_locals(IUnknown *error, const uintptr_t *frames, uint32_t count,
                        stacksplice_local_callback put, void *put_data)
{
    const question asked = {frames, count, put, put_data};
    PyObject *exc, *traceback, *pending;

    if (!sspy_thread_state_here() || !sspy_shows_locals())
        return;
    pending = sspy_take_pending();
    exc = sspy_known_object(sspy_state_current(), error);
    traceback = exc ? sspy_traceback_of(exc) : NULL;
    if (traceback)
        tell(&asked, (PyTracebackObject *)traceback);
    PyErr_Clear();
    Py_XDECREF(traceback);
    Py_XDECREF(exc);
    sspy_set_pending(pending);
}

PyObject *sspy_show_locals(PyObject *module, PyObject *wanted)
{
    sspy_state *state = PyModule_GetState(module);
    int shows = PyObject_IsTrue(wanted);

    if (shows < 0)
        return NULL;
    if (shows && FAILED(stacksplice_add_locals(read_locals)))
        return PyErr_NoMemory();
    state->shows_locals = shows;
    sspy_lua_show_locals(shows);
    Py_RETURN_NONE;
}
