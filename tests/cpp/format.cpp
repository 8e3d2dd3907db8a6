// A trace and its frames by std::format and fmt, where they are.  check_binaries.py builds and runs it.
// libc++ 14 hides what it has of std::format, all but this destructor.
#if __has_include(<__config_site>)
#include <__config_site>
#endif
#if defined(_LIBCPP_HAS_NO_INCOMPLETE_FORMAT) && __cplusplus >= 202002L
#undef _LIBCPP_HAS_NO_INCOMPLETE_FORMAT
#include <format>
std::format_error::~format_error() noexcept = default;
#endif
#include <stacksplice/stacksplice.hpp>

#if __cplusplus >= 202002L && __has_include(<format>)
#include <stacksplice/format.hpp>
#endif
#if __has_include(<fmt/core.h>)
#define FMT_HEADER_ONLY
#include <stacksplice/fmt.hpp>
#endif

#include <cstdio>
#include <sstream>

namespace ss = stacksplice;

namespace
{

int failed;

// TEXT is what SUBJECT writes to a stream.
template <typename Subject>
void expect_same(const char *library, const std::string &text, const Subject &subject)
{
    std::ostringstream stream;

    stream << subject;
    if (text.empty() || text != stream.str() + "|") {
        failed++;
        std::printf("%s: %s\nnot %s\n", library, text.c_str(), stream.str().c_str());
    }
}

template <typename Subject> void expect_formats(const Subject &subject)
{
#if defined(STACKSPLICE_FORMAT_HPP)
    expect_same("std::format", std::format("{}|", subject), subject);
#endif
#if defined(STACKSPLICE_FMT_HPP)
    expect_same("fmt", fmt::format("{}|", subject), subject);
#endif
    expect_same("stream", std::string((std::ostringstream() << subject << "|").str()), subject);
}

} // namespace

int main()
{
    try {
        ss::traced([] { throw std::out_of_range("no such shelf"); });
    } catch (...) {
        const ss::trace trace = ss::trace::current();

        expect_formats(trace);
        failed += trace.text().find("no such shelf") == std::string::npos;
        failed += trace.begin()->text.find("(C) ") != 0;
        for (const ss::frame &frame : trace)
            expect_formats(frame);
        return failed != 0;
    }
    return 2;
}
