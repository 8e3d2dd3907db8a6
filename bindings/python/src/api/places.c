/* The entries of a traceback as the traceback module of Python describes them. */
#include "api/api.h"
#include "frames/frames.h"
#include "stack/variables.h"

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

static PyObject *variables_of(PyTracebackObject *entry, bool wanted)
{
    return wanted ? sspy_variables_of(entry->tb_frame) : Py_NewRef(Py_None);
}

static int append_place(PyObject *places, PyTracebackObject *entry, bool with_locals)
{
    PyObject *place = place_of(entry, variables_of(entry, with_locals));
    int result = place ? PyList_Append(places, place) : -1;

    Py_XDECREF(place);
    return result;
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
                         shows_locals && left <= SSPY_LOCAL_FRAMES))
            Py_CLEAR(places);
        left -= shows_locals;
        Py_SETREF(entry, Py_NewRef(next ? next : Py_None));
    }
    Py_DECREF(entry);
    return places;
}
