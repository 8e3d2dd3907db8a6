/* A C module through which Lua runs Python: the interpreter is in the process of Lua. */
#include <Python.h>

#include <dlfcn.h>

#include <lauxlib.h>

#include <stacksplice/lua.h>
#include <stacksplice/python.h>

/* run(source): runs Python and raises what comes out. */
static int run(lua_State *L)
{
    const char *source = luaL_checkstring(L, 1);
    PyObject *globals = PyModule_GetDict(PyImport_AddModule("__main__")), *result;

    result = PyRun_String(source, Py_file_input, globals, globals);
    if (!result)
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    Py_DECREF(result);
    return 0;
}

/* object(err): whether Python's exception behind an error object can be reached, by its class. */
static int class_of(lua_State *L)
{
    IUnknown *exception = NULL;
    PyObject *object;

    if (stacksplice_lua_exception(L, 1, &exception) != S_OK)
        return 0;
    object = stacksplice_python_object(exception);
    exception->lpVtbl->Release(exception);
    lua_pushstring(L, object ? Py_TYPE(object)->tp_name : NULL);
    Py_XDECREF(object);
    return 1;
}

/* Extension modules look for Python's functions in what the whole program can see. */
static int begin_python(lua_State *L)
{
    if (!dlopen(PYTHON_LIBRARY, RTLD_LAZY | RTLD_GLOBAL))
        return luaL_error(L, "%s", dlerror());
    Py_InitializeEx(0);
    if (PyRun_SimpleString("import sys; sys.path.insert(0, '" PYTHON_PACKAGES "')") != 0)
        return luaL_error(L, "Python does not begin");
    return 0;
}

__attribute__((visibility("default"))) int luaopen_stacksplice_test_python(lua_State *L);

int luaopen_stacksplice_test_python(lua_State *L)
{
    static const luaL_Reg functions[] = {{"run", run}, {"class_of", class_of}, {NULL, NULL}};

    if (!Py_IsInitialized())
        (void)begin_python(L);
    if (FAILED(stacksplice_python_import()))
        return luaL_error(L, "stacksplice cannot be imported");
    luaL_newlib(L, functions);
    return 1;
}
