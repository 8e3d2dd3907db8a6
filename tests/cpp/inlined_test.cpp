// More functions inlined into each other at one place than a resolved address is told of.
#include <stacksplice/stacksplice.hpp>

#include <string>

#include "support.h"

namespace ss = stacksplice;

namespace
{

template <int level> [[gnu::always_inline]] inline void inlined()
{
    if constexpr (level > 0)
        inlined<level - 1>();
    else
        (void)RoOriginateError(E_FAIL, nullptr);
    asm volatile("" ::: "memory");
}

template <int levels> [[gnu::noinline]] void calls_inlined()
{
    inlined<levels - 1>();
    asm volatile("" ::: "memory");
}

constexpr unsigned calls_line = __LINE__ - 4;

std::string taken_text()
{
    ss::com_ptr<IRestrictedErrorInfo> info;

    (void)GetRestrictedErrorInfo(info.put());
    return info ? ss::error(E_FAIL, "", info).text() : std::string();
}

unsigned count(const std::string &text, const std::string &part)
{
    unsigned found = 0;

    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at++)
        found++;
    return found;
}

} // namespace

TEST(a_gap_stands_for_too_many_inlined_functions)
{
    const std::string called_at = "line " + std::to_string(calls_line) + ", in ";

    calls_inlined<31>();
    const std::string all = taken_text();
    assert_int_equal(count(all, " (inlined)"), 31);
    assert_int_equal(count(all, "[gap"), 0);
    assert_int_equal(count(all, called_at), 1);

    calls_inlined<40>();
    const std::string more = taken_text();
    assert_int_equal(count(more, " (inlined)"), 30);
    assert_int_equal(count(more, "[gap: more inlined functions than are shown]"), 1);
    // The function in machine code is outside of the gap, at the line of its call.
    assert_int_equal(count(more, called_at), 1);
    assert_true(more.find("[gap") < more.find(called_at));
}
