// C++: steps that let no exception out, through stacksplice.hpp.
#include "matrix.h"

#include <stacksplice/stacksplice.hpp>

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace ss = stacksplice;

namespace
{

std::atomic<int> alive;
const void *thrown; // where the exception that the origin threw is

// An exception that says which one it is, and whose end is seen.
struct own : std::out_of_range {
    own() : std::out_of_range("C++ said so")
    {
        thrown = this;
        ++alive;
    }
    own(const own &other) : std::out_of_range(other) // throw_with_nested throws a copy
    {
        thrown = this;
        ++alive;
    }
    ~own() override
    {
        --alive;
    }
};

[[noreturn]] void throw_kind()
{
    switch (matrix.kind) {
    case 'I':
        throw 17;
    case 'R':
        throw std::runtime_error("caf\xc3\xa9");
    case 'N':
        try {
            throw std::invalid_argument("the cause");
        } catch (...) {
            std::throw_with_nested(own());
        }
    case 'E':
        throw ss::error(E_ACCESSDENIED, "made by hand");
    default:
        throw own();
    }
}

} // namespace

extern "C" [[noreturn]] MATRIX_NODE void matrix_cpp_origin()
{
    matrix_enter();
    throw_kind();
}

namespace
{

// Its destructor runs while the exception travels, and fails inside.
struct failing_cleaner {
    ~failing_cleaner()
    {
        const ss::saved_error saved;

        (void)ss::guard([] { throw std::logic_error("clean-up"); });
    }
};

// Step I of the path fails; behind its end C++ itself does.
void call_here(int i)
{
    matrix_border(i - 1);
    if (i == matrix.length)
        matrix_cpp_origin();
    const HRESULT hr = matrix_step(i);
    matrix_passed(hr);
    (void)ss::check(hr);
}

extern "C" MATRIX_NODE void matrix_cpp_in_thread(int i, std::exception_ptr *failed)
{
    matrix_log_add('t', "", 0);
    matrix_enter();
    try {
        call_here(i);
    } catch (...) {
        *failed = std::current_exception();
    }
    matrix_check_slot();
}

// The exception comes along as C++ has it: by an exception_ptr.
void call_in_thread(int i)
{
    std::exception_ptr failed;
    void *unlocked = matrix_unlock();

    std::thread(matrix_cpp_in_thread, i, &failed).join();
    matrix_lock(unlocked);
    if (failed)
        std::rethrow_exception(failed);
}

void call(int i)
{
    if (matrix.modes[i - 1] == 't')
        call_in_thread(i);
    else
        call_here(i);
}

void call_in_style(int i)
{
    switch (matrix.styles[i - 1]) {
    case '1':
        try {
            call(i);
        } catch (...) {
            throw;
        }
        break;
    case '2': {
        const failing_cleaner cleaner;

        call(i);
        break;
    }
    case '3': {
        std::exception_ptr kept;

        try {
            call(i);
        } catch (...) {
            kept = std::current_exception();
        }
        std::rethrow_exception(kept);
    }
    default:
        call(i);
    }
}

// What C++ itself sees of the error.
HRESULT caught_here()
{
    HRESULT hr = E_UNEXPECTED;

    try {
        call_in_style(1);
    } catch (const ss::error &e) {
        hr = e.hresult();
        matrix_fact_text("what", e.what(), std::strlen(e.what()));
        matrix_fact_number("hresult", e.hresult());
        if (e.info())
            matrix_fact_number("frames", static_cast<long long>(e.stack().size()));
        matrix_check_slot();
        (void)ss::originate_current();
    } catch (const own &e) {
        hr = E_BOUNDS;
        matrix_fact_text("what", e.what(), std::strlen(e.what()));
        matrix_fact_number("same", &e == thrown);
        matrix_check_slot();
        (void)ss::originate_current();
    } catch (...) {
        matrix_check_slot();
        hr = ss::originate_current();
    }
    return hr;
}

} // namespace

// ---- The step -----------------------------------------------------------------------------------

extern "C" MATRIX_NODE HRESULT matrix_cpp_catch()
{
    matrix_enter();
    matrix_collect(caught_here());
    MATRIX_AFTER();
    return S_OK;
}

HRESULT matrix_cpp_step(int i)
{
    HRESULT hr;

    matrix_enter();
    hr = i == 0 ? matrix_cpp_catch() : ss::guard([&] { call_in_style(i + 1); });
    MATRIX_AFTER();
    return hr;
}

int matrix_is_thrown_by_cpp(HRESULT hr)
{
    try {
        (void)ss::check(hr);
    } catch (const own &e) {
        return &e == thrown;
    } catch (int number) {
        return number == 17;
    } catch (const ss::error &e) {
        return std::strcmp(e.what(), "made by hand") == 0;
    } catch (const std::runtime_error &e) {
        return std::strcmp(e.what(), "caf\xc3\xa9") == 0;
    }
    return 0;
}

int matrix_cpp_alive(void)
{
    return alive;
}
