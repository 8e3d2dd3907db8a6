// Private to stacksplice.hpp: C++ as a language of stacksplice/script.h.  The value that a language
// exception keeps is a std::exception_ptr on the heap.
#ifndef STACKSPLICE_CPP_EXCEPTION_HPP
#define STACKSPLICE_CPP_EXCEPTION_HPP

#include <stacksplice/com_ptr.hpp>
#include <stacksplice/script.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace stacksplice::detail
{

// The known facts of an exception.
struct description {
    HRESULT hresult = E_FAIL;
    std::string type;
    std::string message;
    com_ptr<IRestrictedErrorInfo> cause;
};

// One C++ library's exception objects are not the other's, so their owners have different data.
#if defined(_LIBCPP_VERSION)
inline constexpr char cpp_library[] = "libc++";
#else
inline constexpr char cpp_library[] = "libstdc++";
#endif

[[gnu::noinline]] inline void drop_exception(void *, void *, void *value)
{
    delete static_cast<std::exception_ptr *>(value);
}

inline const stacksplice_language &cpp_language() noexcept
{
    static const stacksplice_language language = {
        sizeof language, "c++", STACKSPLICE_LANGUAGE_ANY_THREAD, drop_exception, nullptr};

    return language;
}

// Never closed: exceptions may leave C++ while the process ends.  NULL without memory.
inline stacksplice_owner *cpp_owner() noexcept
{
    static stacksplice_owner *const owner =
        stacksplice_owner_new(&cpp_language(), const_cast<char *>(cpp_library));

    return owner;
}

// OBJECT's language exception if it is one of C++, made by any binary; lent.
inline stacksplice_exception *cpp_exception_from(IUnknown *object) noexcept
{
    stacksplice_exception *const x = stacksplice_exception_from(object, nullptr);
    const stacksplice_owner *const owner = x ? stacksplice_exception_owner(x) : nullptr;

    if (!owner || std::strcmp(stacksplice_owner_language(owner)->name, "c++") != 0)
        return nullptr;
    const auto *const library = static_cast<const char *>(stacksplice_owner_data(owner));
    return library && std::strcmp(library, cpp_library) == 0 ? x : nullptr;
}

// The exception object of X, which code outside holds; empty before the throw.
inline std::exception_ptr exception_of(const stacksplice_exception *x) noexcept
{
    const void *const value = x ? stacksplice_exception_value(x) : nullptr;

    return value ? *static_cast<const std::exception_ptr *>(value) : nullptr;
}

// Make X keep EXCEPTION, unless it does already.  Throws std::bad_alloc.
inline void keep_exception(stacksplice_exception *x, const std::exception_ptr &exception)
{
    if (!exception)
        return;
    auto *const value = new std::exception_ptr(exception);
    if (!stacksplice_exception_keep(x, value))
        drop_exception(nullptr, nullptr, value);
}

// The language exception of an error object or NULL; lent by the error object.
inline com_ptr<IUnknown> language_exception_of(const com_ptr<IRestrictedErrorInfo> &info) noexcept
{
    com_ptr<IUnknown> exception;
    auto language = info.as<ILanguageExceptionErrorInfo>(IID_ILanguageExceptionErrorInfo);

    if (language)
        (void)language->GetLanguageException(exception.put());
    return exception;
}

inline void set_cause(stacksplice_exception *x, const com_ptr<IRestrictedErrorInfo> &cause) noexcept
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
        stacksplice_owner *const owner = cpp_owner();
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

} // namespace stacksplice::detail
#endif
