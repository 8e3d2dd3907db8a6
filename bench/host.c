/*
 * A program that embeds Python and Lua, and runs a Python script with the bridge built in:
 *
 *   bench-host SCRIPT [OPTION...]
 */
#include "bridge.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    PyConfig config;
    PyStatus status;

    if (argc < 2) {
        fprintf(stderr, "usage: bench-host SCRIPT [OPTION...]\n");
        return 2;
    }
    PyImport_AppendInittab("bench_bridge", PyInit_bench_bridge);
    PyConfig_InitPythonConfig(&config);
    /* Python finds its library from the path of its program. */
    status = PyConfig_SetBytesString(&config, &config.program_name, BENCH_PYTHON);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesArgv(&config, argc, argv);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    return Py_RunMain();
}
