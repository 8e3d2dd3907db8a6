// An extension that uses what docs/how-to/games-and-c-hosts.md shows for pybind11.  test_cpp.py makes
// one for nanobind of it.
#include "pybind_border.hpp"

#include <stdexcept>

namespace py = pybind11;

// Python calls this, which calls Python: out as an HRESULT, in as pybind11 has it.
static void pass(const py::function &function)
{
    python_check(python_guard([&] { function(); }));
}

static void fail(bool ours)
{
    python_check(python_guard([&] {
        if (ours)
            throw stacksplice::error(E_BOUNDS, "shelf 17");
        throw std::runtime_error("plain");
    }));
}

static int traced(int kind)
{
    return python_traced([&]() -> int {
        if (kind == 0)
            throw std::out_of_range("shelf 17");
        if (kind == 1)
            throw std::runtime_error("plain");
        if (kind == 2)
            throw py::value_error("of the bridge");
        return kind;
    });
}

PYBIND11_MODULE(guided, m)
{
    if (FAILED(stacksplice_python_import()))
        throw py::import_error("stacksplice");
    m.def("pass_it", pass);
    m.def("fail", fail);
    m.def("traced", traced);
}
