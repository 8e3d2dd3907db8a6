// Prices an order: C++ calls Lua, and Lua calls C++, which throws.
#include <iostream>
#include <stacksplice/stacksplice.hpp>
#include <stdexcept>

#include <lua.hpp>
#include <map>
#include <stacksplice/lua.h>
#include <string>

static double find_rate(const std::string &currency)
{
    static const std::map<std::string, double> rates = {{"EUR", 1.0}, {"USD", 0.92}};
    const auto found = rates.find(currency);

    if (found == rates.end())
        throw stacksplice::error(E_BOUNDS, "no rate for " + currency);
    return found->second;
}

static int rate(lua_State *L) // Lua calls this, and no exception may leave it
{
    const char *currency = luaL_checkstring(L, 1);
    double found = 0;
    const HRESULT hr = stacksplice::guard([&] { return find_rate(currency); }, found);

    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    lua_pushnumber(L, found);
    return 1;
}

static void check_amount(double amount)
{
    if (amount < 0)
        throw std::invalid_argument("an amount below zero");
}

static void price(lua_State *L, const char *currency) // C++ calls Lua
{
    lua_getglobal(L, "price");
    lua_pushstring(L, currency);
    stacksplice::check(stacksplice_lua_pcall(L, 1, 0)); // throws what the script raised
}

int main()
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "rate", rate);
    if (luaL_dofile(L, "rules.lua"))
        return 2;
    try {
        price(L, "EUR");
        price(L, "XXX");
    } catch (const stacksplice::error &error) {
        std::cerr << error.text();
    }
    try {
        stacksplice::traced([] { check_amount(-1); });
    } catch (const std::exception &) {
        std::cerr << stacksplice::trace::current();
    }
    lua_close(L);
}
