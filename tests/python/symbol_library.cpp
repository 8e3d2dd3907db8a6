// A library whose frames test_symbolize.py looks up: inlined functions, and names of C++.
#include <cstdlib>

namespace shop
{

inline __attribute__((always_inline)) int twice(int (*call)(int), int value)
{
    return call(value) * 2;
}

template <class T> struct Basket {
    __attribute__((noinline)) T price(T (*call)(T), T value);
};

template <class T> T Basket<T>::price(T (*call)(T), T value)
{
    return twice(call, value) + 1;
}

template struct Basket<int>;

} // namespace shop

extern "C" int enter(int (*call)(int), int value)
{
    return shop::Basket<int>().price(call, value) + std::abs(value);
}
