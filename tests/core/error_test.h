/* For the tests of the error layer. */
#ifndef STACKSPLICE_TEST_ERROR_H
#define STACKSPLICE_TEST_ERROR_H

#include "error_double.h"
#include "support.h"

#define UNKNOWN(object) ((IUnknown *)(void *)(object))

static inline void release(void *object)
{
    if (object)
        UNKNOWN(object)->lpVtbl->Release(object);
}

static inline void *query(void *object, REFIID iid)
{
    void *out = NULL;

    assert_int_equal(UNKNOWN(object)->lpVtbl->QueryInterface(object, iid, &out), S_OK);
    return out;
}

static inline IRestrictedErrorInfo *take(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    return error;
}

/* An error for HR, and one with X as its language exception; taken. */
static inline IRestrictedErrorInfo *originated(HRESULT hr)
{
    RoOriginateError(hr, NULL);
    return take();
}

static inline IRestrictedErrorInfo *originated_with(HRESULT hr, error_double *x)
{
    RoOriginateLanguageException(hr, NULL, error_double_unknown(x));
    return take();
}

/* The newest propagation node, with a reference, or NULL. */
static inline ILanguageExceptionErrorInfo2 *head_of(void *error)
{
    ILanguageExceptionErrorInfo2 *info = query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *head = NULL;

    assert_int_equal(info->lpVtbl->GetPropagationContextHead(info, &head), S_OK);
    release(info);
    return head;
}

static inline int fresh(void **state)
{
    RoClearError();
    (void)stacksplice_set_max_frames(512);
    return RoSetErrorReportingFlags(RO_ERROR_REPORTING_USESETERRORINFO) == S_OK ? 0 : -1;
}

/* A test that begins with an empty slot, and with what is set as it was at first. */
#define FRESH_TEST(name) TEST_WITH(name, fresh, NULL)

/* The restricted description of ERROR as UTF-8. */
static inline void message_of(IRestrictedErrorInfo *error, char *out, size_t capacity)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr;

    assert_int_equal(error->lpVtbl->GetErrorDetails(error, &description, &hr, &message, &sid),
                     S_OK);
    assert_true(stacksplice_utf8(message, SysStringLen(message), out, capacity) < capacity);
    SysFreeString(description);
    SysFreeString(message);
}

#endif
