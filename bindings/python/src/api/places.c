/* The entries of a traceback as the traceback module of Python describes them. */
#include "api/api.h"
#include "frames/positions.h"

static PyObject *number_or_none(int64_t number)
{
    if (number < 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(number);
}

/*
 * ((file, line, name, end line, column, end column), globals): columns count from 0, None is
 * unknown.
 */
static PyObject *place_of(PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    sspy_position at = {0};
    PyObject *line, *place;

    if (entry->tb_lasti >= 0)
        at = sspy_position_of(code, entry->tb_lasti);
    line = at.line ? PyLong_FromUnsignedLong(at.line)
                   : PyObject_GetAttrString((PyObject *)entry, "tb_lineno");
    place = Py_BuildValue("((ONONNN)N)", code->co_filename, line, code->co_name,
                          number_or_none(at.end_line ? (int64_t)at.end_line : -1),
                          number_or_none((int64_t)at.column - 1),
                          number_or_none((int64_t)at.end_column - 1),
                          PyFrame_GetGlobals(entry->tb_frame));
    Py_DECREF(code);
    return place;
}

static int append_place(PyObject *places, PyTracebackObject *entry)
{
    PyObject *place = place_of(entry);
    int result = place ? PyList_Append(places, place) : -1;

    Py_XDECREF(place);
    return result;
}

PyObject *sspy_places(PyObject *module, PyObject *traceback)
{
    PyObject *places = PyList_New(0), *entry = Py_NewRef(traceback);

    (void)module;
    while (places && PyTraceBack_Check(entry)) {
        PyObject *next = (PyObject *)((PyTracebackObject *)entry)->tb_next;

        if (append_place(places, (PyTracebackObject *)entry))
            Py_CLEAR(places);
        Py_SETREF(entry, Py_NewRef(next ? next : Py_None));
    }
    Py_DECREF(entry);
    return places;
}
