#include "error/held.h"

/* The interface IID of OBJECT without a new reference: the caller holds OBJECT. */
static void *borrow_interface(IUnknown *object, REFIID iid)
{
    void *out = NULL;

    if (FAILED(object->lpVtbl->QueryInterface(object, iid, &out)) || !out)
        return NULL;
    ((IUnknown *)out)->lpVtbl->Release(out);
    return out;
}

void ss_held_begin(ss_held *held, IUnknown *object)
{
    *held = (ss_held){.object = object};
    if (!object)
        return;
    object->lpVtbl->AddRef(object);
    held->exception = borrow_interface(object, &stacksplice_IID_IScriptException);
    if (held->exception) {
        held->exception->lpVtbl->AddInside(held->exception);
        return;
    }
    held->error = borrow_interface(object, &stacksplice_IID_IScriptErrorInfo);
    if (held->error)
        held->error->lpVtbl->AddInside(held->error);
}

void ss_held_wake(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->AddRef(held->object);
}

void ss_held_sleep(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->Release(held->object);
}

void ss_held_end(ss_held *held)
{
    if (held->exception)
        held->exception->lpVtbl->ReleaseInside(held->exception);
    else if (held->error)
        held->error->lpVtbl->ReleaseInside(held->error);
    else if (held->object)
        held->object->lpVtbl->Release(held->object);
    held->object = NULL;
}
