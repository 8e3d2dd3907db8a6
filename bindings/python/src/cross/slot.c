/*
 * The thread's error slot, as Python sees it: clean-up code that may fail, and asyncio.
 *
 * The slot belongs to the thread, not to a task.  So that no task takes another's error for its
 * own, we note for which task Python put an error there.  In any other task that error is stale.
 */
#include "cross/cross.h"
#include "life/text.h"

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

PyObject *sspy_save_error(PyObject *module, PyObject *unused)
{
    IErrorInfo *info = NULL;
    PyObject *capsule;

    (void)module;
    (void)unused;
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
    sspy_release(state->interp, error);
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

void sspy_slot_drop_other_task(sspy_state *state)
{
    if (ask_about_slot(state, "is_of_another_task")) {
        stacksplice_section section = sspy_enter(state->interp);

        RoClearError();
        sspy_leave(section);
    }
}
