/* The ties between a value and its error, and the errors that cross a border with it. */
#include "script/exception.h"
#include "script/release.h"

/* ---- Ties ------------------------------------------------------------------------------------*/

void stacksplice_ties_set_exception(stacksplice_ties *ties, stacksplice_exception *x)
{
    stacksplice_exception *former = ties->exception;

    ties->exception = x;
    stacksplice_exception_unref(former);
}

/* Untie ERROR before releasing it: the release may run code that reads the ties. */
static void release_error(stacksplice_ties *ties)
{
    IScriptErrorInfo *error = ties->error;
    int foreign = ties->foreign;

    ties->error = NULL;
    ties->foreign = 0;
    if (error && foreign)
        error->lpVtbl->Release(error);
    else if (error)
        error->lpVtbl->ReleaseInside(error);
}

void stacksplice_ties_set_error(stacksplice_ties *ties, IScriptErrorInfo *error, int foreign)
{
    if (foreign)
        error->lpVtbl->AddRef(error);
    else
        error->lpVtbl->AddInside(error);
    release_error(ties);
    ties->error = error;
    ties->foreign = foreign;
}

void stacksplice_ties_drop(stacksplice_ties *ties)
{
    stacksplice_exception *x = ties->exception;

    ties->exception = NULL;
    release_error(ties);
    stacksplice_exception_unref(x);
}

/* ---- Leaving ---------------------------------------------------------------------------------*/

void *ss_query(void *object, REFIID iid)
{
    IUnknown *unknown = object;
    void *out = NULL;

    if (!unknown || FAILED(unknown->lpVtbl->QueryInterface(unknown, iid, &out)))
        return NULL;
    return out;
}

/*
 * Store a new error in the slot and tie it.  *ERROR gets an outside reference, or NULL with
 * S_FALSE.
 */
static HRESULT originate(stacksplice_ties *ties, IScriptErrorInfo **error)
{
    stacksplice_exception *x = ties->exception;
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IRestrictedErrorInfo *info = NULL;
    HRESULT hr;

    /* Makes X drop its value again even if no error comes to hold X. */
    unknown->lpVtbl->AddRef(unknown);
    hr = stacksplice_originate(x->hresult, x->message, x->message_length, unknown, &info);
    *error = ss_query(info, &stacksplice_IID_IScriptErrorInfo);
    if (info)
        info->lpVtbl->Release(info);
    if (*error)
        stacksplice_ties_set_error(ties, *error, 0);
    unknown->lpVtbl->Release(unknown);
    if (FAILED(hr))
        return hr;
    return *error ? S_OK : S_FALSE;
}

static void put_back(IScriptErrorInfo *error)
{
    IRestrictedErrorInfo *info = ss_query(error, &IID_IRestrictedErrorInfo);

    (void)SetRestrictedErrorInfo(info);
    if (info)
        info->lpVtbl->Release(info);
}

stacksplice_hresult stacksplice_leave(stacksplice_ties *ties, stacksplice_hresult *hr)
{
    IScriptErrorInfo *error = NULL;
    HRESULT result;

    if (ties->error) {
        put_back(ties->error);
        return stacksplice_error_hresult((IUnknown *)(void *)ties->error, hr);
    }
    *hr = ties->exception->hresult;
    result = originate(ties, &error);
    if (error)
        error->lpVtbl->Release(error);
    return result;
}

stacksplice_hresult stacksplice_make_error(stacksplice_ties *ties, IScriptErrorInfo **error)
{
    stacksplice_saved_error saved;
    HRESULT result;

    if (ties->error) {
        *error = ties->error;
        (*error)->lpVtbl->AddRef(*error);
        return S_OK;
    }
    (void)stacksplice_save_error(&saved);
    result = originate(ties, error);
    (void)stacksplice_restore_error(&saved);
    return result;
}

/* ---- Arriving --------------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_arrive(stacksplice_owner *owner, const void *above,
                                       stacksplice_hresult hr, IRestrictedErrorInfo **error)
{
    HRESULT result;

    if (!error)
        return E_POINTER;
    *error = NULL;
    if (SUCCEEDED(hr))
        return E_INVALIDARG;
    /* Makes an error where the slot has none for HR, so that the node has one to belong to. */
    (void)stacksplice_propagate_above(above, hr, stacksplice_owner_language(owner)->name);
    result = RoGetMatchingRestrictedErrorInfo(hr, error);
    if (SUCCEEDED(result) && *error)
        return S_OK;
    return result == E_OUTOFMEMORY ? result : S_FALSE;
}

/* The exception that INFO, an error or a node, carries. */
static stacksplice_exception *carried(const stacksplice_owner *owner,
                                      ILanguageExceptionErrorInfo2 *info)
{
    stacksplice_exception *x = NULL;
    IUnknown *unknown = NULL;

    if (SUCCEEDED(info->lpVtbl->GetLanguageException(info, &unknown)) && unknown)
        x = stacksplice_exception_from(unknown, owner);
    if (unknown)
        unknown->lpVtbl->Release(unknown); /* the error keeps it */
    return x && stacksplice_exception_value(x) ? x : NULL;
}

stacksplice_exception *stacksplice_own_exception(const stacksplice_owner *owner, IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = ss_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL;
    stacksplice_exception *x = info ? carried(owner, info) : NULL;

    if (info && !x)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    while (node && !x) {
        ILanguageExceptionErrorInfo2 *older = NULL;

        x = carried(owner, node);
        if (!x)
            (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        node->lpVtbl->Release(node);
        node = older;
    }
    if (info)
        info->lpVtbl->Release(info);
    return x;
}
