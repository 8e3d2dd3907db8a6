#include "com/messages.h"

#include "base/platform.h"

#include <stacksplice/script.h>
#include <errno.h>

/* Sorted by value.  Texts without a final full stop lack it on Windows too. */
typedef struct message {
    uint32_t hr;
    uint32_t length;
    const WCHAR *text; /* NULL: none */
    const char *symbol;
} message;

static const message messages[] = {
#define ROW(hr, text, symbol)                                               \
    {                                                                       \
        (uint32_t)(hr), SS_COUNT_OF(text u"\r\n") - 1, text u"\r\n", symbol \
    }
#define MESSAGE(hr, text) ROW(hr, text, #hr)
#define WIN32(code, text) ROW(__HRESULT_FROM_WIN32(code), text, #code)
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
    {0x80020101, 0, NULL, "SCRIPT_E_REPORTED"},
    MESSAGE(CLASS_E_NOAGGREGATION,
            u"Class does not support aggregation (or class object is remote)"),
    MESSAGE(CLASS_E_CLASSNOTAVAILABLE, u"ClassFactory cannot supply requested class"),
    MESSAGE(REGDB_E_CLASSNOTREG, u"Class not registered"),
    MESSAGE(CO_E_NOTINITIALIZED, u"CoInitialize has not been called."),
    MESSAGE(CO_E_OBJNOTREG, u"Object is not registered"),
    WIN32(ERROR_FILE_NOT_FOUND, u"The system cannot find the file specified."),
    WIN32(ERROR_PATH_NOT_FOUND, u"The system cannot find the path specified."),
    MESSAGE(E_ACCESSDENIED, u"Access is denied."),
    MESSAGE(E_HANDLE, u"The handle is invalid."),
    WIN32(ERROR_BAD_FORMAT, u"An attempt was made to load a program with an incorrect format."),
    WIN32(ERROR_INVALID_DATA, u"The data is invalid."),
    MESSAGE(E_OUTOFMEMORY,
            u"Not enough memory resources are available to complete this operation."),
    WIN32(ERROR_HANDLE_EOF, u"Reached the end of the file."),
    WIN32(ERROR_NOT_SUPPORTED, u"The request is not supported."),
    WIN32(ERROR_FILE_EXISTS, u"The file exists."),
    MESSAGE(E_INVALIDARG, u"The parameter is incorrect."),
    MESSAGE(E_NOT_SUFFICIENT_BUFFER, u"The data area passed to a system call is too small."),
    WIN32(ERROR_MOD_NOT_FOUND, u"The specified module could not be found."),
    {0x800700B7, 0, NULL, "ERROR_ALREADY_EXISTS"},
    WIN32(ERROR_FILENAME_EXCED_RANGE, u"The filename or extension is too long."),
    WIN32(ERROR_MORE_DATA, u"More data is available."),
    WIN32(ERROR_ARITHMETIC_OVERFLOW, u"Arithmetic result exceeded 32 bits."),
    WIN32(ERROR_UNHANDLED_EXCEPTION, u"{Application Error}"),
    WIN32(ERROR_STACK_OVERFLOW, u"Recursion too deep; the stack overflowed."),
    WIN32(ERROR_NO_UNICODE_TRANSLATION,
          u"No mapping for the Unicode character exists in the target multi-byte code page."),
    WIN32(ERROR_NOT_FOUND, u"Element not found."),
    WIN32(ERROR_CANCELLED, u"The operation was canceled by the user."),
    WIN32(ERROR_TIMEOUT, u"This operation returned because the timeout period expired."),
    WIN32(RPC_S_SERVER_UNAVAILABLE, u"The RPC server is unavailable."),
    MESSAGE(E_NOT_VALID_STATE, u"The group or resource is not in the correct state to perform the "
                               u"requested operation."),
#undef WIN32
#undef MESSAGE
#undef ROW
};

static const message *find(uint32_t hr)
{
    size_t low = 0;
    size_t high = SS_COUNT_OF(messages);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (messages[middle].hr == hr)
            return &messages[middle];
        if (messages[middle].hr < hr)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const WCHAR *ss_message_text(HRESULT hr, uint32_t *length)
{
    const message *found = find((uint32_t)hr);

    if (!found || !found->text)
        found = find((uint32_t)RO_E_ERROR_STRING_NOT_FOUND);
    *length = found->length;
    return found->text;
}

const char *ss_hresult_symbol(HRESULT hr)
{
    const message *found = find((uint32_t)hr);

    return found ? found->symbol : NULL;
}

/* ---- From errno to its Windows counterpart, and back ------------------------------------------*/

/*
 * HRESULT_FROM_WIN32 for codes of winerror.h; else the customer bit, facility 0x53 and the errno.
 */
#define FACILITY_BITS UINT32_C(0xFFFF0000)
#define WIN32_BITS UINT32_C(0x80070000)
#define ERRNO_BITS UINT32_C(0xA0530000)

/* To an HRESULT, the first row of an errno wins; back, the first row of a code. */
static const struct {
    int number;
    uint16_t win32;
} rows[] = {
    {ENOENT, 2}, /* FILE_NOT_FOUND */
    {ENOENT, 3}, /* PATH_NOT_FOUND */
    {EMFILE, 4}, /* TOO_MANY_OPEN_FILES */
    {EACCES, 5}, /* ACCESS_DENIED */
    {EPERM, 5},
    {EBADF, 6},             /* INVALID_HANDLE */
    {ENOMEM, 14},           /* OUTOFMEMORY */
    {EXDEV, 17},            /* NOT_SAME_DEVICE */
    {EROFS, 19},            /* WRITE_PROTECT */
    {ENODEV, 20},           /* BAD_UNIT */
    {ENXIO, 55},            /* DEV_NOT_EXIST */
    {EIO, 1117},            /* IO_DEVICE */
    {EEXIST, 80},           /* FILE_EXISTS */
    {EEXIST, 183},          /* ALREADY_EXISTS */
    {EINVAL, 87},           /* INVALID_PARAMETER */
    {EPIPE, 109},           /* BROKEN_PIPE */
    {EPIPE, 232},           /* NO_DATA: the pipe is being closed */
    {ENOSPC, 112},          /* DISK_FULL */
    {ENOSPC, 39},           /* HANDLE_DISK_FULL */
    {ENOSYS, 120},          /* CALL_NOT_IMPLEMENTED */
    {ENOTEMPTY, 145},       /* DIR_NOT_EMPTY */
    {EBUSY, 170},           /* BUSY */
    {ENOEXEC, 193},         /* BAD_EXE_FORMAT */
    {ENAMETOOLONG, 206},    /* FILENAME_EXCED_RANGE */
    {EFBIG, 223},           /* FILE_TOO_LARGE */
    {ECHILD, 128},          /* WAIT_NO_CHILDREN */
    {ENOTDIR, 267},         /* DIRECTORY */
    {EISDIR, 336},          /* DIRECTORY_NOT_SUPPORTED */
    {ESRCH, 1168},          /* NOT_FOUND */
    {ENOTSUP, 50},          /* NOT_SUPPORTED */
    {EDEADLK, 1131},        /* POSSIBLE_DEADLOCK */
    {EMLINK, 1142},         /* TOO_MANY_LINKS */
    {ELOOP, 1921},          /* CANT_RESOLVE_FILENAME */
    {ENOTCONN, 2250},       /* NOT_CONNECTED */
    {ECANCELED, 1223},      /* CANCELLED */
    {ETIMEDOUT, 1460},      /* TIMEOUT */
    {EINTR, 10004},         /* WSAEINTR */
    {EAGAIN, 10035},        /* WSAEWOULDBLOCK */
    {EINPROGRESS, 10036},   /* WSAEINPROGRESS */
    {EALREADY, 10037},      /* WSAEALREADY */
    {ENOTSOCK, 10038},      /* WSAENOTSOCK */
    {EMSGSIZE, 10040},      /* WSAEMSGSIZE */
    {EADDRINUSE, 10048},    /* WSAEADDRINUSE */
    {EADDRNOTAVAIL, 10049}, /* WSAEADDRNOTAVAIL */
    {ENETDOWN, 10050},      /* WSAENETDOWN */
    {ENETUNREACH, 10051},   /* WSAENETUNREACH */
    {ECONNABORTED, 1236},   /* CONNECTION_ABORTED */
    {ECONNRESET, 10054},    /* WSAECONNRESET */
    {ENOBUFS, 10055},       /* WSAENOBUFS */
    {EISCONN, 10056},       /* WSAEISCONN */
    {ECONNREFUSED, 1225},   /* CONNECTION_REFUSED */
    {EHOSTUNREACH, 1232},   /* HOST_UNREACHABLE */
};

stacksplice_hresult stacksplice_hresult_from_errno(int number)
{
    if (number <= 0 || number > 0xFFFF)
        return E_FAIL;
    for (size_t i = 0; i < SS_COUNT_OF(rows); i++)
        if (rows[i].number == number)
            return (stacksplice_hresult)(WIN32_BITS | rows[i].win32);
    return (stacksplice_hresult)(ERRNO_BITS | (uint32_t)number);
}

int stacksplice_errno_from_hresult(stacksplice_hresult hr)
{
    uint32_t code = (uint32_t)hr & ~FACILITY_BITS;

    if (((uint32_t)hr & FACILITY_BITS) == ERRNO_BITS)
        return (int)code;
    if (((uint32_t)hr & FACILITY_BITS) == WIN32_BITS)
        for (size_t i = 0; i < SS_COUNT_OF(rows); i++)
            if (rows[i].win32 == code)
                return rows[i].number;
    return 0;
}
