/* Which Lua it is, found before any function is called that differs between the versions. */
#include "lua/lua.h"

#include <dlfcn.h>

/* Where to look, in words. */
static const char *name_of(const char *library)
{
    return library ? library : "this program";
}

static int refuse(const char *what, const char *library)
{
    PyErr_Format(PyExc_ValueError,
                 "%s in %s is not supported: stacksplice reads the stacks of Lua 5.3, 5.4 and 5.5",
                 what, name_of(library));
    return 0;
}

/* Since 5.4 it takes no notice of the state.  NUMBER is the address of lua_version. */
static int ask(void *address)
{
    double (*version)(void *L) = (double (*)(void *))(uintptr_t)address;

    return (int)version(NULL);
}

int sspy_lua_version(void *handle, const char *library)
{
    void *version = dlsym(handle, "lua_version");

    if (!dlsym(handle, "lua_newstate")) {
        PyErr_Format(PyExc_OSError,
                     "%s exports no functions of Lua (lua_newstate was not found): build it so "
                     "that it does, or link it with a shared Lua",
                     name_of(library));
        return 0;
    }
    if (dlsym(handle, "luaJIT_setmode"))
        return refuse("LuaJIT", library);
    if (!version)
        return refuse("Lua 5.1", library);
    if (!dlsym(handle, "lua_rotate"))
        return refuse("Lua 5.2", library);
    if (!dlsym(handle, "lua_newuserdatauv"))
        return 503;
    if (ask(version) == 504 || ask(version) == 505)
        return ask(version);
    return refuse("this version of Lua", library);
}
