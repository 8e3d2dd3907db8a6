/* A C host: fails with an HRESULT, looks at the thread's error and prints its report. */
#include <stacksplice/stacksplice.h>

#include "../shared/check.h"

int neighbours_version_ok(void);
int neighbours_error_is(int32_t hr);
int neighbours_fewest_frames(void);
int odbc_slot_is_empty(void);

static __attribute__((noinline)) HRESULT open_ledger(void)
{
    HRESULT hr = E_ACCESSDENIED;
    RoOriginateErrorW(hr, 0, (const WCHAR *)u"The ledger is locked");
    return hr;
}

int main(void)
{
    static report r;
    IRestrictedErrorInfo *error = NULL;
    uintptr_t frames[32];
    uint32_t count = 0;

    CHECK(neighbours_version_ok());
    CHECK(odbc_slot_is_empty());
    CHECK(open_ledger() == E_ACCESSDENIED);
    CHECK(neighbours_error_is(E_ACCESSDENIED));

    CHECK(stacksplice_peek_error(&error) == S_OK && error != NULL);
    CHECK(stacksplice_error_stack((IUnknown *)error, 32, frames, &count) >= 0);
    CHECK(count >= (uint32_t)neighbours_fewest_frames());
    CHECK(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, report_write, &r) ==
          S_OK);
    REPORT_HOLDS(&r, "The ledger is locked");
    REPORT_HOLDS(&r, "80070005");
    error->lpVtbl->Release(error);
    RoClearError();
    CHECK(stacksplice_peek_error(&error) == S_FALSE && error == NULL);

    printf("\nok\n");
    return 0;
}
