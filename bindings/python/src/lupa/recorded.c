/*
 * The error that a message handler of a runtime was told of last.
 *
 * lupa's own handler is the last one that Lua calls in a call that fails.  lupa makes the LuaError
 * when that call has returned, before Python goes on: Python's innermost frame is at the same
 * instruction then, and the runtime's lock is held.  The handler runs without the interpreter's
 * lock.
 */
#include "lupa/lupa.h"

#include <stdlib.h>

typedef struct sspy_recorded {
    IUnknown *error; /* counted */
    sspy_call call;
    uint64_t number; /* a later one has a higher number */
} sspy_recorded;

static void free_recorded(sspy_recorded *recorded)
{
    if (recorded)
        sspy_unknown_release(recorded->error);
    free(recorded);
}

static sspy_recorded *new_recorded(IUnknown *error, sspy_call call)
{
    static _Atomic uint64_t number;
    sspy_recorded *recorded = malloc(sizeof *recorded);

    if (!recorded)
        return NULL;
    error->lpVtbl->AddRef(error);
    *recorded = (sspy_recorded){error, call, atomic_fetch_add(&number, 1)};
    return recorded;
}

/* The innermost call of this thread that resumes a coroutine. */
static _Thread_local sspy_call resuming;

sspy_call sspy_lupa_resuming(sspy_call call)
{
    sspy_call former = resuming;

    resuming = call;
    return former;
}

void sspy_lupa_recorded(void *data, IUnknown *error)
{
    sspy_attached *attached = data;
    sspy_recorded *recorded = NULL;
    sspy_call call;

    if (error && sspy_interp_lives()) {
        call = sspy_call_now(PyGILState_GetThisThreadState());
        recorded = call.frame ? new_recorded(error, call) : NULL;
        if (recorded)
            atomic_store(&attached->recorded_frame, call.frame);
    }
    free_recorded(atomic_exchange(&attached->recorded, recorded));
}

IUnknown *sspy_lupa_take_recorded(sspy_attached *attached, sspy_call here, uint64_t *number)
{
    sspy_recorded *recorded;
    IUnknown *error = NULL;

    if (!here.frame || atomic_load(&attached->recorded_frame) != here.frame)
        return NULL;
    recorded = atomic_exchange(&attached->recorded, NULL);
    if (recorded && sspy_same_call(recorded->call, here) && !sspy_same_call(resuming, here)) {
        error = recorded->error;
        error->lpVtbl->AddRef(error);
        *number = recorded->number;
    }
    free_recorded(recorded);
    return error;
}

void sspy_attached_free(sspy_attached *attached)
{
    free_recorded(atomic_exchange(&attached->recorded, NULL));
    Py_XDECREF(attached->lock);
    free(attached);
}

bool sspy_attached_is_called(const sspy_attached *attached)
{
    PyObject *held = attached->lock ? PyObject_CallMethod(attached->lock, "_is_owned", NULL) : NULL;
    bool called = held ? PyObject_IsTrue(held) == 1 : !attached->lock;

    Py_XDECREF(held);
    PyErr_Clear();
    return called;
}
