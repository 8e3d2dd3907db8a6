/* Reading an error of the core; nothing here can raise. */
#include "value/error_object.h"

IUnknown *ss_lua_error_exception(IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = ss_lua_query(error, &IID_ILanguageExceptionErrorInfo2);
    IUnknown *exception = NULL;

    if (!info)
        return NULL;
    (void)info->lpVtbl->GetLanguageException(info, &exception);
    ss_lua_release(info);
    return exception;
}

HRESULT ss_lua_error_hresult(IUnknown *error)
{
    HRESULT hr = E_FAIL;

    (void)stacksplice_error_hresult(error, &hr);
    return hr;
}
