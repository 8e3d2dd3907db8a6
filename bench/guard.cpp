// What a border of C++ costs that no exception crosses: a call that no exception may leave.
#include <stacksplice/stacksplice.hpp>

extern "C" {
#include "bench.h"
}

namespace
{

// No compiler may know that it throws nothing.
[[gnu::noinline]] void work(int *price)
{
    if (*price < 0)
        throw *price;
    __asm__ volatile("" ::: "memory");
}

[[gnu::noinline]] HRESULT call_bare(int *price)
{
    try {
        work(price);
        return S_OK;
    } catch (...) {
        return E_FAIL;
    }
}

[[gnu::noinline]] HRESULT call_guarded(int *price)
{
    return stacksplice::guard([&] { work(price); });
}

template <HRESULT (*call)(int *)> void run(void *data)
{
    if (call(static_cast<int *>(data)) != S_OK)
        std::abort();
}

} // namespace

int main(int argc, char **argv)
{
    int price = 1;
    const bench_method methods[] = {
        {"bare", run<call_bare>, &price, nullptr, nullptr},
        {"stacksplice", run<call_guarded>, &price, nullptr, nullptr},
    };

    bench_options(&argc, argv);
    bench_row("border, no error, a guard of C++", methods, 2, 0);
    return 0;
}
