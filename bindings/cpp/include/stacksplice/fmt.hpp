// fmt::format("{}", ...) of a trace and of its frames, for the library fmt.
#ifndef STACKSPLICE_FMT_HPP
#define STACKSPLICE_FMT_HPP

#include <stacksplice/stacksplice.hpp>

#include <fmt/core.h>

namespace fmt
{

template <> struct formatter<stacksplice::frame, char> : stacksplice::detail::text_formatter {
};

template <> struct formatter<stacksplice::trace, char> : stacksplice::detail::text_formatter {
};

} // namespace fmt

#endif
