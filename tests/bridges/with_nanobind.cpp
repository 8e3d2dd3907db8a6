#include "std_function.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>

NB_MODULE(with_nanobind, m)
{
    m.def("call_twice", call_twice);
}
