#ifndef SHOP_H
#define SHOP_H

#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>

#ifdef __cplusplus
extern "C" {
#endif

extern lua_State *shop_lua; /* one Lua state, used by one thread at a time */

PyObject *PyInit_shop(void);
void open_shop(lua_State *L);

HRESULT call_python(const char *function, const char *argument, double *result);
HRESULT call_lua(lua_State *L, const char *function, const char *argument, double *result);
HRESULT add_up_lua(lua_State *L, const char *function, int count, double *sum);
HRESULT discount(double price, double *reduced); /* in C++ */
HRESULT stock_in_thread(int shelf);              /* in C++ */
HRESULT take_from_shelf(int shelf, int *left);

#ifdef __cplusplus
}
#endif
#endif
