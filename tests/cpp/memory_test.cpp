// stacksplice.hpp when memory runs out: each allocation of C++ fails once, by itself and with all
// that follow.  An exception still becomes an error, and nothing is leaked or ended.
#include "shared.hpp"

#include <cstdlib>
#include <new>

namespace
{

bool counting, for_ever;
int left;

bool fails()
{
    if (!counting)
        return false;
    if (left > 0 && --left > 0)
        return false;
    counting = for_ever;
    return true;
}

} // namespace

void *operator new(std::size_t size)
{
    void *memory = fails() ? nullptr : std::malloc(size ? size : 1);

    if (!memory)
        throw std::bad_alloc();
    return memory;
}

void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    return fails() ? nullptr : std::malloc(size ? size : 1);
}

void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
    return operator new(size, std::nothrow);
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

void operator delete[](void *memory) noexcept
{
    std::free(memory);
}

void operator delete[](void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace
{

struct nested_cause : std::runtime_error {
    nested_cause() : std::runtime_error("the inner one")
    {
    }
};

// The exceptions are made before memory fails.
std::exception_ptr make(int kind)
{
    try {
        switch (kind) {
        case 0:
            throw std::out_of_range("a message that is too long for the string itself");
        case 1:
            throw ss::error(E_BOUNDS, "a message that is too long for the string itself");
        case 2:
            throw std::bad_alloc();
        default:
            try {
                throw nested_cause();
            } catch (...) {
                std::throw_with_nested(std::out_of_range("the outer one"));
            }
        }
    } catch (...) {
        return std::current_exception();
    }
}

constexpr int kinds = 4;

HRESULT expected(int kind)
{
    return kind == 2 ? E_OUTOFMEMORY : E_BOUNDS;
}

// How many allocations it takes when none fails; -1: count on.
HRESULT guard_with(std::exception_ptr exception, int failing, bool all)
{
    left = failing;
    for_ever = all;
    counting = true;
    const HRESULT hr = ss::guard([&] { std::rethrow_exception(exception); });
    counting = false;
    return hr;
}

TEST(every_allocation_may_fail)
{
    for (int kind = 0; kind < kinds; kind++)
        for (const bool all : {false, true}) {
            bool failed = true;

            for (int i = 1; failed && i < 200; i++) {
                const HRESULT hr = guard_with(make(kind), i, all);

                failed = left == 0;
                assert_true(hr == expected(kind) || hr == E_OUTOFMEMORY);
                HRESULT stored = S_OK;
                const auto info = take();
                assert_true(static_cast<bool>(info));
                assert_int_equal(stacksplice_error_hresult(info.get(), &stored), S_OK);
                assert_int_equal(stored, hr);
            }
            assert_false(failed);
        }
}

} // namespace
