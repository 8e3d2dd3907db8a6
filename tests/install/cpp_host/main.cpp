// A C++17 host: the interfaces are classes with virtual methods, and objects of ours are called so.
#include <stacksplice/stacksplice.hpp>

#include <cstdio>
#include <string>

#include "../shared/check.h"

namespace
{
// Releases when it goes out of scope.
template <typename Interface> struct holder {
    Interface *pointer = nullptr;
    ~holder()
    {
        if (pointer != nullptr)
            pointer->Release();
    }
    Interface *operator->() const
    {
        return pointer;
    }
};

int append(const char *text, size_t length, void *data)
{
    static_cast<std::string *>(data)->append(text, length);
    return 0;
}

[[gnu::noinline]] HRESULT settle_account()
{
    RoOriginateErrorW(E_BOUNDS, 0, reinterpret_cast<const WCHAR *>(u"No such account: \u00e9"));
    return E_BOUNDS;
}
} // namespace

int main()
{
    CHECK(settle_account() == E_BOUNDS);
    {
        holder<IRestrictedErrorInfo> error;
        CHECK(stacksplice_peek_error(&error.pointer) == S_OK);
        BSTR description = nullptr, restricted = nullptr, sid = nullptr;
        HRESULT hr = S_OK;
        CHECK(error->GetErrorDetails(&description, &hr, &restricted, &sid) == S_OK);
        CHECK(hr == E_BOUNDS);
        CHECK(SysStringLen(restricted) == 18);
        CHECK(restricted[17] == 0x00e9);
        SysFreeString(description);
        SysFreeString(restricted);
        SysFreeString(sid);

        std::string text;
        CHECK(stacksplice_format(reinterpret_cast<IUnknown *>(error.pointer),
                                 STACKSPLICE_FORMAT_JSON, nullptr, append, &text) == S_OK);
        CHECK(text.find("No such account: ") != std::string::npos);
    }
    RoClearError();

    // The same by the C++ binding: out as an HRESULT, in as an exception.
    const HRESULT hr = stacksplice::guard([] { stacksplice::check(settle_account()); });
    CHECK(hr == E_BOUNDS);
    try {
        stacksplice::check(hr);
        CHECK(false);
    } catch (const stacksplice::error &e) {
        CHECK(e.hresult() == E_BOUNDS);
        CHECK(e.text().find("No such account") != std::string::npos);
    }
    std::puts("\nok");
}
