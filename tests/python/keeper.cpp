// The extension module "keeper": errors of Python in the hands of C++, also after Python's end.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stacksplice/stacksplice.hpp>

#include <cstdio>

namespace
{

int write_out(const char *text, std::size_t length, void *)
{
    return std::fwrite(text, 1, length, stdout) != length;
}

// Throws what is kept into a border of C++, when the process ends, and shows the error.
struct keeper {
    std::exception_ptr kept;

    ~keeper()
    {
        if (!kept)
            return;
        IRestrictedErrorInfo *error = nullptr;
        const HRESULT hr = stacksplice::guard([this] { std::rethrow_exception(kept); });

        std::printf("0x%08x\n", static_cast<unsigned>(hr));
        if (stacksplice_peek_error(&error) == S_OK && error) {
            (void)stacksplice_format(reinterpret_cast<IUnknown *>(error), STACKSPLICE_FORMAT_TEXT,
                                     nullptr, write_out, nullptr);
            error->Release();
        }
        kept = nullptr;
        RoClearError();
        std::puts("released");
    }
};

keeper last;

// keep(exc): EXC leaves Python, and C++ catches it.
PyObject *keep(PyObject *, PyObject *exc)
{
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exc)), exc);
    try {
        stacksplice::check(stacksplice_python_originate());
    } catch (...) {
        last.kept = std::current_exception();
    }
    Py_RETURN_NONE;
}

// raise_kept(): it goes on to Python after all, and is kept on.
PyObject *raise_kept(PyObject *, PyObject *)
{
    return stacksplice_python_raise(stacksplice::guard([] { std::rethrow_exception(last.kept); }));
}

PyMethodDef methods[] = {
    {"keep", keep, METH_O, nullptr},
    {"raise_kept", raise_kept, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "keeper", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_keeper()
{
    if (stacksplice_python_import() < 0)
        return PyErr_Format(PyExc_ImportError, "stacksplice is missing");
    return PyModule_Create(&definition);
}
