/* Python dicts and lists from what the core's visitor reads. */
#include "api/visit.h"
#include "life/text.h"

#include <string.h>

static sspy_builder *builder_of(stacksplice_visitor *visitor)
{
    return SSPY_CONTAINER(visitor, sspy_builder, visitor);
}

/* Put VALUE, which is taken over, into the row; the names are nearly in the order of the members. */
static int put_in_row(sspy_builder *b, const char *key, PyObject *value)
{
    for (unsigned i = 0; value && i < b->name_count; i++) {
        unsigned at = (b->at + i) % b->name_count;

        if (strcmp(b->names[at], key))
            continue;
        b->row[at] = value;
        b->at = at + 1;
        return 0;
    }
    if (value)
        PyErr_Format(PyExc_SystemError, "a row has no member %s", key);
    Py_XDECREF(value);
    return -1;
}

/* Put VALUE, which is taken over, into the innermost container.  Nonzero with an exception. */
static int put(stacksplice_visitor *visitor, const char *key, PyObject *value)
{
    sspy_builder *b = builder_of(visitor);
    PyObject *container = b->depth ? b->open[b->depth - 1] : NULL;
    int failed = value ? 0 : -1;

    if (b->row)
        return put_in_row(b, key, value);
    if (value && !container)
        b->result = Py_NewRef(value);
    else if (value && PyDict_CheckExact(container))
        failed = PyDict_SetItemString(container, key, value);
    else if (value)
        failed = PyList_Append(container, value);
    Py_XDECREF(value);
    return failed;
}

static int begin(stacksplice_visitor *visitor, const char *key, stacksplice_container container)
{
    sspy_builder *b = builder_of(visitor);
    PyObject *value;

    if (b->row)
        return 0;
    value = container == STACKSPLICE_OBJECT ? PyDict_New() : PyList_New(0);
    if (b->depth == SSPY_MAX_OPEN || put(visitor, key, value))
        return -1;
    b->open[b->depth++] = value; /* its container holds a reference */
    return 0;
}

static int end(stacksplice_visitor *visitor, stacksplice_container container)
{
    sspy_builder *b = builder_of(visitor);

    (void)container;
    b->depth -= !b->row;
    return 0;
}

static int null(stacksplice_visitor *visitor, const char *key)
{
    return put(visitor, key, Py_NewRef(Py_None));
}

static int boolean(stacksplice_visitor *visitor, const char *key, int value)
{
    return put(visitor, key, PyBool_FromLong(value));
}

static int integer(stacksplice_visitor *visitor, const char *key, int64_t value)
{
    return put(visitor, key, PyLong_FromLongLong(value));
}

static int hex(stacksplice_visitor *visitor, const char *key, uint64_t value, unsigned digits)
{
    (void)digits;
    return put(visitor, key, PyLong_FromUnsignedLongLong(value));
}

static int utf8(stacksplice_visitor *visitor, const char *key, const char *text, size_t length)
{
    return put(visitor, key, sspy_text_from_utf8(text, length));
}

static int utf16(stacksplice_visitor *visitor, const char *key, const uint16_t *text, size_t length)
{
    return put(visitor, key, sspy_text_from_wide(text, (uint32_t)length));
}

static int element(stacksplice_visitor *visitor, uintptr_t address)
{
    return put(visitor, NULL, PyLong_FromUnsignedLongLong(address));
}

static int error(stacksplice_visitor *visitor, const char *key, IUnknown *related)
{
    return put(visitor, key, sspy_error_wrap_unknown(builder_of(visitor)->state, related));
}

sspy_builder sspy_new_builder(sspy_state *state)
{
    return (sspy_builder){.visitor = {.size = sizeof(stacksplice_visitor),
                                      .begin = begin,
                                      .end = end,
                                      .null = null,
                                      .boolean = boolean,
                                      .integer = integer,
                                      .hex = hex,
                                      .utf8 = utf8,
                                      .utf16 = utf16,
                                      .element = element,
                                      .error = error},
                          .state = state};
}

PyObject *sspy_end_builder(sspy_builder *builder, HRESULT hr)
{
    if (hr == S_OK)
        return builder->result;
    Py_CLEAR(builder->result);
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    return NULL;
}
