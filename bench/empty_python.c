/* The least that an extension of Python can be: what loading alone costs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyMODINIT_FUNC PyInit_bench_empty(void);

PyMODINIT_FUNC PyInit_bench_empty(void)
{
    static PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "bench_empty", .m_size = -1};

    return PyModule_Create(&definition);
}
