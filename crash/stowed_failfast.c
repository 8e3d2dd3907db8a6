#include "crash/crash.h"

#include "error/error.h"
#include "inspect/block.h"
#include "report/report.h"

#include <stacksplice/stowed.h>

_Static_assert(sizeof(void *) != 8 || sizeof(STOWED_EXCEPTION_INFORMATION_V2) == 56,
               "debuggers read this layout");

STACKSPLICE_API PSTOWED_EXCEPTION_INFORMATION_V2
    stacksplice_stowed_exceptions[STACKSPLICE_STOWED_MAX];
STACKSPLICE_API uint64_t stacksplice_stowed_thread_ids[STACKSPLICE_STOWED_MAX];
STACKSPLICE_API uint32_t stacksplice_stowed_exception_count;

static STOWED_EXCEPTION_INFORMATION_V2 records[STACKSPLICE_STOWED_MAX];

static bool stow_one(const ss_error_view *view, void *data)
{
    uint32_t at = stacksplice_stowed_exception_count;
    STOWED_EXCEPTION_INFORMATION_V2 *record = &records[at];

    (void)data;
    if (at == STACKSPLICE_STOWED_MAX)
        return false;
    record->Header.Size = sizeof *record;
    record->Header.Signature = STOWED_EXCEPTION_INFORMATION_V2_SIGNATURE;
    record->ResultCode = view->hresult;
    record->ExceptionForm = STOWED_EXCEPTION_FORM_BINARY;
    record->ThreadId = (uint32_t)(view->thread_id >> 2) & 0x3FFFFFFF;
    record->ExceptionAddress = view->frame_count ? (void *)view->frames[0] : NULL;
    record->StackTraceWordSize = sizeof *view->frames;
    record->StackTraceWords = view->frame_count;
    record->StackTrace = (void *)view->frames;
    if (view->language_exception) {
        record->NestedExceptionType = STOWED_EXCEPTION_NESTED_TYPE_LEO;
        record->NestedException = view->language_exception;
    }
    stacksplice_stowed_thread_ids[at] = view->thread_id;
    stacksplice_stowed_exceptions[at] = record;
    stacksplice_stowed_exception_count = at + 1;
    return true;
}

static void stow_all(const ss_facts *facts)
{
    ss_causes causes;
    IUnknown *next;

    stacksplice_stowed_exception_count = 0; /* a child may have inherited the parent's count */
    (void)stow_one(&facts->view, NULL);
    if (!ss_facts_has_chain(facts))
        return;
    ss_error_each_node(facts->error, stow_one, NULL);
    ss_causes_begin(&causes, facts->error);
    while ((next = ss_causes_next(&causes)) != NULL) {
        ss_error_view view;

        if (ss_error_view_get(next, &view))
            (void)stow_one(&view, NULL);
    }
}

/* The error itself says more to readers of a core than its records do. */
void ss_stow(const ss_facts *facts)
{
    const ss_record *record = facts->view.identity;

    stow_all(facts);
    ss_inspection.stowed = (uintptr_t)stacksplice_stowed_exceptions;
    ss_inspection.stowed_thread_ids = (uintptr_t)stacksplice_stowed_thread_ids;
    ss_inspection.stowed_count = stacksplice_stowed_exception_count;
    ss_inspection.failed = facts->error ? (uintptr_t)&record->error->record.fixed : 0;
}
