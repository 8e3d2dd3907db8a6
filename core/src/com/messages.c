#include "com/messages.h"

/* Sorted by value.  Texts without a final full stop lack it on Windows too. */
static const struct {
    uint32_t hr;
    uint32_t length;
    const WCHAR *text;
} messages[] = {
#define MESSAGE(hr, text)                                           \
    {                                                               \
        (uint32_t)(hr), SS_COUNT_OF(text u"\r\n") - 1, text u"\r\n" \
    }
    MESSAGE(E_PENDING, u"The data necessary to complete this operation is not yet available."),
    MESSAGE(E_BOUNDS, u"The operation attempted to access data outside the valid range"),
    MESSAGE(E_CHANGED_STATE, u"A concurrent or interleaved operation changed the state of the "
                             u"object, invalidating this operation."),
    MESSAGE(E_ILLEGAL_STATE_CHANGE, u"An illegal state change was requested."),
    MESSAGE(E_ILLEGAL_METHOD_CALL, u"A method was called at an unexpected time."),
    MESSAGE(RO_E_METADATA_NAME_NOT_FOUND, u"Typename or Namespace was not found in metadata file."),
    MESSAGE(RO_E_METADATA_NAME_IS_NAMESPACE,
            u"Name is an existing namespace rather than a typename."),
    MESSAGE(RO_E_METADATA_INVALID_TYPE_FORMAT, u"Typename has an invalid format."),
    MESSAGE(RO_E_INVALID_METADATA_FILE, u"Metadata file is invalid or corrupted."),
    MESSAGE(RO_E_CLOSED, u"The object has been closed."),
    MESSAGE(RO_E_EXCLUSIVE_WRITE,
            u"Only one thread may access the object during a write operation."),
    MESSAGE(RO_E_CHANGE_NOTIFICATION_IN_PROGRESS,
            u"Operation is prohibited during change notification."),
    MESSAGE(RO_E_ERROR_STRING_NOT_FOUND,
            u"The text associated with this error code could not be found."),
    MESSAGE(E_STRING_NOT_NULL_TERMINATED, u"String not null terminated."),
    MESSAGE(E_ILLEGAL_DELEGATE_ASSIGNMENT, u"A delegate was assigned when not allowed."),
    MESSAGE(E_ASYNC_OPERATION_NOT_STARTED, u"An async operation was not properly started."),
    MESSAGE(E_APPLICATION_EXITING, u"The application is exiting and cannot service this request."),
    MESSAGE(E_APPLICATION_VIEW_EXITING,
            u"The application view is exiting and cannot service this request."),
    MESSAGE(RO_E_MUST_BE_AGILE, u"The object must support the IAgileObject interface."),
    MESSAGE(RO_E_UNSUPPORTED_FROM_MTA,
            u"Activating a single-threaded class from MTA is not supported."),
    MESSAGE(RO_E_COMMITTED, u"The object has been committed."),
    MESSAGE(E_NOTIMPL, u"Not implemented"),
    MESSAGE(E_NOINTERFACE, u"No such interface supported"),
    MESSAGE(E_POINTER, u"Invalid pointer"),
    MESSAGE(E_ABORT, u"Operation aborted"),
    MESSAGE(E_FAIL, u"Unspecified error"),
    MESSAGE(E_UNEXPECTED, u"Catastrophic failure"),
    MESSAGE(RPC_E_CHANGED_MODE, u"Cannot change thread mode after it is set."),
    MESSAGE(RPC_E_DISCONNECTED, u"The object invoked has disconnected from its clients."),
    MESSAGE(RPC_E_WRONG_THREAD,
            u"The application called an interface that was marshalled for a different thread."),
    MESSAGE(DISP_E_UNKNOWNINTERFACE, u"Unknown interface."),
    MESSAGE(DISP_E_MEMBERNOTFOUND, u"Member not found."),
    MESSAGE(DISP_E_PARAMNOTFOUND, u"Parameter not found."),
    MESSAGE(DISP_E_TYPEMISMATCH, u"Type mismatch."),
    MESSAGE(DISP_E_UNKNOWNNAME, u"Unknown name."),
    MESSAGE(DISP_E_BADVARTYPE, u"Bad variable type."),
    MESSAGE(DISP_E_EXCEPTION, u"Exception occurred."),
    MESSAGE(DISP_E_OVERFLOW, u"Out of present range."),
    MESSAGE(DISP_E_BADINDEX, u"Invalid index."),
    MESSAGE(DISP_E_BADPARAMCOUNT, u"Invalid number of parameters."),
    MESSAGE(DISP_E_PARAMNOTOPTIONAL, u"Parameter not optional."),
    MESSAGE(DISP_E_DIVBYZERO, u"Division by zero."),
    MESSAGE(CLASS_E_NOAGGREGATION,
            u"Class does not support aggregation (or class object is remote)"),
    MESSAGE(CLASS_E_CLASSNOTAVAILABLE, u"ClassFactory cannot supply requested class"),
    MESSAGE(REGDB_E_CLASSNOTREG, u"Class not registered"),
    MESSAGE(CO_E_NOTINITIALIZED, u"CoInitialize has not been called."),
    MESSAGE(CO_E_OBJNOTREG, u"Object is not registered"),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND),
            u"The system cannot find the file specified."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_PATH_NOT_FOUND),
            u"The system cannot find the path specified."),
    MESSAGE(E_ACCESSDENIED, u"Access is denied."),
    MESSAGE(E_HANDLE, u"The handle is invalid."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_BAD_FORMAT),
            u"An attempt was made to load a program with an incorrect format."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_INVALID_DATA), u"The data is invalid."),
    MESSAGE(E_OUTOFMEMORY,
            u"Not enough memory resources are available to complete this operation."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_HANDLE_EOF), u"Reached the end of the file."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED), u"The request is not supported."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_FILE_EXISTS), u"The file exists."),
    MESSAGE(E_INVALIDARG, u"The parameter is incorrect."),
    MESSAGE(E_NOT_SUFFICIENT_BUFFER, u"The data area passed to a system call is too small."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND), u"The specified module could not be found."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_FILENAME_EXCED_RANGE),
            u"The filename or extension is too long."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_MORE_DATA), u"More data is available."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_ARITHMETIC_OVERFLOW),
            u"Arithmetic result exceeded 32 bits."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_UNHANDLED_EXCEPTION), u"{Application Error}"),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_STACK_OVERFLOW),
            u"Recursion too deep; the stack overflowed."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_NO_UNICODE_TRANSLATION),
            u"No mapping for the Unicode character exists in the target multi-byte code page."),
    MESSAGE(E_NOT_SET, u"Element not found."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_CANCELLED), u"The operation was canceled by the user."),
    MESSAGE(__HRESULT_FROM_WIN32(ERROR_TIMEOUT),
            u"This operation returned because the timeout period expired."),
    MESSAGE(__HRESULT_FROM_WIN32(RPC_S_SERVER_UNAVAILABLE), u"The RPC server is unavailable."),
    MESSAGE(E_NOT_VALID_STATE, u"The group or resource is not in the correct state to perform the "
                               u"requested operation."),
#undef MESSAGE
};

static const WCHAR *find(uint32_t hr, uint32_t *length)
{
    size_t low = 0;
    size_t high = SS_COUNT_OF(messages);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (messages[middle].hr == hr) {
            *length = messages[middle].length;
            return messages[middle].text;
        }
        if (messages[middle].hr < hr)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const WCHAR *ss_message_text(HRESULT hr, uint32_t *length)
{
    const WCHAR *text = find((uint32_t)hr, length);

    return text ? text : find((uint32_t)RO_E_ERROR_STRING_NOT_FOUND, length);
}
