// std::format("{}", ...) of a trace and of its frames, where the C++ library has it (C++20).
#ifndef STACKSPLICE_FORMAT_HPP
#define STACKSPLICE_FORMAT_HPP

#include <stacksplice/stacksplice.hpp>

#include <format>

namespace std
{

template <> struct formatter<stacksplice::frame, char> : stacksplice::detail::text_formatter {
};

template <> struct formatter<stacksplice::trace, char> : stacksplice::detail::text_formatter {
};

} // namespace std

#endif
