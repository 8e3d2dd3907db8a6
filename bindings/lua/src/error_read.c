/* Reading an error of the core.  Nothing here can raise: what is read goes to C memory. */
#include "error_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The restricted description as UTF-8, without its line end. */
static char *description_of(IUnknown *error, size_t *length)
{
    IRestrictedErrorInfo *info = ss_lua_query(error, &IID_IRestrictedErrorInfo);
    BSTR description = NULL, restricted = NULL, sid = NULL;
    char *text = NULL;
    HRESULT hr = E_FAIL;
    uint32_t units;

    *length = 0;
    if (!info)
        return NULL;
    if (SUCCEEDED(info->lpVtbl->GetErrorDetails(info, &description, &hr, &restricted, &sid)) &&
        restricted) {
        units = SysStringLen(restricted);
        while (units > 0 && (restricted[units - 1] == '\n' || restricted[units - 1] == '\r'))
            units--;
        text = malloc((size_t)units * 3 + 1);
        if (text)
            *length = stacksplice_utf8(restricted, units, text, (size_t)units * 3 + 1);
    }
    SysFreeString(description);
    SysFreeString(restricted);
    SysFreeString(sid);
    ss_lua_release(info);
    return text;
}

/* A copy of the script's own message; NULL when there is none. */
static char *script_message_of(IUnknown *error, size_t *length)
{
    IUnknown *exception = ss_lua_error_exception(error);
    IScriptException *script = ss_lua_query(exception, &stacksplice_IID_IScriptException);
    const char *message = script ? script->lpVtbl->GetMessage(script, length) : NULL;
    char *copy = message ? malloc(*length + 1) : NULL;

    if (copy)
        memcpy(copy, message, *length);
    ss_lua_release(script);
    ss_lua_release(exception);
    return copy;
}

char *ss_lua_error_message(IUnknown *error, size_t *length)
{
    char *text = script_message_of(error, length);

    return text ? text : description_of(error, length);
}

const char *ss_lua_error_language(IUnknown *error, char *type_name, size_t capacity)
{
    IUnknown *exception = ss_lua_error_exception(error);
    IScriptException *script = ss_lua_query(exception, &stacksplice_IID_IScriptException);
    const char *language = "native", *name;

    *type_name = '\0';
    if (script) {
        language = script->lpVtbl->GetLanguage(script);
        name = script->lpVtbl->GetTypeName(script);
        if (name)
            (void)snprintf(type_name, capacity, "%s", name);
    }
    ss_lua_release(script);
    ss_lua_release(exception);
    return language;
}
