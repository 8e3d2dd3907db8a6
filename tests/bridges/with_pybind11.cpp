#include "std_function.hpp"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>

PYBIND11_MODULE(with_pybind11, m)
{
    m.def("call_twice", call_twice);
}
