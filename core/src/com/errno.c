/* Maps errno to its Windows counterpart and back. */
#include "base/platform.h"

#include <errno.h>
#include <stacksplice/script.h>

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
