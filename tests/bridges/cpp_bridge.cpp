/*
 * Two bridges in the style of C++ libraries that know nothing of stacksplice: pybind11's own, and
 * one for Lua as sol2 makes them (a call with debug.traceback as its handler whose error is thrown
 * as an exception with the text; C++ exceptions become Lua errors with their text).
 */
#include "calls.h"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

#ifdef WITH_LUA
#include <lua.hpp>
#endif

namespace py = pybind11;

[[gnu::noinline]] static py::object pass_on(const py::function &function)
{
    py::object result = function();

    AFTER();
    return result;
}

[[gnu::noinline]] static void throw_below(const std::string &text)
{
    if (!text.empty())
        throw std::out_of_range(text);
    AFTER();
}

#ifdef WITH_LUA

// lua_error leaves no destructor behind, so the text is on Lua's stack before.
static int call_python(lua_State *L)
{
    {
        auto &function = *static_cast<py::function *>(lua_touserdata(L, lua_upvalueindex(1)));

        try {
            function();
            return 0;
        } catch (const std::exception &e) {
            lua_pushstring(L, e.what());
        }
    }
    return lua_error(L);
}

static std::string run_lua(const std::string &path, const std::string &source, bool handled,
                           py::function function)
{
    lua_State *L = luaL_newstate();
    std::string text;

    luaL_openlibs(L);
    lua_pushlightuserdata(L, &function);
    lua_pushcclosure(L, call_python, 1);
    lua_setglobal(L, "python");
    if (!path.empty()) {
        lua_pushfstring(L, "package.cpath = '%s/?.so'; require 'stacksplice'.install()",
                        path.c_str());
        if (luaL_dostring(L, lua_tostring(L, -1)))
            text = lua_tostring(L, -1);
        lua_settop(L, 0);
    }
    int handler = 0;
    if (handled) {
        lua_getglobal(L, "debug");
        lua_getfield(L, -1, "traceback");
        lua_remove(L, 1);
        handler = 1;
    }
    if (text.empty() && (luaL_loadbuffer(L, source.data(), source.size(), "=script") ||
                         lua_pcall(L, 0, 0, handler)))
        text = lua_tostring(L, -1);
    lua_close(L);
    if (!text.empty())
        throw std::runtime_error(text);
    return text;
}
#endif

PYBIND11_MODULE(cpp_bridge, m)
{
    m.def("pass_on", pass_on);
    m.def("throw_below", throw_below);
#ifdef WITH_LUA
    m.def("run_lua", run_lua);
#endif
}
