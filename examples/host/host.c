/*
 * An example host: one C program that embeds CPython and Lua and prices the orders of a shop.
 *
 * A good order takes this path: main (C) -> orders.process (Python) -> host.price (C) ->
 * pricing.price (Lua) -> host.convert (C) -> rates.convert (Python), and back.  A bad one fails
 * somewhere on the path, in any of the three languages.  The host prints one report with the frames
 * of all of them, in the order in which they called each other.
 *
 * bridge.c has the borders between the languages, money.c the C code that can fail, and report.c
 * the final handling of an error. scripts/ and data/ are what the host runs.
 */
#include "host.h"

#include <errno.h>
#include <getopt.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALL_PRICED = 0, SOME_FAILED = 1, COULD_NOT_RUN = 2 };

typedef struct run {
    const char *orders, *scripts, *json;
    lua_State *L;
    PyObject *script; /* the module orders */
    PyObject *rates, *catalogue;
    report report;
    unsigned priced;
    struct {
        char currency[8];
        double total;
    } totals[32];
} run;

/* ---- Starting --------------------------------------------------------------------------------*/

static int usage(FILE *out, int status)
{
    fputs("usage: stacksplice-host [--orders FILE] [--scripts DIR] [--json FILE] [--whole N]\n"
          "Prices the orders of a CSV file with Python and Lua and reports those that fail.\n"
          "  --orders FILE  the orders (default: the shipped ones)\n"
          "  --scripts DIR  the Python and Lua scripts (default: the shipped ones)\n"
          "  --json FILE    JSON array of all reports (default: order-errors.json)\n"
          "  --whole N      print N reports whole and one line for each other (default: all)\n"
          "Exit status: 0 if all orders were priced, 1 if some failed, 2 if it could not run.\n",
          out);
    return status;
}

/* The count that TEXT is, into *VALUE; false, after a word, if it is none. */
static bool read_count(const char *text, unsigned *value)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || number > UINT_MAX) {
        fprintf(stderr, "stacksplice-host: --whole needs a number, not %s\n", text);
        return false;
    }
    *value = (unsigned)number;
    return true;
}

/* Print why the host cannot run: the pending Python exception, or the thread's error. */
static bool cannot_run(const char *doing, HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;

    fprintf(stderr, "stacksplice-host: cannot %s (0x%08X)\n", doing, (unsigned)hr);
    if (PyErr_Occurred()) {
        PyErr_Print();
    } else if (GetRestrictedErrorInfo(&error) == S_OK) {
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, write_file, stderr);
        error->lpVtbl->Release(error);
    }
    return false;
}

static bool add_to_path(const char *folder, Py_ssize_t place)
{
    PyObject *path = PySys_GetObject("path"), *text = PyUnicode_DecodeFSDefault(folder);
    bool added = path && text && PyList_Insert(path, place, text) == 0;

    Py_XDECREF(text);
    return added;
}

/* Start the interpreter whose packages this host was built for. */
static bool start_python(run *r)
{
    PyConfig config;
    PyStatus status;
    HRESULT hr;

    PyImport_AppendInittab("host", open_python_host);
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    /* Python finds its library, and a virtual environment, from the path of its program. */
    status = PyConfig_SetBytesString(&config, &config.program_name, HOST_PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "stacksplice-host: cannot start Python: %s\n",
                status.err_msg ? status.err_msg : "unknown");
        return false;
    }
    /* The package of the interpreter itself, or of PYTHONPATH, has precedence over that of the
       build. */
    if (!add_to_path(r->scripts, 0) || !add_to_path(HOST_PACKAGE_DIR, PY_SSIZE_T_MAX))
        return cannot_run("set Python's path", E_FAIL);
    hr = stacksplice_python_import();
    if (FAILED(hr)) {
        cannot_run("import the Python package stacksplice", hr);
        fprintf(stderr, "Install it with: " HOST_PYTHON " -m pip install SOURCE_FOLDER\n"
                        "or name the folder that holds it in PYTHONPATH.\n");
        return false;
    }
    return true;
}

static bool load_python_scripts(run *r)
{
    r->rates = PyImport_ImportModule("rates");
    r->catalogue = r->rates ? PyImport_ImportModule("catalogue") : NULL;
    r->script = r->catalogue ? PyImport_ImportModule("orders") : NULL;
    return r->script || cannot_run("import the Python scripts; check --scripts", E_FAIL);
}

/* Runs under stacksplice_lua_pcall, because opening libraries allocates. */
static int open_lua(lua_State *L)
{
    const char *scripts = lua_touserdata(L, 1);

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    luaL_requiref(L, "host", open_lua_host, 0);
    luaL_requiref(L, "warehouse", luaopen_warehouse, 0);
    lua_getglobal(L, "package");
    lua_pushfstring(L, "%s/?.lua", scripts);
    lua_setfield(L, -2, "path");
    lua_getglobal(L, "require");
    lua_pushstring(L, "pricing");
    lua_call(L, 1, 0);
    return 0;
}

static bool start_lua(run *r)
{
    HRESULT hr;

    r->L = luaL_newstate();
    if (!r->L)
        return cannot_run("create a Lua state", E_OUTOFMEMORY);
    lua_pushcfunction(r->L, open_lua);
    lua_pushlightuserdata(r->L, (void *)r->scripts);
    hr = stacksplice_lua_pcall(r->L, 1, 0);
    return SUCCEEDED(hr) || cannot_run("load the Lua rules", hr);
}

/* ---- The job ---------------------------------------------------------------------------------*/

static void add_total(run *r, const char *currency, long long minor)
{
    double amount = (double)minor;
    size_t i = 0;

    for (int digits = money_digits(currency); digits > 0; digits--)
        amount /= 10;
    while (r->totals[i].currency[0] && strcmp(r->totals[i].currency, currency) != 0)
        i++; /* money.c knows fewer currencies than there is room for */
    snprintf(r->totals[i].currency, sizeof r->totals[i].currency, "%s", currency);
    r->totals[i].total += amount;
    r->priced++;
}

/* The text of an attribute of ORDER, borrowed from it. */
static const char *field(PyObject *order, const char *name)
{
    PyObject *value = PyObject_GetAttrString(order, name);
    const char *text = value ? PyUnicode_AsUTF8(value) : NULL;

    Py_XDECREF(value); /* the order still holds it */
    PyErr_Clear();
    return text ? text : "?";
}

/* Price ORDER or report why that failed.  False: the user pressed Ctrl-C. */
static bool price_one(run *r, PyObject *order)
{
    PyObject *result = PyObject_CallMethod(r->script, "process", "(O)", order);
    long long minor = result ? PyLong_AsLongLong(result) : -1;
    HRESULT hr;

    Py_XDECREF(result);
    if (!PyErr_Occurred()) {
        add_total(r, field(order, "currency"), minor);
        return true;
    }
    hr = stacksplice_python_originate(); /* the error leaves Python, and C handles it here */
    if (hr == HRESULT_FROM_WIN32(ERROR_CANCELLED)) {
        RoClearError();
        fputs("stacksplice-host: interrupted\n", stderr);
        return false;
    }
    report_error(&r->report, hr, field(order, "order"), field(order, "customer"));
    return true;
}

static bool price_all(run *r)
{
    PyObject *orders = PyObject_CallMethod(r->script, "read", "s", r->orders);
    PyObject *order;
    bool progress = isatty(STDERR_FILENO), going_on = true;

    while (orders && going_on && (order = PyIter_Next(orders))) {
        going_on = price_one(r, order);
        Py_DECREF(order);
        if (progress)
            fprintf(stderr, "\r%u orders priced, %u failed", r->priced, r->report.failed);
    }
    Py_XDECREF(orders);
    if (progress)
        fputc('\n', stderr);
    if (PyErr_Occurred())
        return cannot_run("read the orders; check --orders", E_FAIL);
    return going_on;
}

static int summary(run *r)
{
    IRestrictedErrorInfo *left = NULL;

    printf("\n%u orders priced, %u failed\n", r->priced, r->report.failed);
    for (unsigned i = 0; i < r->report.kind_count; i++)
        printf("  %4u  HRESULT 0x%08X\n", r->report.kinds[i].count,
               (unsigned)r->report.kinds[i].hr);
    for (size_t i = 0; r->totals[i].currency[0]; i++)
        printf("  %s %.*f\n", r->totals[i].currency, money_digits(r->totals[i].currency),
               r->totals[i].total);
    /* Every error was handled: no border may leave one in the slot. */
    if (stacksplice_peek_error(&left) == S_OK) {
        fputs("stacksplice-host: an error was left in the thread's slot\n", stderr);
        left->lpVtbl->Release(left);
        return COULD_NOT_RUN;
    }
    return r->report.failed ? SOME_FAILED : ALL_PRICED;
}

static int run_host(run *r)
{
    int status = COULD_NOT_RUN;

    if (!start_python(r) || !start_lua(r))
        return status;
    if (load_python_scripts(r)) {
        set_bridge(r->L, r->rates, r->catalogue);
        if (!report_open(&r->report, r->json)) {
            fprintf(stderr, "stacksplice-host: cannot write %s: %s; name another with --json\n",
                    r->json, strerror(errno));
            return status;
        }
        if (price_all(r))
            status = summary(r);
        if (!report_close(&r->report)) {
            fprintf(stderr, "stacksplice-host: cannot write %s\n", r->json);
            status = COULD_NOT_RUN;
        } else if (status == SOME_FAILED) {
            printf("The reports as data: %s\n", r->json);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"orders", required_argument, NULL, 'o'}, {"scripts", required_argument, NULL, 's'},
        {"json", required_argument, NULL, 'j'},   {"whole", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    run r = {.scripts = HOST_SOURCE_DIR "/scripts",
             .orders = HOST_SOURCE_DIR "/data/orders.csv",
             .json = "order-errors.json",
             .report = {.whole = UINT_MAX}};
    const char *no_color = getenv("NO_COLOR");
    int option, status;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'o')
            r.orders = optarg;
        else if (option == 's')
            r.scripts = optarg;
        else if (option == 'j')
            r.json = optarg;
        else if (option == 'w' && read_count(optarg, &r.report.whole))
            continue;
        else
            return option == 'h' ? usage(stdout, ALL_PRICED) : usage(stderr, COULD_NOT_RUN);
    }
    if (optind < argc) {
        fprintf(stderr, "stacksplice-host: unexpected argument %s; use --orders\n", argv[optind]);
        return usage(stderr, COULD_NOT_RUN);
    }
    r.report.terminal = isatty(STDOUT_FILENO);
    r.report.color = r.report.terminal && !(no_color && *no_color);
    status = run_host(&r);
    /* Close Lua first: its objects hold Python references. */
    if (r.L)
        lua_close(r.L);
    Py_XDECREF(r.script);
    Py_XDECREF(r.catalogue);
    Py_XDECREF(r.rates);
    if (Py_IsInitialized() && Py_FinalizeEx() < 0)
        status = COULD_NOT_RUN;
    return status;
}
