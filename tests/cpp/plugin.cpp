// One of the binaries of binaries.cpp: built twice, as PLUGIN one and two.
#include <stacksplice/stacksplice.hpp>

#include <stdexcept>
#include <string>

namespace ss = stacksplice;

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace
{

struct own_error : ss::error {
    own_error() : ss::error(E_BOUNDS, "of the plugin")
    {
    }
};

struct bulky : std::runtime_error {
    using std::runtime_error::runtime_error;
    std::string more = "its destructor is in this binary, and this text is on the heap";
};

[[gnu::noinline]] void leaf(int kind)
{
    switch (kind) {
    case 0:
        throw std::out_of_range("no such shelf");
    case 1:
        throw ss::error(E_BOUNDS, "no such order");
    case 2:
        throw own_error();
    default:
        throw bulky("bulky");
    }
}

} // namespace

EXPORTED HRESULT plugin_throws(int kind)
{
    return ss::guard([&] { leaf(kind); });
}

EXPORTED HRESULT plugin_passes(HRESULT (*inner)(int), int kind)
{
    return ss::guard([&] { ss::check(inner(kind)); });
}

// A border that another binary guards.
EXPORTED void plugin_throws_plainly(int kind)
{
    leaf(kind);
}

EXPORTED void plugin_guards(void (*inner)(int), int kind, HRESULT *hr)
{
    *hr = ss::guard([&] { inner(kind); });
}

EXPORTED void plugin_code(std::error_code *code)
{
    *code = ss::to_error_code(static_cast<HRESULT>(0x80040201));
}
