/* Uses the C++ run-time, which nobody sees who opened this library for himself. */
#include <cstdint>
#include <string>

namespace shape
{
__attribute__((visibility("default"), noinline)) std::uintptr_t area(const std::string &)
{
    auto address = reinterpret_cast<std::uintptr_t>(&area);

    return address + 1;
}
} // namespace shape

extern "C" __attribute__((visibility("default"))) std::uintptr_t cxx_address(void)
{
    return shape::area(std::string(100, 'x'));
}
