/* Code as it is written for Windows: bare header names, bare function names, COBJMACROS. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#define COBJMACROS
#include <roerrorapi.h>
#include <winstring.h>

#include <dlfcn.h>

#include "../shared/check.h"

typedef HRESULT (*get_error)(IRestrictedErrorInfo **);

int main(void)
{
    static const WCHAR text[] = {'F', 'u', 'l', 'l', 0};
    HSTRING message = NULL;
    IRestrictedErrorInfo *error = NULL;
    BSTR description = NULL, restricted = NULL, sid = NULL;
    HRESULT hr = S_OK;

    CHECK(WindowsCreateString(text, 4, &message) == S_OK);
    CHECK(RoOriginateError(E_FAIL, message));
    CHECK(WindowsDeleteString(message) == S_OK);

    /* Those who look them up by name find the same functions, which act on the same error. */
    get_error by_name = NULL;
    *(void **)&by_name = dlsym(RTLD_DEFAULT, "GetRestrictedErrorInfo");
    CHECK(by_name != NULL && by_name(&error) == S_OK && error != NULL);

    CHECK(IRestrictedErrorInfo_GetErrorDetails(error, &description, &hr, &restricted, &sid) ==
          S_OK);
    CHECK(hr == E_FAIL && SysStringLen(restricted) == 4 && restricted[0] == 'F');
    SysFreeString(description);
    SysFreeString(restricted);
    SysFreeString(sid);
    IRestrictedErrorInfo_Release(error);
    CHECK(GetRestrictedErrorInfo(&error) == S_FALSE && error == NULL);
    printf("\nok\n");
    return 0;
}
