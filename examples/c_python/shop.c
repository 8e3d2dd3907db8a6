/* Prices an order: C calls Lua, Lua calls C, and C calls Python. */
#include <Python.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdio.h>

static PyObject *python_rate;

static int print(const char *text, size_t length, void *file)
{
    return fwrite(text, 1, length, file) != length;
}

static int rate(lua_State *L) /* Lua calls this, and this calls Python */
{
    PyObject *value = PyObject_CallFunction(python_rate, "s", luaL_checkstring(L, 1));

    if (!value) /* Python's exception becomes the thread's error, and then a Lua error */
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    lua_pushnumber(L, PyFloat_AsDouble(value));
    Py_DECREF(value);
    return 1;
}

static void price(lua_State *L, const char *currency) /* C calls Lua */
{
    IRestrictedErrorInfo *error;

    lua_getglobal(L, "price");
    lua_pushstring(L, currency);
    if (stacksplice_lua_pcall(L, 1, 0) < 0 && GetRestrictedErrorInfo(&error) == S_OK) {
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, print, stderr);
        error->lpVtbl->Release(error);
    }
}

int main(void)
{
    lua_State *L = luaL_newstate();
    PyObject *rates;

    Py_Initialize();
    PyRun_SimpleString("import sys; sys.path.insert(0, '')");
    rates = PyImport_ImportModule("rates");
    python_rate = rates ? PyObject_GetAttrString(rates, "rate") : NULL;
    luaL_openlibs(L);
    lua_register(L, "rate", rate);
    if (!python_rate || luaL_dofile(L, "rules.lua"))
        return 2;
    price(L, "EUR");
    price(L, "XXX");
    lua_close(L);
    return Py_FinalizeEx() < 0;
}
