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

/* Inlined into each other, in a function that is a member of the namespace alone. */
static volatile int rest;

inline __attribute__((always_inline)) int half(int value)
{
    rest = value % 2;
    return value / 2;
}

template <class T> struct Share {
    static __attribute__((always_inline)) T of(T value)
    {
        return half(value) + rest;
    }
};

__attribute__((noinline)) int shared(int value)
{
    return Share<int>::of(value) + 1;
}

} // namespace shop

extern "C" int enter(int (*call)(int), int value)
{
    return shop::Basket<int>().price(call, value) + std::abs(value);
}
