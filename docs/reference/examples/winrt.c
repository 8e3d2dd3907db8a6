/* The Windows Runtime's error API. */
#include <assert.h>
#define COBJMACROS
#include <stacksplice/stacksplice.h>
#include <stdio.h>

/* ---- Strings ---------------------------------------------------------------------------------*/

static void make_strings(void)
{
    HSTRING text, again, constant;
    HSTRING_HEADER header;
    UINT32 length;

    if (FAILED(WindowsCreateString(u"no rate", 7, &text)))
        return;
    WindowsDuplicateString(text, &again); /* a reference, no copy */
    assert(WindowsGetStringRawBuffer(again, &length)[length - 1] == u'e');
    WindowsDeleteString(again);
    WindowsDeleteString(text);

    /* Without an allocation: it needs no deletion, and lives as long as its header. */
    WindowsCreateStringReference(u"no price", 8, &header, &constant);
    assert(WindowsGetStringLen(constant) == 8 && !WindowsIsStringEmpty(constant));
}

static void make_bstrings(void)
{
    BSTR text = SysAllocString(u"no rate"), part = SysAllocStringLen(u"no rate", 2),
         bytes = SysAllocStringByteLen("abc", 3);

    assert(SysStringLen(text) == 7 && SysStringLen(part) == 2 && SysStringByteLen(bytes) == 3);
    SysFreeString(text);
    SysFreeString(part);
    SysFreeString(bytes);
}

/* ---- Origination -----------------------------------------------------------------------------*/

static HRESULT find_rate(void)
{
    RoOriginateErrorW(E_BOUNDS, 0, u"no rate"); /* 0: up to the NUL */
    return E_BOUNDS;
}

static HRESULT find_rate_of(HSTRING message)
{
    RoOriginateError(E_BOUNDS, message);
    return E_BOUNDS;
}

/* The error that a caller sees is another one, and names that of find_rate as its cause. */
static HRESULT price(void)
{
    HRESULT hr = find_rate();

    if (FAILED(hr)) {
        RoTransformErrorW(hr, E_INVALIDARG, 0, u"no price");
        return E_INVALIDARG;
    }
    return hr;
}

static HRESULT price_of(HSTRING message)
{
    RoTransformError(find_rate(), E_INVALIDARG, message);
    return E_INVALIDARG;
}

/* EXCEPTION is the object of a language that stands for the error. */
static HRESULT leave_language(HSTRING message, IUnknown *exception)
{
    RoOriginateLanguageException(E_FAIL, message, exception);
    return E_FAIL;
}

/* Errors that are expected, such as in a loop of trials, are not stored. */
static void without_origination(HRESULT (*run)(void))
{
    UINT32 flags;

    RoGetErrorReportingFlags(&flags);
    RoSetErrorReportingFlags(flags | RO_ERROR_REPORTING_SUPPRESSSETERRORINFO);
    (void)run();
    RoSetErrorReportingFlags(flags);
}

/* ---- The thread's error ----------------------------------------------------------------------*/

static HRESULT print_error(IRestrictedErrorInfo *error)
{
    BSTR description, message, sid;
    HRESULT hr = S_OK;

    if (SUCCEEDED(IRestrictedErrorInfo_GetErrorDetails(error, &description, &hr, &message, &sid))) {
        printf("%08x, %u characters\n", (unsigned)hr, (unsigned)SysStringLen(message));
        SysFreeString(description);
        SysFreeString(message);
        SysFreeString(sid);
    }
    return hr;
}

/* The failed call's error leaves the thread, and belongs to the caller. */
static HRESULT handle(void)
{
    IRestrictedErrorInfo *error;
    HRESULT hr = S_OK;

    if (GetRestrictedErrorInfo(&error) == S_OK) {
        hr = print_error(error);
        IRestrictedErrorInfo_Release(error);
    }
    return hr;
}

/* The same for a given HRESULT: a stale error of another one is replaced. */
static HRESULT handle_failure(HRESULT hr)
{
    IRestrictedErrorInfo *error;

    if (FAILED(hr) && RoGetMatchingRestrictedErrorInfo(hr, &error) == S_OK) {
        print_error(error);
        IRestrictedErrorInfo_Release(error);
    }
    return hr;
}

/* Ask, and put the error back for the caller. */
static void look(void)
{
    IRestrictedErrorInfo *error;

    if (IsErrorPropagationEnabled() && GetRestrictedErrorInfo(&error) == S_OK) {
        print_error(error);
        SetRestrictedErrorInfo(error);
        IRestrictedErrorInfo_Release(error);
    }
}

/* As COM Automation sees the thread's error. */
static void move_error_info(void)
{
    IErrorInfo *info;

    if (GetErrorInfo(0, &info) == S_OK) {
        SetErrorInfo(0, info);
        info->lpVtbl->Release(info);
    }
}

static void ignore(HRESULT hr)
{
    if (FAILED(hr))
        RoClearError();
}

/* A text that stands for an error, for code that can pass only texts. */
static HRESULT by_reference(IRestrictedErrorInfo *error)
{
    IRestrictedErrorInfo *same = NULL;
    BSTR reference;
    HRESULT hr = IRestrictedErrorInfo_GetReference(error, &reference);

    if (FAILED(hr))
        return hr;
    hr = RoResolveRestrictedErrorInfoReference(reference, &same);
    SysFreeString(reference);
    if (SUCCEEDED(hr)) {
        assert(same == error);
        IRestrictedErrorInfo_Release(same);
    }
    return hr;
}

/* ---- The language exception and the chain ----------------------------------------------------*/

/* Interfaces of an error: the exception of its language, and the languages that received it. */
static void ask_language(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info, *node = NULL, *cause = NULL;
    IUnknown *exception = NULL;
    void *out;

    if (FAILED(IRestrictedErrorInfo_QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &out)))
        return;
    info = out;
    ILanguageExceptionErrorInfo2_GetLanguageException(info, &exception);
    if (exception)
        IUnknown_Release(exception);
    ILanguageExceptionErrorInfo2_CapturePropagationContext(info, NULL); /* it came by here */
    ILanguageExceptionErrorInfo2_GetPropagationContextHead(info, &node);
    if (node)
        ILanguageExceptionErrorInfo2_Release(node);
    ILanguageExceptionErrorInfo2_GetPreviousLanguageExceptionErrorInfo(info, &cause);
    if (cause)
        ILanguageExceptionErrorInfo2_Release(cause);
    ILanguageExceptionErrorInfo2_Release(info);
}

/* ---- A language's exception ------------------------------------------------------------------*/

/* What a language without a binding gives to leave_language: an object that knows its cause. */
static IRestrictedErrorInfo *cause_of_exception;

static HRESULT exception_QueryInterface(ILanguageExceptionTransform *self, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_ILanguageExceptionTransform))
        return E_NOINTERFACE;
    *out = self;
    return S_OK;
}

/* It lives as long as the process. */
static ULONG exception_AddRef(ILanguageExceptionTransform *self)
{
    (void)self;
    return 1;
}

static HRESULT exception_GetTransformedRestrictedErrorInfo(ILanguageExceptionTransform *self,
                                                           IRestrictedErrorInfo **cause)
{
    (void)self;
    *cause = cause_of_exception;
    if (*cause)
        IRestrictedErrorInfo_AddRef(*cause);
    return S_OK;
}

static const ILanguageExceptionTransformVtbl methods = {
    exception_QueryInterface, exception_AddRef, exception_AddRef,
    exception_GetTransformedRestrictedErrorInfo};
static ILanguageExceptionTransform exception = {&methods};

/* ---- Native stacks ---------------------------------------------------------------------------*/

static USHORT native_frames(void)
{
    void *frames[62];
    ULONG hash;

    assert(RtlWalkFrameChain(frames, 62, 0) > 0);
    return RtlCaptureStackBackTrace(0, 62, frames, &hash);
}

/* ---- The end ---------------------------------------------------------------------------------*/

static int accept(IRestrictedErrorInfo *error, void *unused)
{
    (void)unused;
    return SUCCEEDED(print_error(error)) ? 0 : 1; /* nonzero: handled, the process goes on */
}

/* A loop of events: an event's failure has nobody to go to.  Without a handler the process ends. */
static void dispatch(HRESULT (*event)(void), IUnknown *delegate)
{
    IRestrictedErrorInfo *error;

    if (FAILED(event()) && GetRestrictedErrorInfo(&error) == S_OK) {
        if (delegate)
            RoReportFailedDelegate(delegate, error);
        else
            RoReportUnhandledError(error);
        IRestrictedErrorInfo_Release(error);
    }
}

/* The stack of the place where it is known that nothing can go on; then the end, with a report. */
static void end(HRESULT hr)
{
    RoCaptureErrorContext(hr);
    RoFailFastWithErrorContext(hr);
}

int main(int count, char **arguments)
{
    IRestrictedErrorInfo *error;
    HSTRING message = NULL;

    (void)arguments;
    if (count > 1)
        end(find_rate());
    make_strings();
    make_bstrings();
    assert(find_rate_of(message) == E_BOUNDS && handle() == E_BOUNDS && handle() == S_OK);
    assert(handle_failure(price()) == E_INVALIDARG && price_of(message) == E_INVALIDARG);
    look();
    move_error_info();
    assert(GetRestrictedErrorInfo(&error) == S_OK && by_reference(error) == S_OK);
    ask_language(error);
    cause_of_exception = error;
    assert(leave_language(message, (IUnknown *)&exception) == E_FAIL && handle() == E_FAIL);
    IRestrictedErrorInfo_Release(error);
    without_origination(find_rate);
    assert(handle() == S_OK);
    ignore(find_rate());
    assert(native_frames() > 0);
    stacksplice_set_unhandled_handler(accept, NULL);
    dispatch(find_rate, NULL);
    dispatch(find_rate, (IUnknown *)&exception);
    puts("\nok");
    return 0;
}
