#include "crash/crash.h"

#include "base/thread.h"

typedef struct handler {
    stacksplice_unhandled_callback call;
    void *data;
} handler;

SS_LOCK(lock);
static handler installed; /* (LOCK) */

stacksplice_hresult stacksplice_set_unhandled_handler(stacksplice_unhandled_callback f, void *data)
{
    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted this very function */
    installed = (handler){f, data};
    ss_lock_drop(&lock);
    return S_OK;
}

static handler current(void)
{
    handler h = {NULL, NULL};

    if (ss_lock_take(&lock)) {
        h = installed;
        ss_lock_drop(&lock);
    }
    return h;
}

stacksplice_hresult stacksplice_offer_unhandled(IRestrictedErrorInfo *error)
{
    ss_facts facts;
    handler h = current();
    bool handled;

    if (!error)
        return h.call ? S_OK : S_FALSE;
    if (!ss_facts_get((IUnknown *)error, &facts))
        return E_INVALIDARG;
    handled = h.call && h.call(error, h.data);
    ss_facts_release(&facts);
    return handled ? S_OK : S_FALSE;
}

static HRESULT report(IRestrictedErrorInfo *error, const char *event, const void *above)
{
    ss_facts facts;
    handler h;

    if (!error || !ss_facts_get((IUnknown *)error, &facts))
        return E_INVALIDARG;
    h = current();
    if (!h.call || !h.call(error, h.data))
        ss_crash(&facts, event, above);
    ss_facts_release(&facts);
    return S_OK;
}

HRESULT RoReportUnhandledError(IRestrictedErrorInfo *error)
{
    return report(error, "RoReportUnhandledError", SS_HERE());
}

HRESULT RoReportFailedDelegate(IUnknown *delegate, IRestrictedErrorInfo *error)
{
    (void)delegate; /* its stack identifies the delegate */
    return report(error, "RoReportFailedDelegate", SS_HERE());
}
