/*
 * The borders: C functions that Python calls and that call Lua, and the other way round.
 *
 * Every border has the same two steps.  Where an error leaves a language, it is originated: it
 * becomes the thread's error and an HRESULT.  Where it enters the next language, it is raised
 * there.  An error that comes back to the language of its birth is the same object again.
 *
 *   leaves Python  hr = stacksplice_python_originate();
 *   leaves Lua     hr = stacksplice_lua_pcall(...) or stacksplice_lua_resume(...);
 *   enters Python  return stacksplice_python_raise(hr);
 *   enters Lua     return stacksplice_lua_raise(L, hr);
 *
 * Straight from Python to Lua: return stacksplice_lua_raise(L, stacksplice_python_originate());
 */
#include "host.h"

#include <lauxlib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>

static struct {
    lua_State *L;
    PyObject *rates, *catalogue;
} bridge;

void set_bridge(lua_State *L, PyObject *rates, PyObject *catalogue)
{
    bridge.L = L;
    bridge.rates = rates;
    bridge.catalogue = catalogue;
}

/* ---- Python objects in Lua -------------------------------------------------------------------*/

#define BOX "host.object"

/*
 * Push a userdata that owns one Python reference, NULL at first.  Lua functions may raise at any
 * allocation and skip our Py_DECREF, so create the owner first, then the object.
 */
static PyObject **push_box(lua_State *L)
{
    PyObject **box = lua_newuserdatauv(L, sizeof *box, 0);

    *box = NULL;
    luaL_setmetatable(L, BOX);
    return box;
}

static int box_gc(lua_State *L)
{
    PyObject **box = luaL_checkudata(L, 1, BOX);

    Py_CLEAR(*box);
    return 0;
}

/* ---- Lua calls C -----------------------------------------------------------------------------*/

/* host.convert(cents, currency, date): the amount in that currency, from the table in Python. */
static int convert(lua_State *L)
{
    lua_Integer cents = luaL_checkinteger(L, 1);
    const char *currency = luaL_checkstring(L, 2);
    const char *date = luaL_checkstring(L, 3);
    PyObject **result = push_box(L);
    double amount = 0;

    *result = PyObject_CallMethod(bridge.rates, "convert", "Lss", (long long)cents, currency, date);
    if (*result)
        amount = PyFloat_AsDouble(*result);
    if (PyErr_Occurred())
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    lua_pushnumber(L, amount);
    return 1;
}

/* host.weight(sku): grams, from the catalogue in Python. */
static int weight(lua_State *L)
{
    const char *sku = luaL_checkstring(L, 1);
    PyObject **result = push_box(L);
    long long grams = 0;

    *result = PyObject_CallMethod(bridge.catalogue, "weight", "s", sku);
    if (*result)
        grams = PyLong_AsLongLong(*result);
    if (PyErr_Occurred())
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    lua_pushinteger(L, grams);
    return 1;
}

/* host.round(amount, currency): an integer of the currency's minor unit. */
static int round_to_minor(lua_State *L)
{
    double amount = luaL_checknumber(L, 1);
    int64_t minor = 0;
    HRESULT hr = round_money(amount, luaL_checkstring(L, 2), &minor);

    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    lua_pushinteger(L, minor);
    return 1;
}

static int each_next(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    int nargs = 0, nresults = 0;
    HRESULT hr;

    if (lua_status(co) == LUA_OK) {
        if (lua_gettop(co) == 0)
            return 0; /* the coroutine has returned: the loop ends */
        nargs = lua_gettop(co) - 1;
    }
    hr = stacksplice_lua_resume(co, L, nargs, &nresults);
    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    if (hr == S_OK) { /* not S_FALSE: the coroutine has returned */
        lua_settop(co, 0);
        return 0;
    }
    luaL_checkstack(L, nresults, "too many values yielded");
    lua_xmove(co, L, nresults);
    return nresults;
}

/* host.each(f, ...): for the loop over the values that f yields as a coroutine. */
static int each(lua_State *L)
{
    int count = lua_gettop(L);
    lua_State *co;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    co = lua_newthread(L);
    lua_insert(L, 1);
    if (!lua_checkstack(co, count))
        return luaL_error(L, "too many arguments");
    lua_xmove(L, co, count);
    lua_pushcclosure(L, each_next, 1);
    return 1;
}

int open_lua_host(lua_State *L)
{
    static const luaL_Reg functions[] = {{"convert", convert},
                                         {"weight", weight},
                                         {"round", round_to_minor},
                                         {"each", each},
                                         {NULL, NULL}};

    luaL_newmetatable(L, BOX);
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}

/* ---- Python calls C --------------------------------------------------------------------------*/

/* Run F with DATA in Lua; F contains everything that may raise a Lua error. */
static HRESULT call_lua(lua_CFunction f, void *data)
{
    lua_State *L = bridge.L;

    if (!lua_checkstack(L, 2 + LUA_MINSTACK))
        return E_OUTOFMEMORY;
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, data);
    return stacksplice_lua_pcall(L, 1, 0);
}

/* Push the function NAME of the Lua module pricing. */
static void push_rule(lua_State *L, const char *name)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "pricing");
    lua_getfield(L, -1, name);
}

/* The iterator of `for sku, quantity, cents, category in order.lines`. */
static int next_line(lua_State *L)
{
    PyObject *lines = *(PyObject **)lua_touserdata(L, lua_upvalueindex(1));
    PyObject **line = push_box(L);
    const char *sku, *category;
    long long quantity, cents;

    *line = PyIter_Next(lines);
    if (!*line && !PyErr_Occurred())
        return 0;
    if (!*line || !PyArg_ParseTuple(*line, "sLLs", &sku, &quantity, &cents, &category))
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    lua_pushstring(L, sku);
    lua_pushinteger(L, quantity);
    lua_pushinteger(L, cents);
    lua_pushstring(L, category);
    return 4;
}

typedef struct price_call {
    PyObject *order, *lines;
    lua_Integer minor;
} price_call;

static int price_in_lua(lua_State *L)
{
    static const char *const fields[] = {"date", "country", "currency", "coupons"};
    price_call *call = lua_touserdata(L, 1);

    push_rule(L, "price");
    lua_newtable(L); /* the order as a Lua table */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        PyObject **value = push_box(L);
        const char *text = NULL;

        *value = PyObject_GetAttrString(call->order, fields[i]);
        if (*value)
            text = PyUnicode_AsUTF8(*value);
        if (!text)
            return stacksplice_lua_raise(L, stacksplice_python_originate());
        lua_pushstring(L, text);
        lua_setfield(L, -3, fields[i]);
        lua_pop(L, 1); /* the box */
    }
    *push_box(L) = Py_NewRef(call->lines);
    lua_pushcclosure(L, next_line, 1);
    lua_setfield(L, -2, "lines");
    lua_call(L, 1, 1);
    call->minor = luaL_checkinteger(L, -1);
    return 0;
}

/* host.price(order, lines): the price by the Lua rules, in the minor unit. */
static PyObject *price(PyObject *Py_UNUSED(module), PyObject *args)
{
    price_call call = {0};
    HRESULT hr;

    if (!PyArg_ParseTuple(args, "OO:price", &call.order, &call.lines))
        return NULL;
    hr = call_lua(price_in_lua, &call);
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    return PyLong_FromLongLong(call.minor);
}

typedef struct rank_call {
    const char *sku;
    long long quantity;
    double rank;
} rank_call;

static int rank_in_lua(lua_State *L)
{
    rank_call *call = lua_touserdata(L, 1);

    push_rule(L, "rank");
    lua_pushstring(L, call->sku);
    lua_pushinteger(L, call->quantity);
    lua_call(L, 2, 1);
    call->rank = luaL_checknumber(L, -1);
    return 0;
}

/* host.rank(line): a key for sorted(). */
static PyObject *rank(PyObject *Py_UNUSED(module), PyObject *line)
{
    rank_call call = {0};
    PyObject *cents, *category;
    HRESULT hr;

    if (!PyArg_ParseTuple(line, "sLOO:rank", &call.sku, &call.quantity, &cents, &category))
        return NULL;
    hr = call_lua(rank_in_lua, &call);
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    return PyFloat_FromDouble(call.rank);
}

PyObject *open_python_host(void)
{
    static PyMethodDef methods[] = {
        {"price", price, METH_VARARGS, "The price of an order in its minor unit."},
        {"rank", rank, METH_O, "The place of a line in the picking list."},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                     .m_name = "host",
                                     .m_doc = "C functions of the host.",
                                     .m_size = -1,
                                     .m_methods = methods};

    return PyModule_Create(&definition);
}
