/*
 * HRESULT -> Python: the thread's error as an exception.
 *
 * Its causes and members arrive the same way: as the same object if they were born here, else as an
 * HResultError.
 */
#include "cross/cross.h"
#include "traceback/traceback.h"

/* ---- The thread's slot -------------------------------------------------------------------------*/

/*
 * The thread's error slot, as Python sees it: clean-up code that may fail, and asyncio.
 *
 * The slot belongs to the thread, not to a task.  So that no task takes another's error for its
 * own, we note for which task Python put an error there.  In any other task that error is stale.
 */

#define SAVED_NAME "stacksplice.saved_error"

static void saved_free(PyObject *capsule)
{
    IUnknown *error = PyCapsule_GetPointer(capsule, SAVED_NAME);
    PyObject *pending = sspy_take_pending();
    sspy_interp *interp = sspy_interp_current();

    if (interp) {
        sspy_release(interp, error);
    } else {
        sspy_unknown_release(error);
    }
    sspy_set_pending(pending);
}

PyObject *sspy_save_error(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    IErrorInfo *info = NULL;
    PyObject *capsule;

    (void)GetErrorInfo(0, &info);
    if (!info)
        Py_RETURN_NONE;
    capsule = PyCapsule_New(info, SAVED_NAME, saved_free);
    if (!capsule) {
        (void)SetErrorInfo(0, info);
        sspy_unknown_release(info);
    }
    return capsule;
}

PyObject *sspy_restore_error(PyObject *module, PyObject *capsule)
{
    sspy_state *state = PyModule_GetState(module);
    IErrorInfo *info = NULL;
    stacksplice_section section;

    if (capsule != Py_None) {
        info = PyCapsule_GetPointer(capsule, SAVED_NAME);
        if (!info)
            return NULL;
    }
    /* Not stacksplice_restore_error, which expects the thread of the save: a coroutine may have
       moved to another thread, and its block moves the error with it. */
    section = sspy_enter(state->interp);
    (void)SetErrorInfo(0, info);
    sspy_leave(section);
    Py_RETURN_NONE;
}

/* ---- Tasks ------------------------------------------------------------------------------------*/

/* ERROR's name, unique in this process for ever; NULL with an exception. */
static PyObject *reference_of(IRestrictedErrorInfo *error)
{
    BSTR reference = NULL;
    PyObject *text;

    (void)error->lpVtbl->GetReference(error, &reference);
    text = sspy_text_from_wide(reference, SysStringLen(reference));
    SysFreeString(reference);
    return text;
}

/* Call FUNCTION of _awaiting.py about the slot's error; true if it returns true.  Sets no
   exception. */
static bool ask_about_slot(sspy_state *state, const char *function)
{
    IRestrictedErrorInfo *error = NULL;
    PyObject *module = NULL, *reference = NULL, *answer = NULL;
    bool result;

    if (sspy_loop_runs(state) <= 0 || stacksplice_peek_error(&error) != S_OK) {
        PyErr_Clear();
        return false;
    }
    reference = reference_of(error);
    sspy_unknown_release(error); /* the slot keeps it */
    PyThreadState_EnterTracing(PyThreadState_Get());
    module = reference ? PyImport_ImportModule("stacksplice._errors.awaiting") : NULL;
    answer = module ? PyObject_CallMethod(module, function, "O", reference) : NULL;
    PyThreadState_LeaveTracing(PyThreadState_Get());
    result = answer == Py_True;
    sspy_clear_but_interrupts();
    Py_XDECREF(answer);
    Py_XDECREF(module);
    Py_XDECREF(reference);
    return result;
}

void sspy_slot_note(sspy_state *state)
{
    (void)ask_about_slot(state, "note_origin");
}

static void slot_drop_other_task(sspy_state *state)
{
    if (ask_about_slot(state, "is_of_another_task")) {
        stacksplice_section section = sspy_enter(state->interp);

        RoClearError();
        sspy_leave(section);
    }
}

/* ---- Errors that arrive ------------------------------------------------------------------------*/

/* The Python exception for ERROR in this interpreter (new reference).  It is the same object if
   ERROR was born here, else an HResultError.  NULL with an exception. */
static PyObject *object_for(sspy_state *state, IRestrictedErrorInfo *error);

/* The exception for ERROR, which is released. */
static PyObject *object_of(sspy_state *state, IRestrictedErrorInfo *error)
{
    PyObject *exc = object_for(state, error);

    sspy_unknown_release(error); /* the error that it belongs to has it */
    return exc;
}

/* ---- Groups -----------------------------------------------------------------------------------*/

static PyObject *member_objects(sspy_state *state, IUnknown *error, uint32_t members)
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list && i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        PyObject *exc;

        if (stacksplice_error_member(error, i, &member) != S_OK)
            break;
        exc = object_of(state, member);
        if (!exc || PyList_Append(list, exc))
            Py_CLEAR(list);
        Py_XDECREF(exc);
    }
    return list;
}

/* A new HResultErrorGroup if ERROR is a group whose members can be in one; else NULL without an
   exception. */
static PyObject *new_group(sspy_state *state, IUnknown *error, HRESULT hr, PyObject *message)
{
    PyObject *list, *exc = NULL;
    uint32_t members = 0;

    if (!state->group_error || stacksplice_error_group(error, &members, NULL) != S_OK || !members)
        return NULL;
    list = member_objects(state, error, members);
    if (list)
        exc = PyObject_CallFunction(state->group_error, "iOO", (int)hr, message, list);
    Py_XDECREF(list);
    /* A group of Exceptions cannot hold our KeyboardInterrupt, which then arrives as a single
       error. */
    if (!exc && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return exc;
}

/* ---- Cause and notes --------------------------------------------------------------------------*/

static int set_cause(sspy_state *state, PyObject *exc, IUnknown *error)
{
    IRestrictedErrorInfo *cause = NULL;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    PyObject *object;

    if (stacksplice_error_cause(error, &cause, &relation) != S_OK)
        return 0;
    object = object_of(state, cause);
    if (!object)
        return -1;
    if (relation == STACKSPLICE_RELATION_CONTEXT)
        PyException_SetContext(exc, object); /* takes the reference */
    else
        PyException_SetCause(exc, object); /* takes the reference too, and hides a context */
    return 0;
}

static int add_notes(PyObject *exc, IUnknown *error)
{
    PyObject *notes = PyList_New(0);
    int failed = !notes || stacksplice_error_notes(error, sspy_append_note, notes) != S_OK ? -1 : 0;

    if (failed && !PyErr_Occurred())
        PyErr_NoMemory(); /* the core is out of memory */
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(notes); i++) {
        PyObject *done = PyObject_CallMethod(exc, "add_note", "O", PyList_GET_ITEM(notes, i));

        failed = done ? 0 : -1;
        Py_XDECREF(done);
    }
    Py_XDECREF(notes);
    return failed;
}

/* Copy ERROR's causes and notes to EXC, the new HResultError for it; -1 with an exception. */
static int add_related(sspy_state *state, PyObject *exc, IUnknown *error)
{
    return set_cause(state, exc, error) || add_notes(exc, error) ? -1 : 0;
}

/* ---- Errors that were born elsewhere ----------------------------------------------------------*/

static PyObject *known_in(PyObject *table, PyObject *key)
{
    PyObject *reference = sspy_dict_get(table, key);
    PyObject *exc = reference ? sspy_weakref_get(reference) : NULL;

    Py_XDECREF(reference);
    return exc;
}

/* Let TABLE know EXC by KEY, unless it knows another exception that lives.  The known one (new reference), or
   NULL with an exception.  Threads that run Python at once may each have made one for the same error. */
static PyObject *know(PyObject *table, PyObject *key, PyObject *exc)
{
    PyObject *reference = PyWeakref_NewRef(exc, NULL), *known = NULL;

    while (reference && !known && !PyErr_Occurred()) {
        PyObject *found = sspy_dict_set_default(table, key, reference);

        known = found ? sspy_weakref_get(found) : NULL;
        /* Of an exception that is gone; its end may take the entry away at the same moment. */
        if (found && !known && PyDict_DelItem(table, key) && PyErr_ExceptionMatches(PyExc_KeyError))
            PyErr_Clear();
        Py_XDECREF(found);
    }
    Py_XDECREF(reference);
    return known;
}

/* The script's whole message, with its NULs; NULL if no script raised ERROR or it had no message. */
static PyObject *script_message(IScriptErrorInfo *error)
{
    IScriptException *script = sspy_script_of(error);
    size_t length = 0;
    const char *message = script ? script->lpVtbl->GetMessage(script, &length) : NULL;
    PyObject *text = message && length ? sspy_text_from_utf8(message, length) : NULL;

    sspy_unknown_release(script);
    return text;
}

/* The error object's message, which may be cut short, without the line break of system texts. */
static PyObject *message_and_hresult(IRestrictedErrorInfo *error, HRESULT *hr)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    PyObject *text = NULL;
    UINT length;

    if (SUCCEEDED(error->lpVtbl->GetErrorDetails(error, &description, hr, &message, &sid))) {
        length = SysStringLen(message);
        while (length && (message[length - 1] == '\r' || message[length - 1] == '\n'))
            length--;
        text = sspy_text_from_wide(message, length);
    } else {
        PyErr_SetString(PyExc_RuntimeError, "the error object returned no details");
    }
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    return text;
}

/* A new HResultError for ERROR, tied to it.  The state finds it by ERROR's address while it
   lives. */
static PyObject *new_foreign(sspy_state *state, IScriptErrorInfo *error, PyObject *key)
{
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    HRESULT hr = E_FAIL;
    PyObject *message = message_and_hresult(restricted, &hr);
    PyObject *whole = message ? script_message(error) : NULL;
    PyObject *exc = NULL, *known;
    sspy_ties *ties;

    if (whole)
        Py_SETREF(message, whole);
    if (message && !PyErr_Occurred())
        exc = new_group(state, (IUnknown *)error, hr, message);
    if (message && !exc && !PyErr_Occurred())
        exc = sspy_hresult_error_new(state, hr, message);
    if (exc && add_related(state, exc, (IUnknown *)error))
        Py_CLEAR(exc);
    ties = exc ? sspy_ties_make_to_cross(state->interp, exc) : NULL;
    sspy_unknown_release(restricted);
    Py_XDECREF(message);
    if (ties) /* before another thread finds it */
        sspy_ties_set_error(ties, error, true);
    known = ties ? know(state->foreign, key, exc) : NULL;
    Py_XDECREF(exc);
    return known;
}

static PyObject *foreign_object(sspy_state *state, IScriptErrorInfo *error)
{
    PyObject *key = PyLong_FromVoidPtr(error);
    PyObject *exc = key ? known_in(state->foreign, key) : NULL;

    if (key && !exc && !PyErr_Occurred())
        exc = new_foreign(state, error, key);
    Py_XDECREF(key);
    return exc;
}

/* The exception owns the error that it arrived with, even if C originated that error again by
   hand. */
static void adopt(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    sspy_ties *ties = sspy_ties_make_to_cross(state->interp, exc);

    if (!ties)
        PyErr_Clear(); /* refused: its next exit originates a new error */
    else if (sspy_ties_error(ties) != error)
        sspy_ties_set_error(ties, error, false);
}

PyObject *sspy_own_object(sspy_state *state, IUnknown *error)
{
    stacksplice_section section = sspy_enter(state->interp);
    stacksplice_exception *x = stacksplice_own_exception(state->interp->owner, error);
    PyObject *object = x ? Py_XNewRef(stacksplice_exception_value(x)) : NULL;

    sspy_leave(section);
    return object;
}

PyObject *sspy_known_object(sspy_state *state, IUnknown *error)
{
    PyObject *exc = sspy_own_object(state, error), *key;
    IScriptErrorInfo *script = exc ? NULL : sspy_query(error, &stacksplice_IID_IScriptErrorInfo);

    if (!script)
        return exc;
    key = PyLong_FromVoidPtr(script);
    exc = key ? known_in(state->foreign, key) : NULL;
    if (key && !exc)
        exc = known_in(state->made_by_others, key);
    Py_XDECREF(key);
    sspy_release(state->interp, script);
    return exc;
}

static PyObject *object_for(sspy_state *state, IRestrictedErrorInfo *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    PyObject *exc = sspy_own_object(state, (IUnknown *)error);

    if (exc && script)
        adopt(state, exc, script);
    else if (!exc && script)
        exc = foreign_object(state, script);
    else if (!exc)
        PyErr_SetString(PyExc_RuntimeError, "the thread's error was not created by this library");
    sspy_unknown_release(script); /* the caller has ERROR */
    return exc;
}

PyObject *sspy_raise(sspy_state *state, HRESULT hr, const void *above)
{
    IRestrictedErrorInfo *error = NULL;
    stacksplice_section section;
    PyObject *exc;
    HRESULT result;

    if (SUCCEEDED(hr)) {
        PyErr_Format(PyExc_SystemError, "hresult must be a failure code, got %d", hr);
        return NULL;
    }
    slot_drop_other_task(state);
    section = sspy_enter(state->interp);
    result = stacksplice_arrive(state->interp->owner, above, hr, &error);
    sspy_leave(section);
    if (result != S_OK) {
        PyObject *text;

        if (result == E_OUTOFMEMORY)
            return PyErr_NoMemory();
        /* Origination is switched off, so only the number is known. */
        text = PyUnicode_FromFormat("HRESULT 0x%08x", (unsigned)hr);
        exc = text ? sspy_hresult_error_new(state, hr, text) : NULL;
        Py_XDECREF(text);
    } else {
        exc = object_for(state, error);
        if (exc)
            sspy_show_foreign(state, exc, (IUnknown *)error);
        sspy_release(state->interp, error);
    }
    if (exc)
        sspy_set_pending(exc);
    return NULL;
}
