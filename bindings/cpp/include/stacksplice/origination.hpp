// Private to stacksplice.hpp: from the exception that is being handled to an error in the slot.
#ifndef STACKSPLICE_ORIGINATION_HPP
#define STACKSPLICE_ORIGINATION_HPP

#include <stacksplice/error.hpp>
#include <stacksplice/throw_site.hpp>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <typeinfo>
#include <variant>

namespace stacksplice::detail
{

inline constexpr unsigned max_causes = 32; // of a chain of nested exceptions

// Where the exception that is being handled was thrown, if known: the call that it left, or NULL;
// the frame outside of which the stack is whole; and of how many errors it is the cause.
struct origin {
    const throw_site *site;
    const void *above;
    unsigned depth;
};

// ---- Facts of an exception --------------------------------------------------------------------

inline std::string readable(const char *type)
{
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> name(
        abi::__cxa_demangle(type, nullptr, nullptr, &status), std::free);

    return name ? name.get() : type;
}

inline description foreign_description()
{
    description what;

    what.type = "foreign exception";
    what.message = "a foreign exception was thrown";
    return what;
}

com_ptr<IRestrictedErrorInfo> info_of(const std::exception_ptr &exception, const origin &from);

// The error object of the exception nested in the one that is being handled, if any.
inline com_ptr<IRestrictedErrorInfo> cause_of_current(const origin &from)
{
    std::exception_ptr nested;

    if (from.depth < max_causes)
        try {
            throw;
        } catch (const std::nested_exception &e) {
            nested = e.nested_ptr();
        } catch (...) { // nothing is nested in it
        }
    return nested ? info_of(nested, {nullptr, from.above, from.depth + 1})
                  : com_ptr<IRestrictedErrorInfo>();
}

// HRESULT and message of the exception that is being handled, by catch clauses: they need no RTTI.
inline void describe_standard(description &what)
{
    const auto say = [&what](HRESULT hr, const std::exception &e) {
        what.hresult = hr;
        what.message = e.what();
    };

    try {
        throw;
    } catch (const error &e) {
        say(e.hresult(), e);
    } catch (const std::bad_alloc &e) {
        say(E_OUTOFMEMORY, e);
    } catch (const std::system_error &e) {
        say(e.code() ? to_hresult(e.code()) : E_FAIL, e);
    } catch (const std::out_of_range &e) {
        say(E_BOUNDS, e);
    } catch (const std::invalid_argument &e) {
        say(E_INVALIDARG, e);
    } catch (const std::domain_error &e) {
        say(E_INVALIDARG, e);
    } catch (const std::length_error &e) {
        say(E_INVALIDARG, e);
    } catch (const std::bad_variant_access &e) {
        say(E_INVALIDARG, e);
    } catch (const std::bad_optional_access &e) {
        say(E_INVALIDARG, e);
    } catch (const std::overflow_error &e) {
        say(static_cast<HRESULT>(0x80070216), e); // ERROR_ARITHMETIC_OVERFLOW
    } catch (const std::bad_cast &e) {
        say(E_NOINTERFACE, e);
    } catch (const std::bad_function_call &e) {
        say(E_POINTER, e);
    } catch (const std::exception &e) {
        say(E_FAIL, e);
    } catch (const char *text) {
        what.message = text ? text : "";
    } catch (const std::string &text) {
        what.message = text;
    } catch (...) { // only its type is known
    }
}

inline description describe(const origin &from)
{
    description what;

    what.type = readable(abi::__cxa_current_exception_type()->name());
    what.message = "a " + what.type + " was thrown";
    describe_standard(what);
    what.cause = cause_of_current(from);
    return what;
}

// ---- New error objects ------------------------------------------------------------------------

// The stack of the throw, if guard() has it; else a gap for the lost frames and the stack outward
// of the border.
inline std::vector<std::uintptr_t> stack_of(const origin &from)
{
    if (from.site && from.site->frames && from.site->count)
        return {from.site->frames, from.site->frames + from.site->count};
    return stack_above(from.above, unwound_gap());
}

// Put a new error into the slot, unless origination is switched off.
inline HRESULT originate_new(const std::exception_ptr &exception, const description &what,
                             const std::vector<std::uintptr_t> &frames)
{
    HRESULT hr = what.hresult;
    ties fresh;

    fresh.make(exception, what, frames);
    const HRESULT result = stacksplice_leave(fresh.get(), &hr);
    return FAILED(result) ? result : hr;
}

// ---- stacksplice::error -----------------------------------------------------------------------

// Accesses the private parts of an error, and makes the error object of one that C++ threw.
struct error_maker {
    // The existing error object, or empty.
    static com_ptr<IRestrictedErrorInfo> known(const error &e)
    {
        error_state &state = *e.state_;
        void *out = nullptr;

        if (state.arrived)
            return state.arrived;
        const std::lock_guard<std::mutex> guard(state.lock);
        IScriptErrorInfo *const own = state.own.error();
        if (!own || FAILED(own->lpVtbl->QueryInterface(own, IID_IRestrictedErrorInfo, &out)))
            return {};
        return com_ptr<IRestrictedErrorInfo>::attach(static_cast<IRestrictedErrorInfo *>(out));
    }

    // Make it, unless another thread just did.  The slot is unchanged.
    static com_ptr<IRestrictedErrorInfo> make(const error &e, const std::exception_ptr &exception,
                                              const description &what)
    {
        error_state &state = *e.state_;
        IScriptErrorInfo *made = nullptr;
        ties fresh;

        fresh.make(exception, what, state.settled());
        if (stacksplice_make_error(fresh.get(), &made) != S_OK)
            return {};
        {
            const std::lock_guard<std::mutex> guard(state.lock);

            if (!state.own.error())
                state.own.swap(fresh);
        }
        auto kept = known(e);
        made->lpVtbl->Release(made);
        return kept;
    }

    // C++ threw E, whose error object INFO leaves: INFO keeps EXCEPTION from now on.
    static void keep(const error &e, const com_ptr<IRestrictedErrorInfo> &info,
                     const std::exception_ptr &exception)
    {
        const com_ptr<IUnknown> language = language_exception_of(info);
        stacksplice_exception *const own = cpp_exception_from(language.get());

        if (own && !e.state_->arrived)
            keep_exception(own, exception);
    }
};

// Put the error of E, which is being handled, into the slot: the one it arrived with, or a new one.
inline bool put_error(const error &e, const origin &from)
{
    com_ptr<IRestrictedErrorInfo> info = error_maker::known(e);

    if (!info)
        info = error_maker::make(e, std::current_exception(), describe(from));
    if (!info)
        return false;
    error_maker::keep(e, info, std::current_exception());
    return SUCCEEDED(SetRestrictedErrorInfo(info.get()));
}

// ---- Exceptions that came back ----------------------------------------------------------------

// The last errors in throw_error whose exceptions are C++'s own but no stacksplice::error.  When
// such an exception object leaves C++ again, on any thread, it takes the same error object along.
// Each keeps its exception object until others displace it.
class returned_errors
{
  public:
    // Never destroyed: exceptions may arrive while the process ends.  NULL without memory.
    static returned_errors *instance() noexcept
    {
        static returned_errors *const table = new (std::nothrow) returned_errors;

        return table;
    }

    void put(com_ptr<IRestrictedErrorInfo> info)
    {
        const std::lock_guard<std::mutex> guard(lock_);

        errors_[next_].swap(info);
        next_ = (next_ + 1) % errors_.size();
    } // releases the former one after the lock, since it may be the last of its exception

    com_ptr<IRestrictedErrorInfo> take(const std::exception_ptr &exception)
    {
        const std::lock_guard<std::mutex> guard(lock_);

        for (auto &info : errors_) {
            const com_ptr<IUnknown> language = language_exception_of(info);

            if (exception_of(cpp_exception_from(language.get())) == exception)
                return std::exchange(info, nullptr);
        }
        return {};
    }

  private:
    std::mutex lock_;
    std::array<com_ptr<IRestrictedErrorInfo>, 16> errors_; // (lock_)
    std::size_t next_ = 0;                                 // (lock_)
};

inline bool restore_returned(HRESULT *hr)
{
    returned_errors *const table = returned_errors::instance();
    com_ptr<IRestrictedErrorInfo> info;

    if (table)
        info = table->take(std::current_exception());
    return info && SUCCEEDED(stacksplice_error_hresult(info.get(), hr)) &&
           SUCCEEDED(SetRestrictedErrorInfo(info.get()));
}

// Throw C++'s own exception, back with the error INFO.  A stacksplice::error keeps its own.
[[noreturn]] inline void throw_again(const std::exception_ptr &exception,
                                     com_ptr<IRestrictedErrorInfo> info)
{
    try {
        std::rethrow_exception(exception);
    } catch (const error &) {
        throw;
    } catch (...) {
        if (returned_errors *const table = returned_errors::instance())
            table->put(std::move(info));
        throw;
    }
}

// ---- The way out ------------------------------------------------------------------------------

// Put the exception that is being handled into the slot.
inline HRESULT originate_from(const origin &from) noexcept
{
    HRESULT hr = E_FAIL;

    try {
        if (!std::current_exception()) // not a C++ exception: nothing is known of it
            return originate_new(nullptr, foreign_description(), stack_of(from));
        try {
            throw;
        } catch (const error &e) {
            if (put_error(e, from))
                return e.hresult();
        } catch (...) {
            if (restore_returned(&hr))
                return hr;
        }
        return originate_new(std::current_exception(), describe(from), stack_of(from));
    } catch (...) { // memory ran out while making the error: report that instead
        (void)RoOriginateErrorW(E_OUTOFMEMORY, 0, nullptr);
        return E_OUTOFMEMORY;
    }
}

// The error object of an exception that is the cause of another; the slot is unchanged.
inline com_ptr<IRestrictedErrorInfo> info_of(const std::exception_ptr &exception,
                                             const origin &from)
{
    const saved_error saved;
    com_ptr<IRestrictedErrorInfo> info;

    try {
        std::rethrow_exception(exception);
    } catch (...) {
        (void)originate_from(from);
    }
    (void)GetRestrictedErrorInfo(info.put());
    return info;
}

} // namespace stacksplice::detail

namespace stacksplice
{

inline com_ptr<IRestrictedErrorInfo> error::info() const noexcept
{
    try {
        auto info = detail::error_maker::known(*this);

        if (info)
            return info;
        detail::description about;
        about.hresult = hresult_;
        about.message = what();
#if defined(__cpp_rtti)
        about.type = detail::readable(typeid(*this).name());
        if (const auto *nested = dynamic_cast<const std::nested_exception *>(this))
            if (nested->nested_ptr())
                about.cause =
                    detail::info_of(nested->nested_ptr(), {nullptr, __builtin_frame_address(0), 1});
#else
        about.type = "stacksplice::error";
#endif
        return detail::error_maker::make(*this, nullptr, std::move(about));
    } catch (...) { // without memory
        return {};
    }
}

} // namespace stacksplice
#endif
