// Private to stacksplice.hpp: from the exception that is being handled to an error in the slot.
#ifndef STACKSPLICE_ORIGINATION_HPP
#define STACKSPLICE_ORIGINATION_HPP

#include <stacksplice/error.hpp>
#include <stacksplice/throw_site.hpp>

#include <cstdlib>
#include <string_view>
#include <typeinfo>

// Their std::type_info, which also exists without RTTI: of a class with one base, and with none.
extern "C" const void *const stacksplice_type_of_runtime_error __asm__("_ZTISt13runtime_error");
extern "C" const void *const stacksplice_type_of_exception __asm__("_ZTISt9exception");

namespace stacksplice
{
inline namespace v1
{
namespace detail
{

inline constexpr unsigned max_causes = 32; // of a chain of nested exceptions

// Where the exception that is being handled was thrown, if known: the call that it left, or NULL;
// the frame outside of which the stack is whole; of how many errors it is the cause; and whether
// nobody catches it.
struct origin {
    const throw_site *site;
    const void *above;
    unsigned depth;
    bool terminates = false; // ABOVE is the frame of the terminate handler
};

// ---- Facts of an exception --------------------------------------------------------------------

inline std::string readable(const char *type)
{
    int status = 0;
    struct owned {
        ~owned()
        {
            std::free(text);
        }
        char *const text;
    } const name{abi::__cxa_demangle(type, nullptr, nullptr, &status)};

    std::string text = name.text ? name.text : type;
    // Not the version, which is at most one digit.
    for (std::size_t at = 0; (at = text.find("stacksplice::v", at)) != std::string::npos; at += 13)
        if (text.compare(at + 15, 2, "::") == 0)
            text.erase(at + 13, 4);
    return text;
}

inline description foreign_description()
{
    description what;

    what.type = "foreign exception";
    what.message = "a foreign exception was thrown";
    return what;
}

com_ptr<IRestrictedErrorInfo> info_of(const std::exception_ptr &exception, const origin &from);

// What the ABI says of a class in its std::type_info, by the table of virtual functions there.
inline bool is_of_kind(const std::type_info *type, const void *const &like) noexcept
{
    const void *table;

    std::memcpy(&table, static_cast<const void *>(type), sizeof table);
    return table == like;
}

// The error of this or another version that is being handled, or NULL.  Another binary's class can be
// another one to the handlers of libc++, which compares addresses; it has the same name then.  Throwing
// again takes as long as all the rest, and is only done where the bases do not tell.
inline const any_error *current_error() noexcept
{
    const std::type_info *type = abi::__cxa_current_exception_type();

    for (; type; std::memcpy(&type, reinterpret_cast<const char *>(type) + 2 * sizeof(void *),
                             sizeof type)) {
        if (std::strcmp(type->name(), "N11stacksplice9any_errorE") == 0)
            return static_cast<const any_error *>(object_of(std::current_exception()));
        if (is_of_kind(type, stacksplice_type_of_exception))
            return nullptr; // the last base
        if (!is_of_kind(type, stacksplice_type_of_runtime_error))
            break; // several bases, or no class
    }
    try {
        throw;
    } catch (const any_error &e) {
        return &e;
    } catch (...) {
        return nullptr;
    }
}

// What is nested in the exception that is being handled, if anything.
inline std::exception_ptr nested_in_current()
{
    try {
        throw;
    } catch (const std::nested_exception &e) {
        return e.nested_ptr();
    } catch (...) {
        return nullptr;
    }
}

// Classes whose headers are too large to include here.
inline HRESULT hresult_of_type(const char *name) noexcept
{
    if (std::strstr(name, "17bad_function_call"))
        return E_POINTER;
    return std::strstr(name, "18bad_variant_access") || std::strstr(name, "19bad_optional_access")
               ? E_INVALIDARG
               : E_FAIL;
}

// UTF-32 as UTF-8; what is no character becomes U+FFFD.
inline std::string utf8_of(std::wstring_view text)
{
    std::string out;

    for (const wchar_t unit : text) {
        auto c = static_cast<std::uint32_t>(unit);

        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        const std::uint32_t mark = more ? 0xff00u >> (more + 1) & 0xff : 0;
        out += static_cast<char>(mark | c >> 6 * more);
        for (int i = more - 1; i >= 0; i--)
            out += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
    }
    return out;
}

inline std::string text_of(long long number)
{
    char text[24];

    (void)std::snprintf(text, sizeof text, "%lld", number);
    return text;
}

inline std::string text_of(unsigned long long number)
{
    char text[24];

    (void)std::snprintf(text, sizeof text, "%llu", number);
    return text;
}

inline std::string text_of(double number)
{
    char text[32];

    (void)std::snprintf(text, sizeof text, "%g", number);
    return text;
}

template <typename Number> Number number_at(const void *object) noexcept
{
    Number number;

    std::memcpy(&number, object, sizeof number);
    return number;
}

// A thrown OBJECT of a fundamental type, which the ABI names by one letter; empty for any other.  Not by
// std::to_string, which brings a variable of libstdc++ that binaries share (see cpp_library).
inline std::string number_text(const char *type, const void *object)
{
    using signed_number = long long;
    using unsigned_number = unsigned long long;

    if (!type[0] || type[1])
        return {};
    switch (type[0]) {
    case 'b':
        return number_at<bool>(object) ? "true" : "false";
    case 'c':
        return {'\'', number_at<char>(object), '\''};
    case 'i':
        return text_of(signed_number{number_at<int>(object)});
    case 'j':
        return text_of(unsigned_number{number_at<unsigned>(object)});
    case 'l':
        return text_of(signed_number{number_at<long>(object)});
    case 'm':
        return text_of(unsigned_number{number_at<unsigned long>(object)});
    case 'x':
        return text_of(number_at<long long>(object));
    case 'y':
        return text_of(number_at<unsigned long long>(object));
    case 'f':
        return text_of(double{number_at<float>(object)});
    case 'd':
        return text_of(number_at<double>(object));
    default:
        return {};
    }
}

// HRESULT and message of the exception that is being handled, by catch clauses: they need no RTTI.
// NESTED receives what is nested in it.  ERROR is the result of current_error.
inline void describe_standard(description &what, const any_error *error, std::exception_ptr &nested)
{
    bool may_nest = true;
    const auto say = [&](HRESULT hr, const std::exception &e) {
        const char *const text = e.what();

        what.hresult = hr;
        if (text)
            what.message = text;
#if defined(__cpp_rtti)
        if (const auto *const pair = dynamic_cast<const std::nested_exception *>(&e))
            nested = pair->nested_ptr();
        may_nest = false;
#endif
    };

    if (error) {
        say(error->hresult(), *error);
        if (may_nest)
            nested = nested_in_current();
        return;
    }
    try {
        throw;
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
    } catch (const std::overflow_error &e) {
        say(static_cast<HRESULT>(0x80070216), e); // ERROR_ARITHMETIC_OVERFLOW
    } catch (const std::bad_cast &e) {
        say(E_NOINTERFACE, e);
    } catch (const std::exception &e) {
        say(hresult_of_type(abi::__cxa_current_exception_type()->name()), e);
    } catch (const char *text) {
        what.message = text ? text : "";
    } catch (const std::string &text) {
        what.message = text;
    } catch (std::string_view text) {
        what.message = text;
    } catch (const std::error_code &code) {
        what.hresult = code ? to_hresult(code) : E_FAIL;
        what.message = code.message();
    } catch (const wchar_t *text) {
        what.message = utf8_of(text ? text : L"");
    } catch (const std::wstring &text) {
        what.message = utf8_of(text);
    } catch (...) { // a number, or only its type is known
        const std::string number = number_text(abi::__cxa_current_exception_type()->name(),
                                               object_of(std::current_exception()));

        if (!number.empty())
            what.message += ": " + number;
        may_nest = number.empty();
    }
    if (may_nest)
        nested = nested_in_current();
}

inline description describe(const origin &from, const any_error *error)
{
    description what;
    std::exception_ptr nested;

    what.type = readable(abi::__cxa_current_exception_type()->name());
    what.message = "an exception of type " + what.type + " was thrown";
    describe_standard(what, error, nested);
    if (nested && from.depth < max_causes)
        what.cause = info_of(nested, {nullptr, from.above, from.depth + 1});
    return what;
}

// ---- New error objects ------------------------------------------------------------------------

// The stack of the throw, if guard() has it or nothing is unwound yet; else a gap for the lost frames
// and the stack outward of the border.
inline std::vector<std::uintptr_t> stack_of(const origin &from)
{
    if (from.site && from.site->frames && from.site->count)
        return {from.site->frames, from.site->frames + from.site->count};
    std::vector<std::uintptr_t> frames = stack_above(from.above);
#if STACKSPLICE_HAS_THROW_SITE
    bool again = false;
    const auto count = static_cast<std::uint32_t>(frames.size());
    const std::uint32_t inside = from.terminates
                                     ? frames_of_throw(frames.data(), count, &again)
                                     : frames_of_terminate(frames.data(), count, &again);

    frames.erase(frames.begin(), frames.begin() + inside);
    if (inside && !again)
        return frames;
#endif
    frames.insert(frames.begin(), unwound_gap());
    return frames;
}

// Put a new error into the slot, unless origination is switched off.  EXCEPTION, which is being
// handled, has it from now on.
inline HRESULT originate_new(const std::exception_ptr &exception, const description &what,
                             const std::vector<std::uintptr_t> &frames)
{
    HRESULT hr = what.hresult;
    ties fresh;

    fresh.make(exception, what, frames);
    const HRESULT result = stacksplice_leave(fresh.get(), &hr);
    if (exception && result == S_OK)
        (void)stacksplice_thrown_tie(object_of(exception), abi::__cxa_current_exception_type(),
                                     fresh.get());
    return FAILED(result) ? result : hr;
}

// ---- stacksplice::error -----------------------------------------------------------------------

// Accesses the private parts of an error, and makes the error object of one that C++ threw.
struct error_maker {
    // The existing error object, or empty.
    static com_ptr<IRestrictedErrorInfo> known(const error &e)
    {
        error_state &state = *e.state_.get();
        void *out = nullptr;

        if (state.arrived)
            return state.arrived;
        const locked guard(state.lock);
        IScriptErrorInfo *const own = state.own.error();
        if (!own || FAILED(own->lpVtbl->QueryInterface(own, IID_IRestrictedErrorInfo, &out)))
            return {};
        return com_ptr<IRestrictedErrorInfo>::attach(static_cast<IRestrictedErrorInfo *>(out));
    }

    // Make it, unless another thread just did.  The slot is unchanged.
    static com_ptr<IRestrictedErrorInfo> make(const error &e, const std::exception_ptr &exception,
                                              const description &what)
    {
        error_state &state = *e.state_.get();
        IScriptErrorInfo *made = nullptr;
        ties fresh;

        fresh.make(exception, what, state.settled());
        if (stacksplice_make_error(fresh.get(), &made) != S_OK)
            return {};
        {
            const locked guard(state.lock);

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
        stacksplice_exception *const own =
            stacksplice_exception_from(language.get(), stacksplice_cpp_owner(&cpp_library));

        if (own && !e.state_->arrived)
            keep_exception(own, exception);
    }
};

// Put the error of E, which is being handled, into the slot: the one it arrived with, or a new one.
inline bool put_error(const error &e, const origin &from)
{
    com_ptr<IRestrictedErrorInfo> info = error_maker::known(e);

    if (!info)
        info = error_maker::make(e, std::current_exception(), describe(from, &e));
    if (!info)
        return false;
    error_maker::keep(e, info, std::current_exception());
    return SUCCEEDED(SetRestrictedErrorInfo(info.get()));
}

// ---- The way out ------------------------------------------------------------------------------

// Put the exception that is being handled into the slot.
inline HRESULT originate_from(const origin &from) noexcept
{
    HRESULT hr = E_FAIL;

    try {
        if (!std::current_exception()) // not a C++ exception: nothing is known of it
            return originate_new(nullptr, foreign_description(), stack_of(from));
        const any_error *const e = current_error();

        if (e) {
            if (e->leave(from.above, from.depth))
                return e->hresult();
        } else if (stacksplice_thrown_leave(object_of(std::current_exception()), &cpp_library,
                                            &hr) == S_OK) {
            return hr;
        }
        return originate_new(std::current_exception(), describe(from, e), stack_of(from));
    } catch (...) { // memory ran out while making the error: report that instead
        (void)RoOriginateErrorW(E_OUTOFMEMORY, 0, nullptr);
        return E_OUTOFMEMORY;
    }
}

// The exception that is being handled has the stack of its throw from now on.
inline void attach(const origin &from)
{
    const std::exception_ptr exception = std::current_exception();
    IScriptErrorInfo *made = nullptr;
    ties fresh;

    if (!exception || current_error() || stacksplice_thrown_has_error(object_of(exception)))
        return;
    fresh.make(exception, describe(from, nullptr), stack_of(from));
    if (stacksplice_make_error(fresh.get(), &made) != S_OK)
        return;
    (void)stacksplice_thrown_tie(object_of(exception), abi::__cxa_current_exception_type(),
                                 fresh.get());
    made->lpVtbl->Release(made);
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

} // namespace detail

inline bool error::leave(const void *above, unsigned depth) const
{
    return detail::put_error(*this, {nullptr, above, depth});
}

inline com_ptr<IRestrictedErrorInfo> error::info() const noexcept
{
    try {
        auto info = detail::error_maker::known(*this);

        if (info)
            return info;
        detail::description about;
        about.hresult = hresult();
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

} // namespace v1
} // namespace stacksplice
#endif
