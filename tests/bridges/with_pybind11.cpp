#include "std_function.hpp"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

static pybind11::object pass_on(const pybind11::function &function)
{
    return function();
}

static void throw_below(const std::string &text)
{
    throw std::out_of_range(text);
}

PYBIND11_MODULE(with_pybind11, m)
{
    m.def("call_twice", call_twice);
    m.def("pass_on", pass_on);
    m.def("throw_below", throw_below);
}
