// std::format("{}", ...) of a trace and of its frames, where the C++ library has it (C++20).
#ifndef STACKSPLICE_FORMAT_HPP
#define STACKSPLICE_FORMAT_HPP

#include <stacksplice/stacksplice.hpp>

#include <format>

template <> struct std::formatter<stacksplice::frame, char> : stacksplice::detail::text_formatter {
};

template <> struct std::formatter<stacksplice::trace, char> : stacksplice::detail::text_formatter {
};

#endif
