// fmt::format("{}", ...) of a trace and of its frames, for the library fmt.
#ifndef STACKSPLICE_FMT_HPP
#define STACKSPLICE_FMT_HPP

#include <stacksplice/stacksplice.hpp>

#include <fmt/core.h>

template <> struct fmt::formatter<stacksplice::frame, char> : stacksplice::detail::text_formatter {
};

template <> struct fmt::formatter<stacksplice::trace, char> : stacksplice::detail::text_formatter {
};

#endif
