// Private to stacksplice.hpp: a C++ exception as a language exception.
#ifndef STACKSPLICE_CPP_EXCEPTION_HPP
#define STACKSPLICE_CPP_EXCEPTION_HPP

#include <stacksplice/error.hpp>

#include <atomic>
#include <cstring>
#include <exception>

namespace stacksplice::detail
{

#if defined(_LIBCPP_VERSION)
inline constexpr std::uint8_t cpp_library = 2;
#else
inline constexpr std::uint8_t cpp_library = 1;
#endif

// {2f1c1a5e-64d7-4a39-9b7c-0d9ab8f102xx}: answered by C++ exceptions of this header.  The bytes at
// the end are the layout of the class and the C++ library: exceptions of one are none of the other.
inline constexpr IID iid_cpp_exception = {
    0x2f1c1a5e, 0x64d7, 0x4a39, {0x9b, 0x7c, 0x0d, 0x9a, 0xb8, 0xf1, 0x02, cpp_library}};

// What is known of an exception.
struct description {
    HRESULT hresult = E_FAIL;
    std::string type;
    std::string message;
    com_ptr<IRestrictedErrorInfo> cause;
};

/*
 * The language exception of one C++ exception object: type, message and stack by value.  As
 * IScriptException says, the exception object is held while the outside count is above 0.
 */
class cpp_exception final : public ILanguageExceptionStackBackTrace,
                            public ILanguageExceptionTransform,
                            public IAgileObject
{
  public:
    // EXCEPTION may be empty: the object is not thrown yet.
    cpp_exception(std::exception_ptr exception, description &&what,
                  std::vector<std::uintptr_t> &&frames) noexcept
        : exception_(std::move(exception)), what_(std::move(what)), frames_(std::move(frames))
    {
    }
    cpp_exception(const cpp_exception &) = delete;
    cpp_exception &operator=(const cpp_exception &) = delete;

    std::exception_ptr exception() const
    {
        const std::lock_guard<std::mutex> guard(lock_);

        return exception_;
    }

    // The object is in hand and goes outside: it is held from now on.
    void hold(const std::exception_ptr &exception)
    {
        const std::lock_guard<std::mutex> guard(lock_);

        if (!exception_)
            exception_ = exception;
    }

    // The C++ exception that OBJECT stands for, or NULL when it is none of this header.
    static cpp_exception *from(IUnknown *object) noexcept
    {
        void *out = nullptr;

        if (!object || FAILED(object->QueryInterface(iid_cpp_exception, &out)))
            return nullptr;
        auto *self = static_cast<cpp_exception *>(out);
        self->Release(); // the caller's reference keeps it
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
        const ULONG count = ++outside_;

        if (count == 1)
            ++inside_;
        return count;
    }
    ULONG STDMETHODCALLTYPE Release() override
    {
        const ULONG left = --outside_;

        if (left == 0) {
            drop_exception();
            drop_inside();
        }
        return left;
    }
    HRESULT STDMETHODCALLTYPE GetStackBackTrace(ULONG max, UINT_PTR *frames,
                                                ULONG *captured) override
    {
        if (!captured || (!frames && max))
            return E_POINTER;
        *captured = stacksplice_copy_ends(frames_.data(),
                                          static_cast<std::uint32_t>(frames_.size()), max, frames);
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

    // Unless somebody outside came meanwhile.  The object's destructor may fail in its own way.
    void drop_exception()
    {
        std::exception_ptr gone;

        {
            const std::lock_guard<std::mutex> guard(lock_);

            if (outside_ == 0)
                gone.swap(exception_);
        }
        if (gone) {
            const saved_error saved;

            gone = nullptr;
        }
    }

    void drop_inside() noexcept
    {
        if (--inside_ == 0)
            delete this;
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
        ++of(iface)->inside_;
    }
    static void STDMETHODCALLTYPE script_release_inside(IScriptException *iface)
    {
        of(iface)->drop_inside();
    }
    static const IScriptExceptionVtbl *script_vtbl() noexcept
    {
        static const IScriptExceptionVtbl vtbl = {
            script_query, script_add_ref, script_release,    script_language,
            script_type,  script_message, script_add_inside, script_release_inside};

        return &vtbl;
    }

    std::atomic<ULONG> outside_{1}, inside_{1}; // the outside ones hold one inside
    script_part script_{{script_vtbl()}, this};
    mutable std::mutex lock_;
    std::exception_ptr exception_; // (lock_)
    description what_;
    std::vector<std::uintptr_t> frames_;
};

// The language exception of an error object or NULL; lent by the error object.
inline com_ptr<IUnknown> language_exception_of(const com_ptr<IRestrictedErrorInfo> &info) noexcept
{
    com_ptr<IUnknown> exception;
    auto language = info.as<ILanguageExceptionErrorInfo>(IID_ILanguageExceptionErrorInfo);

    if (language)
        (void)language->GetLanguageException(exception.put());
    return exception;
}

} // namespace stacksplice::detail
#endif
