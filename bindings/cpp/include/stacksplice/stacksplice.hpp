// stacksplice for C++17: a border in one line, in both directions.
//
//   HRESULT host_price(const order *o)            // called by Lua, Python, C, ...
//   {
//       return stacksplice::guard([&] { price(*o); });
//   }
//   void price(const order &o)
//   {
//       if (o.empty())
//           throw stacksplice::error(E_BOUNDS, "the order is empty");
//       stacksplice::check(run_script(o));        // throws what the script threw
//   }
//
// Out (guard): every C++ exception becomes the thread's error and an HRESULT, with the stack of the
// throw.  In (check): the thread's error becomes a C++ exception.  What C++ threw comes back as the
// same exception object; what another language threw is a stacksplice::error, which puts the same
// error object back when it leaves C++ again.  docs/how-to/games-and-c-hosts.md explains the use.
//
// Header only; needs exceptions, not RTTI.  All functions may be called on any thread and act on
// the calling thread's error.  None may be called from a signal handler.  Link stacksplice::cpp, or
// the core library alone.
#ifndef STACKSPLICE_STACKSPLICE_HPP
#define STACKSPLICE_STACKSPLICE_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "stacksplice.hpp needs C++17 (-std=c++17); for C and older C++ there is stacksplice.h"
#elif !defined(__cpp_exceptions)
#error "stacksplice.hpp needs C++ exceptions; with -fno-exceptions use stacksplice.h"
#endif

#include <stacksplice/com_ptr.hpp>
#include <stacksplice/error.hpp>
#include <stacksplice/origination.hpp>
#include <stacksplice/trace.hpp>

#include <type_traits>

namespace stacksplice
{
inline namespace v1
{

// In a handler: make the exception that is being handled the calling thread's error.  Returns its
// HRESULT: that of a stacksplice::error; by type for the standard exceptions (bad_alloc
// E_OUTOFMEMORY, out_of_range E_BOUNDS, invalid_argument E_INVALIDARG, system_error by its code,
// ...); else E_FAIL.  A std::nested_exception becomes the cause.  A stacksplice::error has the
// stack of its construction.  Any other exception has the gap STACKSPLICE_GAP_RETURNED, then the
// stack outward from here.
[[nodiscard, gnu::noinline]] inline HRESULT originate_current() noexcept
{
    return detail::originate_from({nullptr, __builtin_frame_address(0), 0});
}

// The same for an exception that was kept.  A NULL one is a success: the slot is unchanged.
[[nodiscard, gnu::noinline]] inline HRESULT originate(const std::exception_ptr &exception) noexcept
{
    if (!exception)
        return S_OK;
    try {
        std::rethrow_exception(exception);
    } catch (...) {
        return detail::originate_from({nullptr, __builtin_frame_address(0), 0});
    }
}

// What a guarded function returns that has an HRESULT.  An HRESULT alone is an int to the compiler, and
// so is a number of things.
struct hresult {
    explicit hresult(HRESULT hr) noexcept : code(hr)
    {
    }
    HRESULT code;
};

namespace detail
{

template <typename Function> HRESULT call_guarded(void *data)
{
    Function &function = *reinterpret_cast<Function *>(data);

    using result = std::invoke_result_t<Function &>;

    if constexpr (std::is_void_v<result>) {
        function();
        return S_OK;
    } else {
        static_assert(
            std::is_same_v<result, hresult>,
            "what guard() calls returns nothing or a stacksplice::hresult: for an HRESULT "
            "write return stacksplice::hresult(...), or check(...); give another result "
            "a place: guard(function, result)");
        return function().code;
    }
}

// In guard's handler, whose registers nothing else needs.
[[gnu::noinline]] inline HRESULT originate_guarded(const throw_site &site)
{
    const caught_site owner(site);

    if (!std::current_exception())
        throw;
    return originate_from({&site, __builtin_frame_address(0), 0});
}

} // namespace detail

// Call FUNCTION, which returns nothing or an hresult, and let no exception out of it.  Like
// originate_current, but every exception has the stack of its throw.  If it was caught and thrown
// again on the way, it has a gap, then the stack of the last throw.  Only what is no C++ exception
// passes: the end of the thread (pthread_exit, a cancellation), an error of LuaJIT.
template <typename Function> [[nodiscard]] HRESULT guard(Function &&function)
{
    using type = std::remove_reference_t<Function>;
    detail::throw_site site;

    try {
        // A cast in the style of C, as FUNCTION may be constant, or no object.
        return stacksplice_cpp_call(&site, detail::call_guarded<type>,
                                    (void *)__builtin_addressof(function));
    } catch (...) {
        return detail::originate_guarded(site);
    }
}

// The same for a function with a result, which is moved to RESULT.  On failure RESULT is unchanged.
template <typename Function, typename Result>
[[nodiscard]] HRESULT guard(Function &&function, Result &result)
{
    static_assert(!std::is_void_v<std::invoke_result_t<Function &>>,
                  "this function has no result: guard(function)");
    return guard([&] { result = function(); });
}

// Throw the calling thread's error, for the failure code HR, and leave the slot empty.  C++'s own
// exception comes back as the same object, any other as a stacksplice::error, with one more node in
// its propagation chain.  An error for another HRESULT is stale and replaced by a new one.  A
// success code is thrown as E_UNEXPECTED.
[[noreturn, gnu::noinline]] inline void throw_error(HRESULT hr)
{
    com_ptr<IRestrictedErrorInfo> info;

    if (SUCCEEDED(hr))
        hr = E_UNEXPECTED;
    (void)stacksplice_propagate_above(__builtin_frame_address(0), hr, "c++");
    (void)RoGetMatchingRestrictedErrorInfo(hr, info.put());
    if (const std::exception_ptr exception =
            detail::adopt(stacksplice_thrown_object(info.get(), &detail::cpp_library))) {
        info = nullptr; // the exception has it
        std::rethrow_exception(exception);
    }
    throw error(hr, detail::details_of(info, &hr), info);
}

// Throw if HR is a failure; else return HR.
inline HRESULT check(HRESULT hr)
{
    if (FAILED(hr))
        throw_error(hr);
    return hr;
}

} // namespace v1
} // namespace stacksplice
#endif
