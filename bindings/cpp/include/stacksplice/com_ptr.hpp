// A smart pointer for the interfaces of the winrt headers.
#ifndef STACKSPLICE_COM_PTR_HPP
#define STACKSPLICE_COM_PTR_HPP

#include <stacksplice/winrt/unknwn.h>

#include <cstddef>
#include <utility>

// The objects behind the interfaces are of C: the undefined behaviour sanitizer finds no type there.
#define STACKSPLICE_NO_VPTR __attribute__((no_sanitize("vptr")))

namespace stacksplice
{
inline namespace v1
{

// Owns one COM reference.  Interface is a class of the winrt headers (IRestrictedErrorInfo, ...).
template <typename Interface> class com_ptr
{
  public:
    com_ptr() noexcept = default;
    com_ptr(std::nullptr_t) noexcept
    {
    }
    STACKSPLICE_NO_VPTR com_ptr(const com_ptr &other) noexcept : pointer_(other.pointer_)
    {
        if (pointer_)
            pointer_->AddRef();
    }
    com_ptr(com_ptr &&other) noexcept : pointer_(std::exchange(other.pointer_, nullptr))
    {
    }
    com_ptr &operator=(com_ptr other) noexcept
    {
        std::swap(pointer_, other.pointer_);
        return *this;
    }
    STACKSPLICE_NO_VPTR ~com_ptr()
    {
        if (pointer_)
            pointer_->Release();
    }

    // attach() takes over the caller's reference; copy() adds one to a pointer that is only lent.
    [[nodiscard]] static com_ptr attach(Interface *owned) noexcept
    {
        com_ptr result;
        result.pointer_ = owned;
        return result;
    }
    [[nodiscard]] STACKSPLICE_NO_VPTR static com_ptr copy(Interface *lent) noexcept
    {
        if (lent)
            lent->AddRef();
        return attach(lent);
    }

    Interface *get() const noexcept
    {
        return pointer_;
    }
    Interface *operator->() const noexcept
    {
        return pointer_;
    }
    explicit operator bool() const noexcept
    {
        return pointer_ != nullptr;
    }
    // For output parameters: releases the held pointer first.
    Interface **put() noexcept
    {
        *this = nullptr;
        return &pointer_;
    }
    [[nodiscard]] Interface *detach() noexcept
    {
        return std::exchange(pointer_, nullptr);
    }

    // Another interface of the same object; empty if the object does not have it.
    template <typename Other>
    [[nodiscard]] STACKSPLICE_NO_VPTR com_ptr<Other> as(REFIID iid) const noexcept
    {
        void *out = nullptr;

        if (!pointer_ || FAILED(pointer_->QueryInterface(iid, &out)))
            return {};
        return com_ptr<Other>::attach(static_cast<Other *>(out));
    }

    void swap(com_ptr &other) noexcept
    {
        std::swap(pointer_, other.pointer_);
    }
    // The same interface pointer; COM identity is that of IUnknown.
    friend bool operator==(const com_ptr &a, const com_ptr &b) noexcept
    {
        return a.pointer_ == b.pointer_;
    }
    friend bool operator!=(const com_ptr &a, const com_ptr &b) noexcept
    {
        return a.pointer_ != b.pointer_;
    }

  private:
    Interface *pointer_ = nullptr;
};

} // namespace v1
} // namespace stacksplice
#endif
