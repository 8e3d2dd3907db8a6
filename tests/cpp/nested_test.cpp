// Functions whose debug information lies within another function: a lambda that is passed as a plain
// pointer, and a function of a local class.  Compiled with optimisation, and with split DWARF.
#include <stacksplice/stacksplice.hpp>

#include <stdexcept>
#include <string>

#include "support.h"

namespace ss = stacksplice;

namespace
{

volatile int one = 1;

[[gnu::noinline]] void thrower()
{
    if (one)
        throw std::out_of_range("own");
}

[[gnu::noinline]] HRESULT run(void (*callback)())
{
    return ss::guard([&] { callback(); });
}

[[gnu::always_inline]] inline void innermost()
{
    (void)RoOriginateError(E_FAIL, nullptr);
    asm volatile("" ::: "memory");
}

constexpr unsigned innermost_line = __LINE__ - 4;

[[gnu::noinline]] int host(int k)
{
    struct local {
        [[gnu::noinline]] static int step(int k)
        {
            innermost();
            return k + one;
        }
    };
    const int result = local::step(k);

    asm volatile("");
    return result + one;
}

constexpr unsigned step_line = __LINE__ - 10;

std::string taken_text()
{
    ss::com_ptr<IRestrictedErrorInfo> info;

    (void)GetRestrictedErrorInfo(info.put());
    return info ? ss::error(E_FAIL, "", info).text() : std::string();
}

bool has(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

std::string line_of(const std::string &text, const std::string &part)
{
    const std::size_t begin = text.find(part);

    return begin == std::string::npos ? std::string()
                                      : text.substr(begin, text.find('\n', begin) - begin);
}

std::string line(unsigned number)
{
    return "line " + std::to_string(number) + ", in ";
}

} // namespace

TEST(a_lambda_as_a_pointer_is_in_the_stack_and_received_the_error)
{
    const HRESULT hr = run([] { ss::check(ss::guard([] { thrower(); })); });
    const std::string text = taken_text();

    assert_int_equal(hr, E_BOUNDS);
    assert_true(has(text, line(__LINE__ - 4) + "operator()"));
    assert_true(has(text, line(__LINE__ - 5)));
    const std::string received = line_of(text, "C++ received it in ");
    // Alone, or as a part of the whole name: that is a matter of what is inlined.
    assert_true(has(received, "operator()"));
    assert_true(has(received, " (nested_test.cpp:" + std::to_string(__LINE__ - 9) + ")"));
}

TEST(a_function_of_a_local_class_has_its_own_line)
{
    assert_int_equal(host(1), 3);
    const std::string text = taken_text();

    assert_true(has(text, line(innermost_line) + "innermost (inlined)"));
#if defined(__clang__)
    assert_true(has(text, line(step_line)));
#else
    assert_true(has(text, line(step_line) + "(anonymous namespace)::host(int)::local::step(int)"));
#endif
}

// Its line may be that of what was inlined into it, so its name decides.
TEST(a_function_is_not_glue_by_the_line_of_what_was_inlined)
{
    stacksplice_frame frame{};

    frame.size = sizeof frame;
    frame.kind = STACKSPLICE_FRAME_NATIVE;
    frame.language = "native";
    frame.function = "node::step(int)";
    frame.file = "/usr/include/stacksplice/stacksplice.hpp";
    assert_int_equal(stacksplice_frame_role(&frame), STACKSPLICE_ROLE_OWN);
    frame.inlined = 1;
    assert_int_equal(stacksplice_frame_role(&frame), STACKSPLICE_ROLE_GLUE);
}
