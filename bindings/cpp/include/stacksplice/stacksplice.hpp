// stacksplice for C++17: a border in one line, in both directions.
//
//   HRESULT host_price(const order *o)            // called by Lua, Python, C, ...
//   {
//       return stacksplice::guard([&] { price(*o); });
//   }
//   void price(const order &o)
//   {
//       stacksplice::check(run_script(o));        // throws what the script threw
//   }
//
// Out (guard): every C++ exception becomes the thread's error and an HRESULT.  In (check): the
// thread's error becomes a C++ exception.  What C++ threw comes back as the same exception object;
// what another language threw is a stacksplice::error, which puts the same error object back when
// it leaves C++ again.
//
// Header only.  All functions may be called on any thread and act on the calling thread's error.
// None may be called from a signal handler.  Link stacksplice::cpp, or the core library alone.
#ifndef STACKSPLICE_STACKSPLICE_HPP
#define STACKSPLICE_STACKSPLICE_HPP

#include <stacksplice/com_ptr.hpp>
#include <stacksplice/source.h>
#include <stacksplice/stacksplice.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

namespace stacksplice
{

// ---- The exception --------------------------------------------------------------------------

// An error that came from elsewhere: HRESULT, message (UTF-8, what()) and the error object with its
// combined stack and propagation chain.  Copies share the error object and do not throw.
class error : public std::runtime_error
{
  public:
    // INFO may be empty: reporting can be switched off, and memory can run out.
    error(HRESULT hr, const std::string &message, com_ptr<IRestrictedErrorInfo> info)
        : std::runtime_error(message), hresult_(hr), info_(std::move(info))
    {
    }

    HRESULT hresult() const noexcept
    {
        return hresult_;
    }
    const com_ptr<IRestrictedErrorInfo> &info() const noexcept
    {
        return info_;
    }

    // The combined stack where the error was born, innermost first: elements of
    // stacksplice_capture, to be read by stacksplice_resolve.
    std::vector<std::uintptr_t> stack() const
    {
        std::uint32_t count = 0;
        std::vector<std::uintptr_t> frames;

        if (info_ && SUCCEEDED(stacksplice_error_stack(info_.get(), 0, nullptr, &count)))
            frames.resize(count);
        if (count && FAILED(stacksplice_error_stack(info_.get(), count, frames.data(), &count)))
            frames.clear();
        return frames;
    }

    // The report, as stacksplice_format writes it; empty where there is no error object.
    std::string text() const
    {
        return format(STACKSPLICE_FORMAT_TEXT);
    }
    std::string json() const
    {
        return format(STACKSPLICE_FORMAT_JSON);
    }

  private:
    static int append(const char *text, std::size_t length, void *data) noexcept
    {
        try {
            static_cast<std::string *>(data)->append(text, length);
            return 0;
        } catch (...) {
            return 1;
        }
    }

    std::string format(stacksplice_format_kind kind) const
    {
        std::string out;

        if (info_ && stacksplice_format(info_.get(), kind, nullptr, append, &out) != S_OK)
            throw std::bad_alloc();
        return out;
    }

    HRESULT hresult_;
    com_ptr<IRestrictedErrorInfo> info_;
};

// Keeps the error in flight while clean-up that may itself fail runs: the body of a destructor.
class saved_error
{
  public:
    saved_error() noexcept
    {
        (void)stacksplice_save_error(&saved_);
    }
    ~saved_error()
    {
        stacksplice_restore_error(&saved_);
    }
    saved_error(const saved_error &) = delete;
    saved_error &operator=(const saved_error &) = delete;

  private:
    stacksplice_saved_error saved_{};
};

// ---- C++ exceptions as language exceptions ---------------------------------------------------

namespace detail
{

inline constexpr unsigned max_causes = 32; // of a chain of nested exceptions
inline constexpr std::size_t max_frames = 512;

// {2f1c1a5e-64d7-4a39-9b7c-0d9ab8f1c3e4}: answered by C++ exceptions of this header.
inline constexpr IID iid_cpp_exception = {
    0x2f1c1a5e, 0x64d7, 0x4a39, {0x9b, 0x7c, 0x0d, 0x9a, 0xb8, 0xf1, 0xc3, 0xe4}};

// What is known of the exception in flight.
struct description {
    HRESULT hresult = E_FAIL;
    std::string type;
    std::string message;
    com_ptr<IRestrictedErrorInfo> cause;
};

// The language exception of one C++ exception object: type, message and stack by value.  C++ keeps
// no way back from an exception to its error, so one count serves as outside and inside count.
class cpp_exception final : public ILanguageExceptionStackBackTrace,
                            public ILanguageExceptionTransform,
                            public IAgileObject
{
  public:
    cpp_exception(std::exception_ptr exception, description &&what,
                  std::vector<std::uintptr_t> &&frames) noexcept
        : exception_(std::move(exception)), what_(std::move(what)), frames_(std::move(frames))
    {
    }

    const std::exception_ptr &exception() const noexcept
    {
        return exception_;
    }

    // The C++ exception that OBJECT stands for, or NULL when it is none of this header.
    static cpp_exception *from(IUnknown *object) noexcept
    {
        void *out = nullptr;

        if (!object || FAILED(object->QueryInterface(iid_cpp_exception, &out)))
            return nullptr;
        auto *self = static_cast<cpp_exception *>(out);
        self->drop(); // the caller's reference keeps it
        return self;
    }

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, void **out) override
    {
        if (!out)
            return E_POINTER;
        *out = nullptr;
        if (iid == IID_IUnknown || iid == IID_ILanguageExceptionStackBackTrace)
            *out = static_cast<ILanguageExceptionStackBackTrace *>(this);
        else if (iid == IID_IAgileObject)
            *out = static_cast<IAgileObject *>(this);
        else if (iid == IID_ILanguageExceptionTransform && what_.cause)
            *out = static_cast<ILanguageExceptionTransform *>(this);
        else if (iid == stacksplice_IID_IScriptException)
            *out = &script_.iface;
        else if (iid == iid_cpp_exception)
            *out = this;
        else
            return E_NOINTERFACE;
        AddRef();
        return S_OK;
    }
    ULONG STDMETHODCALLTYPE AddRef() override
    {
        return ++count_;
    }
    ULONG STDMETHODCALLTYPE Release() override
    {
        return drop();
    }
    HRESULT STDMETHODCALLTYPE GetStackBackTrace(ULONG max, UINT_PTR *frames,
                                                ULONG *captured) override
    {
        if (!captured || (!frames && max))
            return E_POINTER;
        *captured = frames_.size() < max ? static_cast<ULONG>(frames_.size()) : max;
        if (*captured)
            std::memcpy(frames, frames_.data(), *captured * sizeof *frames);
        return S_OK;
    }
    HRESULT STDMETHODCALLTYPE GetTransformedRestrictedErrorInfo(IRestrictedErrorInfo **out) override
    {
        if (!out)
            return E_POINTER;
        *out = com_ptr<IRestrictedErrorInfo>(what_.cause).detach();
        return S_OK;
    }

  private:
    // IScriptException is a C structure: its methods are plain functions.
    struct script_part {
        IScriptException iface;
        cpp_exception *self;
    };

    ~cpp_exception() = default;

    ULONG drop() noexcept
    {
        ULONG left = --count_;

        if (left == 0)
            delete this;
        return left;
    }

    static cpp_exception *of(IScriptException *iface) noexcept
    {
        return reinterpret_cast<script_part *>(iface)->self;
    }
    static HRESULT STDMETHODCALLTYPE script_query(IScriptException *iface, REFIID iid, void **out)
    {
        return of(iface)->QueryInterface(iid, out);
    }
    static ULONG STDMETHODCALLTYPE script_add_ref(IScriptException *iface)
    {
        return of(iface)->AddRef();
    }
    static ULONG STDMETHODCALLTYPE script_release(IScriptException *iface)
    {
        return of(iface)->Release();
    }
    static const char *STDMETHODCALLTYPE script_language(IScriptException *)
    {
        return "c++";
    }
    static const char *STDMETHODCALLTYPE script_type(IScriptException *iface)
    {
        return of(iface)->what_.type.c_str();
    }
    static const char *STDMETHODCALLTYPE script_message(IScriptException *iface,
                                                        std::size_t *length)
    {
        if (length)
            *length = of(iface)->what_.message.size();
        return of(iface)->what_.message.c_str();
    }
    static void STDMETHODCALLTYPE script_add_inside(IScriptException *iface)
    {
        of(iface)->AddRef();
    }
    static void STDMETHODCALLTYPE script_release_inside(IScriptException *iface)
    {
        of(iface)->Release();
    }
    static const IScriptExceptionVtbl *script_vtbl() noexcept
    {
        static const IScriptExceptionVtbl vtbl = {
            script_query, script_add_ref, script_release,    script_language,
            script_type,  script_message, script_add_inside, script_release_inside};

        return &vtbl;
    }

    std::atomic<ULONG> count_{1};
    script_part script_{{script_vtbl()}, this};
    std::exception_ptr exception_;
    description what_;
    std::vector<std::uintptr_t> frames_;
};

// The error that throw_error found last on this thread and whose exception is C++'s own: when the
// same exception object leaves C++ again, the same error object goes with it.  Until then, or until
// the thread's next such error, it keeps the exception object.
inline thread_local com_ptr<IRestrictedErrorInfo> returned;

// The language exception of an error object or NULL; lent by the error object.
inline com_ptr<IUnknown> language_exception_of(const com_ptr<IRestrictedErrorInfo> &info) noexcept
{
    com_ptr<IUnknown> exception;
    auto language = info.as<ILanguageExceptionErrorInfo>(IID_ILanguageExceptionErrorInfo);

    if (language)
        (void)language->GetLanguageException(exception.put());
    return exception;
}

inline HRESULT hresult_of(const std::exception &e) noexcept
{
    if (const auto *ours = dynamic_cast<const error *>(&e))
        return ours->hresult();
    if (dynamic_cast<const std::bad_alloc *>(&e))
        return E_OUTOFMEMORY;
    if (const auto *system = dynamic_cast<const std::system_error *>(&e)) {
        const std::error_category &category = system->code().category();

        if (category == std::generic_category() || category == std::system_category())
            return stacksplice_hresult_from_errno(system->code().value());
        return E_FAIL;
    }
    if (dynamic_cast<const std::out_of_range *>(&e))
        return E_BOUNDS;
    if (dynamic_cast<const std::invalid_argument *>(&e) ||
        dynamic_cast<const std::domain_error *>(&e) ||
        dynamic_cast<const std::length_error *>(&e) ||
        dynamic_cast<const std::bad_variant_access *>(&e))
        return E_INVALIDARG;
    if (dynamic_cast<const std::overflow_error *>(&e))
        return static_cast<HRESULT>(0x80070216); // ERROR_ARITHMETIC_OVERFLOW
    if (dynamic_cast<const std::bad_cast *>(&e))
        return E_NOINTERFACE;
    if (dynamic_cast<const std::bad_function_call *>(&e))
        return E_POINTER;
    return E_FAIL;
}

// The name of the type of the exception that is being handled.
inline std::string current_type()
{
    const std::type_info *type = abi::__cxa_current_exception_type();
    int status = 0;

    if (!type)
        return "foreign exception";
    std::unique_ptr<char, void (*)(void *)> name(
        abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
    return name ? name.get() : type->name();
}

com_ptr<IRestrictedErrorInfo> info_of(const std::exception_ptr &exception, const void *above,
                                      unsigned depth);

// What the exception that is being handled says; DEPTH is how many it is the cause of.
inline description describe(const void *above, unsigned depth)
{
    description what;
    const auto set_cause = [&](const std::nested_exception *nested) {
        if (nested && nested->nested_ptr() && depth < max_causes)
            what.cause = info_of(nested->nested_ptr(), above, depth + 1);
    };

    what.type = current_type();
    what.message = "a " + what.type + " was thrown";
    try {
        throw;
    } catch (const std::exception &e) {
        what.hresult = hresult_of(e);
        what.message = e.what();
        set_cause(dynamic_cast<const std::nested_exception *>(&e));
    } catch (const std::nested_exception &e) {
        set_cause(&e);
    } catch (const char *text) {
        what.message = text ? text : "";
    } catch (const std::string &text) {
        what.message = text;
    } catch (...) { // its type is all that there is
    }
    return what;
}

// The stack outward of the border.  What lay between the throw and here is gone: a gap says so.
inline std::vector<std::uintptr_t> stack_above(const void *above)
{
    stacksplice_token_info gap{};
    std::vector<std::uintptr_t> frames(max_frames);
    std::uint32_t count = 0;

    gap.size = sizeof gap;
    gap.kind = STACKSPLICE_FRAME_GAP;
    gap.trust = STACKSPLICE_TRUST_EXACT;
    gap.language = "c++";
    gap.reason = "unwound";
    (void)stacksplice_intern(&gap, &frames[0]); // without memory the token says that
    if (FAILED(stacksplice_capture_above(above, max_frames - 1, &frames[1], &count, nullptr)))
        count = 0;
    frames.resize(count + 1);
    return frames;
}

// A new error for the exception that is being handled goes into the slot.
inline HRESULT originate_new(const void *above, unsigned depth)
{
    description what = describe(above, depth);
    const HRESULT hr = what.hresult;
    const std::string message = what.message;
    const auto exception = com_ptr<cpp_exception>::attach(
        new cpp_exception(std::current_exception(), std::move(what), stack_above(above)));
    const HRESULT result = stacksplice_originate(
        hr, message.data(), message.size(),
        static_cast<ILanguageExceptionStackBackTrace *>(exception.get()), nullptr);

    return FAILED(result) ? result : hr;
}

// The HRESULT and the message of an error object; HR stays where there is none.
inline std::string details_of(const com_ptr<IRestrictedErrorInfo> &info, HRESULT *hr)
{
    BSTR description = nullptr, restricted = nullptr, sid = nullptr;
    std::string message;

    if (!info || FAILED(info->GetErrorDetails(&description, hr, &restricted, &sid)))
        return message;
    try {
        message.resize(stacksplice_utf8(restricted, SysStringLen(restricted), nullptr, 0));
        (void)stacksplice_utf8(restricted, SysStringLen(restricted), message.data(),
                               message.size() + 1);
    } catch (const std::bad_alloc &) { // the error arrives without its text
    }
    SysFreeString(description);
    SysFreeString(restricted);
    SysFreeString(sid);
    return message;
}

// The error that the exception being handled came with goes back into the slot.
inline bool restore_returned(HRESULT *hr) noexcept
{
    const com_ptr<IRestrictedErrorInfo> info = std::exchange(returned, nullptr);
    const com_ptr<IUnknown> language = language_exception_of(info);
    const cpp_exception *known = cpp_exception::from(language.get());

    if (!known || known->exception() != std::current_exception())
        return false;
    (void)details_of(info, hr);
    return SUCCEEDED(SetRestrictedErrorInfo(info.get()));
}

// originate_current, on behalf of the function whose frame address is ABOVE.
inline HRESULT originate_above(const void *above, unsigned depth) noexcept
{
    HRESULT hr = E_FAIL;

    try {
        throw;
    } catch (const error &e) {
        if (e.info() && SUCCEEDED(SetRestrictedErrorInfo(e.info().get())))
            return e.hresult();
    } catch (...) {
        if (restore_returned(&hr))
            return hr;
    }
    try {
        return originate_new(above, depth);
    } catch (...) { // memory ran out while the error was made: that is the error now
        (void)RoOriginateErrorW(E_OUTOFMEMORY, 0, nullptr);
        return E_OUTOFMEMORY;
    }
}

// The error object of an exception that is the cause of another; the slot stays what it was.
inline com_ptr<IRestrictedErrorInfo> info_of(const std::exception_ptr &exception, const void *above,
                                             unsigned depth)
{
    const saved_error saved;
    com_ptr<IRestrictedErrorInfo> info;

    try {
        std::rethrow_exception(exception);
    } catch (...) {
        (void)originate_above(above, depth);
    }
    (void)GetRestrictedErrorInfo(info.put());
    return info;
}

} // namespace detail

// ---- Borders ----------------------------------------------------------------------------------

// In a handler: the exception that is being handled becomes the calling thread's error.  Returns
// its HRESULT: that of a stacksplice::error; by type for the standard exceptions (bad_alloc
// E_OUTOFMEMORY, out_of_range E_BOUNDS, invalid_argument E_INVALIDARG, system_error by its errno,
// ...); else E_FAIL.  A std::nested_exception becomes the cause.
[[gnu::noinline]] inline HRESULT originate_current() noexcept
{
    return detail::originate_above(__builtin_frame_address(0), 0);
}

// Call FUNCTION, which returns nothing or an HRESULT, and let no exception out of it.
template <typename Function> HRESULT guard(Function &&function) noexcept
{
    try {
        if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
            std::forward<Function>(function)();
            return S_OK;
        } else {
            return std::forward<Function>(function)();
        }
    } catch (...) {
        return originate_current();
    }
}

// Throw the calling thread's error, for the failure code HR, and leave the slot empty.  C++'s own
// exception comes back as the same object; all else as a stacksplice::error, with one more node in
// its propagation chain.  An error for another HRESULT is stale: a new one is made.
[[noreturn, gnu::noinline]] inline void throw_error(HRESULT hr)
{
    com_ptr<IRestrictedErrorInfo> info;

    (void)stacksplice_propagate_above(__builtin_frame_address(0), hr);
    (void)RoGetMatchingRestrictedErrorInfo(hr, info.put());
    const com_ptr<IUnknown> language = detail::language_exception_of(info);
    if (const detail::cpp_exception *known = detail::cpp_exception::from(language.get())) {
        const std::exception_ptr exception = known->exception();

        detail::returned = std::move(info);
        std::rethrow_exception(exception);
    }
    throw error(hr, detail::details_of(info, &hr), info);
}

// Throw if HR is a failure; else HR.
inline HRESULT check(HRESULT hr)
{
    if (FAILED(hr))
        throw_error(hr);
    return hr;
}

} // namespace stacksplice
#endif
