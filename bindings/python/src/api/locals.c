/*
 * Local variables in reports.  The frames of an exception's traceback keep them, so they are read
 * when a report is made.  An element of a stack stands for a place, not for a frame: the entries of
 * the traceback are found in the stack in their order, from the innermost outward.
 */
#include "api/api.h"
#include "lupa/lupa.h"
#include "shared/value_text.h"

#include <math.h>

enum {
    LOCAL_VARIABLES = 20, /* of a frame */
    LOCAL_FRAMES = 32     /* of a traceback: the innermost */
};

/* ---- Texts of values ---------------------------------------------------------------------------*/

/*
 * The text of a value, made without any code of the program: no __repr__, no __str__, no __len__,
 * no property.  Values of exactly the builtin types are written as Python writes them, others as
 * their type in <>.
 *
 * Objects that are made for these texts may start the garbage collector, and that may run
 * finalizers.  So each item is held while it is written, and sizes are read anew.
 */

static const double LARGE = 1e100; /* larger numbers are not written out */

static void put_value(ss_value_text *to, PyObject *value);

static bool is_text(PyObject *value)
{
    return PyUnicode_CheckExact(value) || PyBytes_CheckExact(value);
}

static bool is_container(PyObject *value)
{
    return PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value) ||
           PySet_CheckExact(value) || PyFrozenSet_CheckExact(value);
}

/* Whether that shows more of VALUE than its type. */
static bool is_plain(PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
           PyFloat_CheckExact(value) || is_text(value) || is_container(value);
}

/* ---- Numbers and texts ------------------------------------------------------------------------*/

/* TEXT, which may be NULL with an exception, is what Python made: "..." without memory. */
static void put_made(ss_value_text *to, const char *text)
{
    ss_value_put(to, text ? text : "...");
    PyErr_Clear();
}

static void put_int(ss_value_text *to, PyObject *value)
{
    double size = PyLong_AsDouble(value);
    bool is_large = PyErr_Occurred() || fabs(size) >= LARGE;
    PyObject *text = is_large ? NULL : PyObject_Repr(value);

    PyErr_Clear();
    put_made(to, is_large ? "<int, very large>" : text ? PyUnicode_AsUTF8(text) : NULL);
    Py_XDECREF(text);
}

static void put_float(ss_value_text *to, double value)
{
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);

    put_made(to, text);
    PyMem_Free(text);
}

static size_t escape(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    return c >= 0x80 && Py_UNICODE_ISPRINTABLE(c) ? 0 : ss_value_python_escape(c, out);
}

static void put_str(ss_value_text *to, PyObject *value)
{
    static const ss_value_quoting quoting = {
        .before = "", .quote = '\'', .other = '"', .escape = escape};
    PyObject *part = PyUnicode_Substring(value, 0, SS_VALUE_SEARCHED);
    PyObject *bytes = part ? sspy_utf8_from_text(part) : NULL;

    if (bytes)
        ss_value_quoted(to, &quoting, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                        (uint64_t)PyUnicode_GET_LENGTH(value));
    else
        put_made(to, NULL);
    Py_XDECREF(bytes);
    Py_XDECREF(part);
}

/* ---- Containers -------------------------------------------------------------------------------*/

/* Write an item, which is released; KEY is NULL, or that of a dict.  False: no more are written. */
static bool put_item(ss_value_text *to, PyObject *key, PyObject *value)
{
    bool goes_on = ss_value_item(to);

    if (goes_on) {
        const char *name = key && PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : NULL;

        PyErr_Clear(); /* a key with surrogates is no name */
        if (key)
            put_value(to, key);
        ss_value_put(to, key ? ": " : "");
        if (!name || !ss_value_secret(to, name, "'"))
            put_value(to, value);
        goes_on = ss_value_fits(to);
    }
    Py_XDECREF(key);
    Py_DECREF(value);
    return goes_on;
}

static void put_sequence(ss_value_text *to, PyObject *value)
{
    bool is_list = PyList_CheckExact(value), goes_on = true;
    sspy_critical section;

    SSPY_CRITICAL_BEGIN(&section, value);
    for (Py_ssize_t i = 0; goes_on && i < Py_SIZE(value); i++) {
        PyObject *item = is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);

        goes_on = put_item(to, NULL, Py_NewRef(item));
    }
    SSPY_CRITICAL_END(&section);
}

static void put_dict(ss_value_text *to, PyObject *value)
{
    PyObject *key, *item;
    Py_ssize_t at = 0;
    bool goes_on = true;
    sspy_critical section;

    SSPY_CRITICAL_BEGIN(&section, value); /* or the next item may be gone before it is kept */
    while (goes_on && PyDict_Next(value, &at, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        goes_on = put_item(to, key, item);
    }
    SSPY_CRITICAL_END(&section);
}

static void put_set(ss_value_text *to, PyObject *value)
{
    PyObject *iterator = PyObject_GetIter(value), *item = NULL;

    while (iterator && (item = PyIter_Next(iterator)) != NULL && put_item(to, NULL, item))
        ;
    Py_XDECREF(iterator);
    if (PyErr_Occurred()) { /* a finalizer changed it */
        PyErr_Clear();
        ss_value_leave_out(to);
    }
}

static void put_tuple(ss_value_text *to, PyObject *value)
{
    ss_value_begin(to, "(");
    put_sequence(to, value);
    ss_value_end(to, Py_SIZE(value) == 1 && ss_value_count(to) ? ",)" : ")");
}

static void put_container(ss_value_text *to, PyObject *value)
{
    bool is_frozen = PyFrozenSet_CheckExact(value);

    if (PyTuple_CheckExact(value)) {
        put_tuple(to, value);
    } else if (PyList_CheckExact(value)) {
        ss_value_begin(to, "[");
        put_sequence(to, value);
        ss_value_end(to, "]");
    } else if (PyDict_CheckExact(value)) {
        ss_value_begin(to, "{");
        put_dict(to, value);
        ss_value_end(to, "}");
    } else if (PySet_GET_SIZE(value)) {
        ss_value_begin(to, is_frozen ? "frozenset({" : "{");
        put_set(to, value);
        ss_value_end(to, is_frozen ? "})" : "}");
    } else {
        ss_value_put(to, is_frozen ? "frozenset()" : "set()");
    }
}

/* ---- Values -----------------------------------------------------------------------------------*/

static void put_type(ss_value_text *to, const char *name)
{
    ss_value_put(to, "<");
    ss_value_put_bytes(to, name, strnlen(name, SS_VALUE_TYPE));
    ss_value_put(to, ">");
}

static void put_value(ss_value_text *to, PyObject *value)
{
    if (value == Py_None)
        ss_value_put(to, "None");
    else if (PyBool_Check(value))
        ss_value_put(to, value == Py_True ? "True" : "False");
    else if (PyLong_CheckExact(value))
        put_int(to, value);
    else if (PyFloat_CheckExact(value))
        put_float(to, PyFloat_AS_DOUBLE(value));
    else if (PyUnicode_CheckExact(value))
        put_str(to, value);
    else if (PyBytes_CheckExact(value))
        ss_value_quoted(to, &ss_value_of_python_bytes, PyBytes_AS_STRING(value),
                        (size_t)PyBytes_GET_SIZE(value), (uint64_t)PyBytes_GET_SIZE(value));
    else if (is_container(value))
        put_container(to, value);
    else
        put_type(to, Py_TYPE(value)->tp_name);
}

/* The text of VALUE; NULL with an exception. */
static PyObject *text_of(PyObject *value)
{
    ss_value_text text;

    ss_value_text_init(&text, false);
    put_value(&text, value);
    return sspy_text_from_utf8(text.bytes, text.length);
}

/* ---- Variables ---------------------------------------------------------------------------------*/

/* Whether NAME is one that a program gave: not ".0" of a comprehension, nor "__class__". */
static bool is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_IsIdentifier(name) == 1 &&
           !(PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' &&
             PyUnicode_READ_CHAR(name, 1) == '_');
}

/* Modules, functions and classes are what a module is made of. */
static bool is_shown(PyObject *name, PyObject *value, bool is_function)
{
    return is_name(name) && (is_function || is_plain(value));
}

/* Say what is left out, where the next variable would stand.  -1 with an exception. */
static int add_remark(PyObject *found, const char *remark)
{
    return sspy_append_new(found, Py_BuildValue("(ss)", SS_VALUE_REMARK, remark));
}

/* The names and values of FRAME's variables in tuples, none if their mapping may run code of the
   program: a metaclass can give a class one of its own.  NULL with an exception. */
static PyObject *values_of(PyFrameObject *frame, bool is_function)
{
    PyObject *values = PyFrame_GetLocals(frame), *items = NULL;

    if (values && (is_function || PyDict_CheckExact(values)))
        items = PyMapping_Items(values);
    else if (values)
        items = PyList_New(0);
    Py_XDECREF(values);
    return items;
}

/*
 * A list of tuples: the names of FRAME's variables, sorted as in Python's tracebacks, and the texts of
 * their values.  It runs no code of the program.  NULL with an exception.
 */
static PyObject *variables_of(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool is_function = code->co_flags & CO_OPTIMIZED;
    bool is_foreign = sspy_may_be_foreign(code) && sspy_foreign_frame(frame, NULL);
    PyObject *found = PyList_New(0);
    PyObject *values = is_foreign ? PyList_New(0) : values_of(frame, is_function);
    Py_ssize_t count = values ? PyList_GET_SIZE(values) : 0;
    int failed = !found || !values;
    bool more = false;

    Py_DECREF(code);
    for (Py_ssize_t i = 0; !failed && i < count && !more; i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(values, i), 0);
        PyObject *value = PyTuple_GET_ITEM(PyList_GET_ITEM(values, i), 1);

        if (!is_shown(name, value, is_function))
            continue;
        more = PyList_GET_SIZE(found) == LOCAL_VARIABLES;
        failed = !more && sspy_append_new(found, Py_BuildValue("(ON)", name, text_of(value)));
    }
    Py_XDECREF(values);
    if (failed || PyList_Sort(found) || (more && add_remark(found, SS_VALUE_MORE)))
        Py_CLEAR(found);
    return found;
}

/* What stands in the place of the variables of a frame that is too far outward, as variables_of. */
static PyObject *variables_left_out(void)
{
    PyObject *found = PyList_New(0);

    if (found && add_remark(found, SS_VALUE_OUTWARD))
        Py_CLEAR(found);
    return found;
}

/* ---- Variables in reports ----------------------------------------------------------------------*/

enum { SEEN_FRAMES = LOCAL_FRAMES + 1 }; /* the outermost says that others have variables, too */

/* The innermost entries of a traceback, each frame once: the last is the innermost. */
typedef struct innermost {
    PyTracebackObject *entries[SEEN_FRAMES]; /* borrowed; a ring */
    uint32_t count;                          /* also of those that were replaced */
} innermost;

static innermost innermost_of(PyTracebackObject *entry)
{
    innermost found = {.count = 0};

    for (; entry; entry = entry->tb_next) {
        if (!entry->tb_next || entry->tb_next->tb_frame != entry->tb_frame)
            found.entries[found.count++ % SEEN_FRAMES] = entry;
    }
    return found;
}

/* Whether ELEMENT stands for the place of ENTRY. */
static bool is_place(const PyTracebackObject *entry, uintptr_t element)
{
    return element == sspy_element_of(entry, STACKSPLICE_TRUST_EXACT) ||
           element == sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);
}

/* What the core asks about. */
typedef struct question {
    const uintptr_t *frames;
    uint32_t count;
    stacksplice_local_callback put;
    void *put_data;
} question;

/* Tell of VARIABLES (taken over), of the frame at ELEMENT.  -1 with an exception, or when no more is taken. */
static int tell_frame(const question *asked, uint32_t element, PyObject *variables)
{
    int failed = !variables;

    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(variables); i++) {
        PyObject *item = PyList_GET_ITEM(variables, i);
        Py_ssize_t length;
        const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(item, 0));
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(item, 1), &length);

        failed = !key || !text || asked->put(element, key, text, (size_t)length, asked->put_data);
    }
    Py_XDECREF(variables);
    return failed ? -1 : 0;
}

static void tell(const question *asked, PyTracebackObject *traceback)
{
    innermost found = innermost_of(traceback);
    uint32_t most = found.count < SEEN_FRAMES ? found.count : SEEN_FRAMES, from = 0;

    for (uint32_t i = 1; i <= most; i++) {
        PyTracebackObject *entry = found.entries[(found.count - i) % SEEN_FRAMES];
        uint32_t at = from;

        while (at < asked->count && !is_place(entry, asked->frames[at]))
            at++;
        if (at == asked->count)
            continue; /* the stack does not have it */
        if (tell_frame(asked, at,
                       i <= LOCAL_FRAMES ? variables_of(entry->tb_frame) : variables_left_out()))
            return;
        from = at + 1;
    }
}

/* A stacksplice_locals_callback. */
static void read_locals(IUnknown *error, const uintptr_t *frames, uint32_t count,
                        stacksplice_local_callback put, void *put_data)
{
    const question asked = {frames, count, put, put_data};
    PyObject *exc = NULL, *traceback, *pending;
    sspy_state *state;

    if (!sspy_thread_state_here())
        return;
    pending = sspy_take_pending();
    state = sspy_state_current();
    if (state && state->shows_locals)
        exc = sspy_known_object(state, error);
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

/* ---- Entries as Python's traceback module describes them ---------------------------------------*/

static PyObject *number_or_none(int64_t number)
{
    if (number < 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(number);
}

/*
 * ((file, line, name, end line, column, end column), globals, VARIABLES): columns count from 0,
 * None is unknown.  VARIABLES is released; NULL with an exception.
 */
static PyObject *place_of(PyTracebackObject *entry, PyObject *variables)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    sspy_position at = {0};
    PyObject *line, *place;

    if (entry->tb_lasti >= 0)
        at = sspy_position_of(code, entry->tb_lasti);
    line = at.line ? PyLong_FromUnsignedLong(at.line)
                   : PyObject_GetAttrString((PyObject *)entry, "tb_lineno");
    place = Py_BuildValue("((ONONNN)NN)", code->co_filename, line, code->co_name,
                          number_or_none(at.end_line ? (int64_t)at.end_line : -1),
                          number_or_none((int64_t)at.column - 1),
                          number_or_none((int64_t)at.end_column - 1),
                          PyFrame_GetGlobals(entry->tb_frame), variables);
    Py_DECREF(code);
    return place;
}

/* VARIABLES is taken over. */
static int append_place(PyObject *places, PyTracebackObject *entry, PyObject *variables)
{
    return sspy_append_new(places, place_of(entry, variables));
}

/* The variables of ENTRY, or what is said instead, if LEFT entries begin with it. */
static PyObject *variables_at(PyTracebackObject *entry, size_t left)
{
    if (left == SEEN_FRAMES)
        return variables_left_out();
    return left && left <= LOCAL_FRAMES ? variables_of(entry->tb_frame) : Py_NewRef(Py_None);
}

static size_t count_entries(PyObject *entry)
{
    size_t count = 0;

    for (; entry && PyTraceBack_Check(entry); count++)
        entry = (PyObject *)((PyTracebackObject *)entry)->tb_next;
    return count;
}

PyObject *sspy_places(PyObject *module, PyObject *traceback)
{
    PyObject *places = PyList_New(0), *entry = Py_NewRef(traceback);
    bool shows_locals = ((sspy_state *)PyModule_GetState(module))->shows_locals;
    size_t left = shows_locals ? count_entries(traceback) : 0;

    while (places && PyTraceBack_Check(entry)) {
        PyObject *next = (PyObject *)((PyTracebackObject *)entry)->tb_next;

        if (append_place(places, (PyTracebackObject *)entry,
                         variables_at((PyTracebackObject *)entry, left)))
            Py_CLEAR(places);
        left -= shows_locals;
        Py_SETREF(entry, Py_NewRef(next ? next : Py_None));
    }
    Py_DECREF(entry);
    return places;
}
