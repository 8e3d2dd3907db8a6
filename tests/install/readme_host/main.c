/* What the example of README.md needs around it, and a look at what it reports. */
#include <Python.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdio.h>
#include <string.h>

static char report[16384];
static size_t report_length;

/* What the README's report is written with: kept, to be looked at. */
static int print(const char *text, size_t length, void *file)
{
    if (length >= sizeof report - report_length)
        return 1;
    memcpy(report + report_length, text, length);
    report_length += length;
    return fwrite(text, 1, length, file) != length;
}

static PyObject *python_rate;

#include "example.h"

/* The needles in this order. */
static int in_order(const char *text, const char *const *needles)
{
    for (; *needles; needles++) {
        text = strstr(text, *needles);
        if (!text) {
            printf("FAILED: no %s\n", *needles);
            return 0;
        }
    }
    return 1;
}

int main(void)
{
    static const char *const expected[] = {"KeyError: 'XXX'", "(Python)",        "in rate",  "(C)",
                                           " in rate ",       "(Lua)",           "in price", "(C)",
                                           " in price ",      "Lua received it", NULL};
    IRestrictedErrorInfo *left;
    lua_State *L = luaL_newstate();

    Py_Initialize();
    if (!L || stacksplice_python_import() < 0)
        return 2;
    PyRun_SimpleString("def rate(currency):\n    return {'EUR': 1.0}[currency]\n");
    python_rate = PyObject_GetAttrString(PyImport_AddModule("__main__"), "rate");
    luaL_openlibs(L);
    lua_register(L, "rate", rate);
    if (luaL_dostring(L, "function price(currency) return 10 * rate(currency) end"))
        return 2;
    price(L, "EUR");
    if (report_length) {
        printf("FAILED: a report of a call that succeeds\n");
        return 1;
    }
    price(L, "XXX");
    if (!in_order(report, expected) || stacksplice_peek_error(&left) != S_FALSE)
        return 1;
    lua_close(L);
    Py_DECREF(python_rate);
    if (Py_FinalizeEx() < 0)
        return 1;
    printf("\nok\n");
    return 0;
}
