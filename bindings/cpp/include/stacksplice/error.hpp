// The exception class of stacksplice.hpp, HRESULTs as std::error_code, and clean-up during an error
// in flight.
#ifndef STACKSPLICE_ERROR_HPP
#define STACKSPLICE_ERROR_HPP

#include <stacksplice/cpp_exception.hpp>
#include <stacksplice/stacksplice.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace stacksplice
{
inline namespace v1
{

// ---- Clean-up ---------------------------------------------------------------------------------

// Keeps the error in flight while clean-up runs that may itself fail: the first object of such a
// destructor.  It ends on the thread where it began.
class [[nodiscard]] saved_error
{
  public:
    saved_error() noexcept
    {
        (void)stacksplice_save_error(&saved_);
    }
    ~saved_error()
    {
        (void)stacksplice_restore_error(&saved_);
    }
    saved_error(const saved_error &) = delete;
    saved_error &operator=(const saved_error &) = delete;

  private:
    stacksplice_saved_error saved_{};
};

// ---- Texts ------------------------------------------------------------------------------------

namespace detail
{

// The stack outside of ABOVE; both ends of a long one.
inline std::vector<std::uintptr_t> stack_above(const void *above)
{
    std::vector<std::uintptr_t> frames(stacksplice_max_frames());
    std::uint32_t count = 0;

    (void)stacksplice_capture_ends(above, 0, static_cast<std::uint32_t>(frames.size()),
                                   frames.data(), &count);
    frames.resize(count);
    return frames;
}

// The HRESULT and the message of an error object; HR is unchanged if there is none.
STACKSPLICE_NO_VPTR inline std::string details_of(const com_ptr<IRestrictedErrorInfo> &info,
                                                  HRESULT *hr)
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

inline int append(const char *text, std::size_t length, void *data) noexcept
{
    try {
        static_cast<std::string *>(data)->append(text, length);
        return 0;
    } catch (...) {
        return 1;
    }
}

// The report of INFO, which may be empty.  Throws std::bad_alloc.
inline std::string format(const com_ptr<IRestrictedErrorInfo> &info, stacksplice_format_kind kind)
{
    std::string out;

    if (info && stacksplice_format(info.get(), kind, nullptr, append, &out) != S_OK)
        throw std::bad_alloc();
    return out;
}

// The elements of the stack of an error object.
inline std::vector<std::uintptr_t> elements_of(const com_ptr<IRestrictedErrorInfo> &info)
{
    std::uint32_t count = 0;
    std::vector<std::uintptr_t> frames;

    if (SUCCEEDED(stacksplice_error_stack(info.get(), 0, nullptr, &count)))
        frames.resize(count);
    if (count && FAILED(stacksplice_error_stack(info.get(), count, frames.data(), &count)))
        frames.clear();
    return frames;
}

// The system's text for HR.
inline std::string system_text(HRESULT hr)
{
    const saved_error saved;
    com_ptr<IRestrictedErrorInfo> info;
    HRESULT stored = S_OK;
    char number[24];

    (void)RoOriginateErrorW(hr, 0, nullptr);
    (void)GetRestrictedErrorInfo(info.put());
    std::string text = details_of(info, &stored);
    while (!text.empty() && (text.back() == '\r' || text.back() == '\n'))
        text.pop_back();
    if (!text.empty())
        return text;
    (void)std::snprintf(number, sizeof number, "HRESULT 0x%08x", static_cast<unsigned>(hr));
    return number;
}

// With its visibility first: clang-format tears the class apart where that stands in it.
class [[gnu::visibility("default")]] hresult_category_type;

class hresult_category_type : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "HRESULT";
    }
    std::string message(int hr) const override
    {
        return SUCCEEDED(hr) ? "success" : system_text(hr);
    }
    std::error_condition default_error_condition(int hr) const noexcept override
    {
        const int number = SUCCEEDED(hr) ? 0 : stacksplice_errno_from_hresult(hr);

        if (number)
            return {number, std::generic_category()};
        return {hr, *this};
    }
    // Another binary's codes are equal to the conditions of this one.
    bool equivalent(const std::error_code &code, int hr) const noexcept override
    {
        return code.value() == hr && std::strcmp(code.category().name(), name()) == 0;
    }
};

} // namespace detail

// ---- std::error_code --------------------------------------------------------------------------

// HRESULTs as error codes.  An HRESULT of an errno compares equal to its std::errc.  Each binary has an
// object of its own: see cpp_library.
[[gnu::visibility("hidden")]] inline const std::error_category &hresult_category() noexcept
{
    static const detail::hresult_category_type category;

    return category;
}

// In namespace std's own form: to_error_code(hr) == std::errc::permission_denied.
inline std::error_code to_error_code(HRESULT hr) noexcept
{
    return {hr, hresult_category()};
}

// The other direction: by errno for the generic and the system category, and for any other category
// with a generic condition; else E_FAIL.  S_OK for a success code.
inline HRESULT to_hresult(const std::error_code &code) noexcept
{
    /* Each binary may have its own object of the category. */
    if (std::strcmp(code.category().name(), hresult_category().name()) == 0)
        return code.value();
    if (!code)
        return S_OK;
    if (code.category() == std::system_category())
        return stacksplice_hresult_from_errno(code.value());
    const std::error_condition condition = code.default_error_condition();
    return condition.category() == std::generic_category()
               ? stacksplice_hresult_from_errno(condition.value())
               : E_FAIL;
}

// ---- The exception ----------------------------------------------------------------------------

} // namespace v1

// What any version of this header knows of an error of any other, which came from another binary: this
// class never changes.
class [[gnu::visibility("default")]] any_error : public std::runtime_error
{
  public:
    HRESULT hresult() const noexcept
    {
        return hresult_;
    }
    // For guard(): put the error object of this error, which is being handled, into the slot.  Its
    // border is at the frame ABOVE, and it is the cause of DEPTH others.  False: it has none.
    virtual bool leave(const void *above, unsigned depth) const = 0;

  protected:
    any_error(HRESULT hr, const std::string &message) : std::runtime_error(message), hresult_(hr)
    {
    }

  private:
    HRESULT hresult_;
};

inline namespace v1
{

namespace detail
{

struct error_maker;

// <mutex> would be a third of what this header includes.
class locked
{
  public:
    explicit locked(pthread_mutex_t &mutex) noexcept : mutex_(mutex)
    {
        (void)pthread_mutex_lock(&mutex_);
    }
    ~locked()
    {
        (void)pthread_mutex_unlock(&mutex_);
    }
    locked(const locked &) = delete;
    locked &operator=(const locked &) = delete;

  private:
    pthread_mutex_t &mutex_;
};

// What all copies of an error share, by a com_ptr.  An error that C++ threw is held from inside (see script.h):
// its error object holds the exception, so the exception may not hold it from outside.
struct error_state {
    com_ptr<IRestrictedErrorInfo> arrived; // of an error that was born elsewhere
    std::vector<std::uintptr_t> frames;    // else: the stack where it was constructed
    std::uint64_t epoch = 0;               // of their code: see stacksplice_settle
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    ties own;                // (lock) has the error object, once it is needed
    unsigned references = 1; // (ATOMIC)

    void AddRef() noexcept
    {
        __atomic_add_fetch(&references, 1, __ATOMIC_RELAXED);
    }
    void Release() noexcept
    {
        if (__atomic_sub_fetch(&references, 1, __ATOMIC_ACQ_REL) == 0)
            delete this;
    }
    std::vector<std::uintptr_t> settled() const
    {
        std::vector<std::uintptr_t> now = frames;

        (void)stacksplice_settle(now.data(), static_cast<std::uint32_t>(now.size()), epoch);
        return now;
    }
};

} // namespace detail

// An error with an HRESULT, a message (UTF-8, what()) and an error object with its combined stack
// and propagation chain.  Throw it, or a class derived from it, for errors of your own: the stack
// is that of its construction.  check() throws it for errors of other languages.  Copies share the
// error object and do not throw.
class [[gnu::visibility("default")]] error : public any_error
{
  public:
    // An error that is born here.  Without a MESSAGE what() is the system's text.  A success code
    // becomes E_UNEXPECTED.  Throws std::bad_alloc.
    [[gnu::noinline]] explicit error(HRESULT hr, const std::string &message = {})
        : error(born{}, failing(hr), message, __builtin_frame_address(0))
    {
    }
    [[gnu::noinline]] explicit error(const std::error_code &code, const std::string &message = {})
        : error(born{}, failing(to_hresult(code)),
                message.empty() ? code.message() : message + ": " + code.message(),
                __builtin_frame_address(0))
    {
    }
    // An error that was born elsewhere.  INFO may be empty: reporting can be switched off, and
    // memory can run out.
    error(HRESULT hr, const std::string &message, com_ptr<IRestrictedErrorInfo> info)
        : any_error(failing(hr), message),
          state_(com_ptr<detail::error_state>::attach(new detail::error_state))
    {
        state_->arrived = std::move(info);
    }

    std::error_code code() const noexcept
    {
        return to_error_code(hresult());
    }

    // The error object, created on first use.  May be empty for the same reasons.
    com_ptr<IRestrictedErrorInfo> info() const noexcept;

    // The combined stack where the error was born, innermost first: elements of
    // stacksplice_capture, for stacksplice_resolve.
    std::vector<std::uintptr_t> stack() const
    {
        return state_->arrived ? detail::elements_of(state_->arrived) : state_->settled();
    }

    // The report, as stacksplice_format writes it; empty without an error object.
    std::string text() const
    {
        return detail::format(info(), STACKSPLICE_FORMAT_TEXT);
    }
    std::string json() const
    {
        return detail::format(info(), STACKSPLICE_FORMAT_JSON);
    }

    bool leave(const void *above, unsigned depth) const override;

  private:
    friend struct detail::error_maker;
    struct born {
    };

    error(born, HRESULT hr, const std::string &message, const void *above)
        : any_error(hr, message.empty() ? detail::system_text(hr) : message),
          state_(com_ptr<detail::error_state>::attach(new detail::error_state))
    {
        state_->frames = detail::stack_above(above);
        state_->epoch = stacksplice_code_epoch();
    }

    static HRESULT failing(HRESULT hr) noexcept
    {
        return FAILED(hr) ? hr : E_UNEXPECTED;
    }

    com_ptr<detail::error_state> state_;
};

} // namespace v1
} // namespace stacksplice
#endif
