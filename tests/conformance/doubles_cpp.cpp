/* The doubles as C++ code for Windows writes COM objects: classes that derive from interfaces. */
#include "conformance.h"

namespace
{

class exception final : public ILanguageExceptionStackBackTrace, public ILanguageExceptionTransform
{
  public:
    explicit exception(exception_state *state) : state_(state)
    {
        state_->refs = 1;
    }

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, void **out) override
    {
        *out = nullptr;
        if (iid == IID_IAgileObject)
            log_call(state_, 'A');
        if (iid == IID_IUnknown || iid == IID_IAgileObject) {
            *out = static_cast<ILanguageExceptionStackBackTrace *>(this);
        } else if (iid == IID_ILanguageExceptionStackBackTrace) {
            log_call(state_, 'S');
            if (state_->has_stack)
                *out = static_cast<ILanguageExceptionStackBackTrace *>(this);
        } else if (iid == IID_ILanguageExceptionTransform) {
            log_call(state_, 'T');
            if (state_->has_cause)
                *out = static_cast<ILanguageExceptionTransform *>(this);
        }
        if (!*out)
            return E_NOINTERFACE;
        AddRef();
        return S_OK;
    }

    ULONG STDMETHODCALLTYPE AddRef() override
    {
        return __atomic_add_fetch(&state_->refs, 1, __ATOMIC_SEQ_CST);
    }

    ULONG STDMETHODCALLTYPE Release() override
    {
        exception_state *state = state_;
        ULONG refs = __atomic_sub_fetch(&state->refs, 1, __ATOMIC_SEQ_CST);

        if (refs == 0) {
            delete this;
            if (state->in_release)
                state->in_release(state);
        }
        return refs;
    }

    HRESULT STDMETHODCALLTYPE GetStackBackTrace(ULONG max_frames, UINT_PTR *frames,
                                                ULONG *captured) override
    {
        ULONG count = state_->frame_count < max_frames ? state_->frame_count : max_frames;

        log_call(state_, 's');
        state_->room = max_frames;
        for (ULONG i = 0; i < count; i++)
            frames[i] = state_->frames[i];
        *captured = state_->claimed ? state_->claimed : count;
        if (state_->in_stack)
            state_->in_stack(state_);
        return state_->stack_hr;
    }

    HRESULT STDMETHODCALLTYPE GetTransformedRestrictedErrorInfo(IRestrictedErrorInfo **out) override
    {
        log_call(state_, 't');
        if (state_->cause)
            state_->cause->AddRef();
        *out = state_->cause;
        if (state_->in_cause)
            state_->in_cause(state_);
        return state_->cause_hr;
    }

  private:
    exception_state *state_;
};

class info final : public IErrorInfo, public IRestrictedErrorInfo
{
  public:
    explicit info(info_state *state) : state_(state)
    {
        state_->refs = 1;
    }

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, void **out) override
    {
        *out = nullptr;
        if (iid == IID_IUnknown || iid == IID_IErrorInfo)
            *out = static_cast<IErrorInfo *>(this);
        else if (iid == IID_IRestrictedErrorInfo && state_->restricted)
            *out = static_cast<IRestrictedErrorInfo *>(this);
        if (!*out)
            return E_NOINTERFACE;
        AddRef();
        return S_OK;
    }

    ULONG STDMETHODCALLTYPE AddRef() override
    {
        return ++state_->refs;
    }

    ULONG STDMETHODCALLTYPE Release() override
    {
        ULONG refs = --state_->refs;

        if (refs == 0)
            delete this;
        return refs;
    }

    HRESULT STDMETHODCALLTYPE GetGUID(GUID *guid) override
    {
        *guid = GUID_NULL;
        return S_OK;
    }

    HRESULT STDMETHODCALLTYPE GetSource(BSTR *text) override
    {
        return GetDescription(text);
    }

    HRESULT STDMETHODCALLTYPE GetDescription(BSTR *text) override
    {
        *text = SysAllocString(OLESTR("foreign \r\n"));
        return *text ? S_OK : E_OUTOFMEMORY;
    }

    HRESULT STDMETHODCALLTYPE GetHelpFile(BSTR *text) override
    {
        return GetDescription(text);
    }

    HRESULT STDMETHODCALLTYPE GetHelpContext(DWORD *context) override
    {
        *context = 0;
        return S_OK;
    }

    HRESULT STDMETHODCALLTYPE GetErrorDetails(BSTR *description, HRESULT *error, BSTR *message,
                                              BSTR *sid) override
    {
        *description = *message = *sid = nullptr;
        *error = E_ABORT;
        return S_OK;
    }

    HRESULT STDMETHODCALLTYPE GetReference(BSTR *reference) override
    {
        *reference = nullptr;
        return S_OK;
    }

  private:
    info_state *state_;
};

} // namespace

IUnknown *exception_new(exception_state *state)
{
    return static_cast<ILanguageExceptionStackBackTrace *>(new exception(state));
}

IErrorInfo *info_new(info_state *state)
{
    return new info(state);
}
