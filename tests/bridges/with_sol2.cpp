// C++ calls Lua, which calls C++, by sol2 with the handler of docs/how-to/games-and-c-hosts.md.
#include "sol_border.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace
{

struct no_stock : std::runtime_error {
    using std::runtime_error::runtime_error;
    int shelf = 9;
};

[[gnu::noinline]] int leaf(int shelf)
{
    if (shelf > 2)
        throw no_stock("no stock");
    return shelf;
}

// What came out, and its report.
std::pair<std::string, std::string> order(const std::string &take)
{
    sol::state lua;
    HRESULT hr = S_OK;

    lua.open_libraries();
    lua.set_exception_handler(&push_exception);
    lua["plain"] = [](int shelf) { return leaf(shelf); };
    lua["traced"] = [](int shelf) { return stacksplice::traced([&] { return leaf(shelf); }); };
    lua["handler"] = &stacksplice_lua_handler;
    lua.script("function order(take) local left = take(9) return left + 1 end");
    {
        sol::protected_function function(lua["order"], lua["handler"].get<sol::reference>());
        const sol::protected_function_result result = function(lua[take].get<sol::object>());

        if (!result.valid())
            hr = stacksplice_lua_originate(result.lua_state(), result.stack_index());
    }
    try {
        stacksplice::check(hr);
    } catch (const no_stock &e) {
        return {"no_stock of shelf " + std::to_string(e.shelf) + ": " + e.what(),
                stacksplice::trace::current().text()};
    } catch (const std::exception &e) {
        return {e.what(), stacksplice::trace::current().text()};
    }
    return {"no error", ""};
}

} // namespace

PYBIND11_MODULE(with_sol2, m)
{
    m.def("order", order);
}
