/*
 * What the modules std_function of pybind11 and nanobind have in common: C++ calls a function of
 * Python as a std::function, whose exception comes back through C++.
 */
#include "calls.h"

#include <functional>

[[gnu::noinline]] static int call_twice(const std::function<int(int)> &function, int number)
{
    int first = function(number);

    AFTER();
    return first + function(number);
}
