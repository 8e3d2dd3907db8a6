/* The module bench_bridge, as an extension and inside the embedding program. */
#ifndef STACKSPLICE_BENCH_BRIDGE_H
#define STACKSPLICE_BENCH_BRIDGE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyMODINIT_FUNC PyInit_bench_bridge(void);

#endif
