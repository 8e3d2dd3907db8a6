// Private to stacksplice.hpp: C++ as a language of stacksplice/script.h.  The value that a language
// exception keeps is an exception object with one reference.
#ifndef STACKSPLICE_CPP_EXCEPTION_HPP
#define STACKSPLICE_CPP_EXCEPTION_HPP

#include <stacksplice/com_ptr.hpp>
#include <stacksplice/thrown.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(_LIBCPP_VERSION)
extern "C" void stacksplice_exception_hold(void *) __asm__("__cxa_increment_exception_refcount");
extern "C" void stacksplice_exception_release(void *) __asm__("__cxa_decrement_exception_refcount");
#else
extern "C" void stacksplice_exception_hold(void *) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
extern "C" void stacksplice_exception_release(void *) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
#endif

namespace stacksplice
{
inline namespace v1
{
namespace detail
{

// The known facts of an exception.
struct description {
    HRESULT hresult = E_FAIL;
    std::string type;
    std::string message;
    com_ptr<IRestrictedErrorInfo> cause;
};

// What counts the references on this library's exception objects.  These functions are the library's
// own, so that no binary that includes this header is needed to release an exception.
// Hidden, as each variable of this header: one that binaries share keeps g++'s mapped for ever.
[[gnu::visibility("hidden")]] inline constexpr stacksplice_cpp_library cpp_library = {
    stacksplice_exception_hold, stacksplice_exception_release,
#if defined(_LIBCPP_VERSION)
    0
#else
    1
#endif
};

// A std::exception_ptr is one pointer to the exception object, in both libraries.
static_assert(sizeof(std::exception_ptr) == sizeof(void *));

inline void *object_of(const std::exception_ptr &exception) noexcept
{
    void *object;

    std::memcpy(&object, static_cast<const void *>(&exception), sizeof object);
    return object;
}

// Takes over the reference on OBJECT.
inline std::exception_ptr adopt(void *object) noexcept
{
    std::exception_ptr exception;

    std::memcpy(static_cast<void *>(&exception), &object, sizeof object);
    return exception;
}

// Make X keep EXCEPTION, unless it does already.
inline void keep_exception(stacksplice_exception *x, std::exception_ptr exception) noexcept
{
    void *const object = object_of(exception);

    if (object && stacksplice_exception_keep(x, object))
        std::memset(static_cast<void *>(&exception), 0, sizeof exception); // its reference is X's
}

// The language exception of an error object or NULL; lent by the error object.
STACKSPLICE_NO_VPTR inline com_ptr<IUnknown> language_exception_of(
    const com_ptr<IRestrictedErrorInfo> &info) noexcept
{
    com_ptr<IUnknown> exception;
    auto language = info.as<ILanguageExceptionErrorInfo>(IID_ILanguageExceptionErrorInfo);

    if (language)
        (void)language->GetLanguageException(exception.put());
    return exception;
}

STACKSPLICE_NO_VPTR inline void set_cause(stacksplice_exception *x,
                                          const com_ptr<IRestrictedErrorInfo> &cause) noexcept
{
    void *out = nullptr;

    if (!cause || FAILED(cause->QueryInterface(stacksplice_IID_IScriptErrorInfo, &out)))
        return;
    auto *const error = static_cast<IScriptErrorInfo *>(out);
    stacksplice_exception_set_cause(x, error, STACKSPLICE_RELATION_CAUSE, 0);
    error->lpVtbl->Release(error);
}

// The ties of one exception object; destroyed with it.
class ties
{
  public:
    ties() = default;
    ties(const ties &) = delete;
    ties &operator=(const ties &) = delete;
    ~ties()
    {
        stacksplice_ties_drop(&ties_);
    }

    // A new language exception, without an error yet.  Throws std::bad_alloc.
    void make(const std::exception_ptr &exception, const description &what,
              const std::vector<std::uintptr_t> &frames)
    {
        const char *const type = what.type.c_str();
        stacksplice_exception_parts parts{};

        parts.size = sizeof parts;
        parts.hresult = what.hresult;
        parts.types = &type;
        parts.type_count = 1;
        parts.message = what.message.data();
        parts.message_length = what.message.size();
        parts.frames = frames.data();
        parts.frame_count = static_cast<std::uint32_t>(frames.size());
        stacksplice_owner *const owner = stacksplice_cpp_owner(&cpp_library);
        stacksplice_exception *const x = owner ? stacksplice_exception_new(owner, &parts) : nullptr;
        if (!x)
            throw std::bad_alloc();
        stacksplice_ties_set_exception(&ties_, x);
        set_cause(x, what.cause);
        keep_exception(x, exception);
    }

    void swap(ties &other) noexcept
    {
        std::swap(ties_, other.ties_);
    }
    stacksplice_ties *get() noexcept
    {
        return &ties_;
    }
    IScriptErrorInfo *error() const noexcept
    {
        return ties_.error;
    }

  private:
    stacksplice_ties ties_{};
};

} // namespace detail
} // namespace v1
} // namespace stacksplice
#endif
