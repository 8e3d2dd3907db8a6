/* The parts of the example host.  Read host.c first. */
#ifndef HOST_H
#define HOST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h> /* before the standard headers, as Python asks */

#include <lua.h>
#include <stacksplice/stacksplice.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* money.c: reports failure as C code does, with an HRESULT and an error in the thread's slot. */
HRESULT round_money(double amount, const char *currency, int64_t *minor);
/* The number of digits after the point, or -1 for an unknown currency. */
int money_digits(const char *currency);

/* bridge.c: the functions that Python and Lua call. */
PyObject *open_python_host(void); /* for PyImport_AppendInittab: the module "host" */
int open_lua_host(lua_State *L);  /* for luaL_requiref: the library "host" */
/* The objects that the functions of both use; L is borrowed, and so are the two references. */
void set_bridge(lua_State *L, PyObject *rates, PyObject *catalogue);

/* warehouse.c: a Lua library that knows neither this host nor stacksplice. */
int luaopen_warehouse(lua_State *L);

/* report.c: the final handling of errors. */
typedef struct report {
    FILE *json; /* receives the reports as data */
    bool terminal, color;
    unsigned whole; /* how many reports are printed whole; each further one is one line */
    unsigned failed;
    unsigned written; /* how many of these went to JSON */
    struct {
        HRESULT hr;
        unsigned count;
    } kinds[32];
    unsigned kind_count;
} report;

/* Take the thread's error, print it and write it; the slot is empty afterwards. */
void report_error(report *r, HRESULT hr, const char *order, const char *customer);
/* For stacksplice_format: DATA is a FILE. */
int write_file(const char *text, size_t length, void *data);
bool report_open(report *r, const char *json_path);
/* False when the JSON file could not be written completely. */
bool report_close(report *r);

#endif
