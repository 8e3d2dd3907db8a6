// Windows code as it is: bare header names, wide literals, RoOriginateError and
// IRestrictedErrorInfo.
#include <roerrorapi.h>

#include <cstdio>

static HRESULT find_rate(const wchar_t *currency, double *rate)
{
    if (currency[0] != L'E') {
        RoOriginateErrorW(E_BOUNDS, 0, L"no rate for this currency");
        return E_BOUNDS;
    }
    *rate = 1;
    return S_OK;
}

static void print(BSTR text) // UTF-16, here of ASCII characters only
{
    for (UINT i = 0; i < SysStringLen(text); i++)
        std::putchar(text[i]);
    std::putchar('\n');
    SysFreeString(text);
}

int main()
{
    IRestrictedErrorInfo *error = nullptr;
    BSTR description = nullptr, message = nullptr, capability = nullptr;
    double rate = 0;
    HRESULT hr = find_rate(L"XXX", &rate);

    if (SUCCEEDED(hr) || GetRestrictedErrorInfo(&error) != S_OK)
        return 1;
    error->GetErrorDetails(&description, &hr, &message, &capability);
    std::printf("0x%08x\n", static_cast<unsigned>(hr));
    print(description);
    print(message);
    SysFreeString(capability);
    error->Release();
}
