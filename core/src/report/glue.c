#include "report/glue.h"

#include "resolve/lua_api.h"

#include <string.h>

/*
 * Binaries by the beginning of their file name, and what of them is glue.  An interpreter that is
 * linked into a host is recognised by its functions' names below.
 */
typedef enum module_rule {
    ALL,     /* every frame */
    INTERNAL /* every frame but the functions that scripts call by name */
} module_rule;

static const struct {
    const char *beginning;
    bool whole; /* a version number or nothing follows, not more of the name */
    module_rule rule;
} modules[] = {
    {"libpython", true, ALL},       {"python", true, ALL},
    {"_ctypes.", false, ALL},       /* foreign calls between Python and C */
    {"libffi.so", false, ALL},      /* the same */
    {"_stacksplice.", false, ALL},  /* our own borders */
    {"stacksplice.so", false, ALL}, /* the same, for Lua */
    {"libstacksplice", false, ALL}, {"liblua", true, INTERNAL},
    {"lua", true, INTERNAL},        {"libluajit", false, INTERNAL},
    {"luajit", false, INTERNAL},
};

/* Functions by the beginning of their names, in whatever binary they are. */
static const char *const functions[] = {
    "Py_",   "_Py",   "luaD_",    "luaE_",        "luaF_",       "luaG_", "luaH_",
    "luaL_", "luaO_", "luaT_",    "luaV_",        "luaC_",       "luaX_", "luaY_",
    "luaZ_", "lj_",   "ffi_call", "stacksplice_", "RoOriginate",
};

/* What the C library and the linker put below main and below a thread's function. */
static const char *const start_up[] = {
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone3",
    "__clone3",
    "__GI___clone3",
};

static bool begins(const char *text, const char *beginning)
{
    return !strncmp(text, beginning, strlen(beginning));
}

static bool is_version(const char *rest)
{
    return !*rest || strchr(".-0123456789", *rest) != NULL;
}

/* CPython's API is PyList_New and the like: a host's Pyramid_build is not of it. */
static bool is_python_api(const char *name)
{
    return begins(name, "Py") && name[2] >= 'A' && name[2] <= 'Z';
}

static bool is_glue_function(const char *name)
{
    for (size_t i = 0; i < SS_COUNT_OF(start_up); i++) {
        if (!strcmp(name, start_up[i]))
            return true;
    }
    for (size_t i = 0; i < SS_COUNT_OF(functions); i++) {
        if (begins(name, functions[i]))
            return true;
    }
    return is_python_api(name) || ss_lua_api_is(name);
}

static stacksplice_role role_of(const stacksplice_frame *frame, bool script_named)
{
    const char *module;

    if (frame->kind != STACKSPLICE_FRAME_NATIVE)
        return STACKSPLICE_ROLE_OWN;
    if (frame->function && !script_named && is_glue_function(frame->function))
        return STACKSPLICE_ROLE_GLUE;
    if (!frame->module)
        return STACKSPLICE_ROLE_OWN;
    module = ss_base_name(frame->module);
    for (size_t i = 0; i < SS_COUNT_OF(modules); i++) {
        if (begins(module, modules[i].beginning) &&
            (!modules[i].whole || is_version(module + strlen(modules[i].beginning))))
            return modules[i].rule == ALL || !frame->function ? STACKSPLICE_ROLE_GLUE
                                                              : STACKSPLICE_ROLE_BUILTIN;
    }
    return STACKSPLICE_ROLE_OWN;
}

bool ss_glue_is(const ss_frame *f)
{
    return role_of(&f->frame, f->script_named) == STACKSPLICE_ROLE_GLUE;
}

stacksplice_role stacksplice_frame_role(const stacksplice_frame *frame)
{
    return frame ? role_of(frame, false) : STACKSPLICE_ROLE_OWN;
}
