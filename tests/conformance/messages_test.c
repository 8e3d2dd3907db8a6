/* Values of the HRESULT constants and the system's texts. */
#include "conformance.h"

/* NULL: the text differs between versions of Windows and is not compared. */
static const struct {
    HRESULT hr;
    uint32_t value;
    PCWSTR text;
} message_cases[] = {
    {E_PENDING, 0x8000000A,
     OLESTR("The data necessary to complete this operation is not yet available.\r\n")},
    {E_BOUNDS, 0x8000000B,
     OLESTR("The operation attempted to access data outside the valid range\r\n")},
    {E_CHANGED_STATE, 0x8000000C,
     OLESTR("A concurrent or interleaved operation changed the state of the object, invalidating "
            "this operation.\r\n")},
    {E_ILLEGAL_STATE_CHANGE, 0x8000000D, OLESTR("An illegal state change was requested.\r\n")},
    {E_ILLEGAL_METHOD_CALL, 0x8000000E, OLESTR("A method was called at an unexpected time.\r\n")},
    {RO_E_METADATA_NAME_NOT_FOUND, 0x8000000F,
     OLESTR("Typename or Namespace was not found in metadata file.\r\n")},
    {RO_E_METADATA_NAME_IS_NAMESPACE, 0x80000010,
     OLESTR("Name is an existing namespace rather than a typename.\r\n")},
    {RO_E_METADATA_INVALID_TYPE_FORMAT, 0x80000011, OLESTR("Typename has an invalid format.\r\n")},
    {RO_E_INVALID_METADATA_FILE, 0x80000012, OLESTR("Metadata file is invalid or corrupted.\r\n")},
    {RO_E_CLOSED, 0x80000013, OLESTR("The object has been closed.\r\n")},
    {RO_E_EXCLUSIVE_WRITE, 0x80000014,
     OLESTR("Only one thread may access the object during a write operation.\r\n")},
    {RO_E_CHANGE_NOTIFICATION_IN_PROGRESS, 0x80000015,
     OLESTR("Operation is prohibited during change notification.\r\n")},
    {RO_E_ERROR_STRING_NOT_FOUND, 0x80000016,
     OLESTR("The text associated with this error code could not be found.\r\n")},
    {E_STRING_NOT_NULL_TERMINATED, 0x80000017, OLESTR("String not null terminated.\r\n")},
    {E_ILLEGAL_DELEGATE_ASSIGNMENT, 0x80000018,
     OLESTR("A delegate was assigned when not allowed.\r\n")},
    {E_ASYNC_OPERATION_NOT_STARTED, 0x80000019,
     OLESTR("An async operation was not properly started.\r\n")},
    {E_APPLICATION_EXITING, 0x8000001A,
     OLESTR("The application is exiting and cannot service this request.\r\n")},
    {E_APPLICATION_VIEW_EXITING, 0x8000001B,
     OLESTR("The application view is exiting and cannot service this request.\r\n")},
    {RO_E_MUST_BE_AGILE, 0x8000001C,
     OLESTR("The object must support the IAgileObject interface.\r\n")},
    {RO_E_UNSUPPORTED_FROM_MTA, 0x8000001D,
     OLESTR("Activating a single-threaded class from MTA is not supported.\r\n")},
    {RO_E_COMMITTED, 0x8000001E, OLESTR("The object has been committed.\r\n")},
    {E_NOTIMPL, 0x80004001, OLESTR("Not implemented\r\n")},
    {E_NOINTERFACE, 0x80004002, OLESTR("No such interface supported\r\n")},
    {E_POINTER, 0x80004003, OLESTR("Invalid pointer\r\n")},
    {E_ABORT, 0x80004004, OLESTR("Operation aborted\r\n")},
    {E_FAIL, 0x80004005, OLESTR("Unspecified error\r\n")},
    {E_UNEXPECTED, 0x8000FFFF, OLESTR("Catastrophic failure\r\n")},
    {RPC_E_DISCONNECTED, 0x80010108,
     OLESTR("The object invoked has disconnected from its clients.\r\n")},
    {RPC_E_CHANGED_MODE, 0x80010106, OLESTR("Cannot change thread mode after it is set.\r\n")},
    {RPC_E_WRONG_THREAD, 0x8001010E,
     OLESTR("The application called an interface that was marshalled for a different thread.\r\n")},
    {DISP_E_UNKNOWNINTERFACE, 0x80020001, OLESTR("Unknown interface.\r\n")},
    {DISP_E_MEMBERNOTFOUND, 0x80020003, OLESTR("Member not found.\r\n")},
    {DISP_E_PARAMNOTFOUND, 0x80020004, OLESTR("Parameter not found.\r\n")},
    {DISP_E_TYPEMISMATCH, 0x80020005, OLESTR("Type mismatch.\r\n")},
    {DISP_E_UNKNOWNNAME, 0x80020006, OLESTR("Unknown name.\r\n")},
    {DISP_E_BADVARTYPE, 0x80020008, OLESTR("Bad variable type.\r\n")},
    {DISP_E_EXCEPTION, 0x80020009, OLESTR("Exception occurred.\r\n")},
    {DISP_E_OVERFLOW, 0x8002000A, OLESTR("Out of present range.\r\n")},
    {DISP_E_BADINDEX, 0x8002000B, OLESTR("Invalid index.\r\n")},
    {DISP_E_BADPARAMCOUNT, 0x8002000E, OLESTR("Invalid number of parameters.\r\n")},
    {DISP_E_PARAMNOTOPTIONAL, 0x8002000F, OLESTR("Parameter not optional.\r\n")},
    {DISP_E_DIVBYZERO, 0x80020012, OLESTR("Division by zero.\r\n")},
    {STG_E_FILENOTFOUND, 0x80030002, NULL}, /* "%1 could not be found." */
    {CLASS_E_NOAGGREGATION, 0x80040110,
     OLESTR("Class does not support aggregation (or class object is remote)\r\n")},
    {CLASS_E_CLASSNOTAVAILABLE, 0x80040111,
     OLESTR("ClassFactory cannot supply requested class\r\n")},
    {REGDB_E_CLASSNOTREG, 0x80040154, OLESTR("Class not registered\r\n")},
    {CO_E_NOTINITIALIZED, 0x800401F0, OLESTR("CoInitialize has not been called.\r\n")},
    {CO_E_OBJNOTREG, 0x800401FB, OLESTR("Object is not registered\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND), 0x80070002,
     OLESTR("The system cannot find the file specified.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_PATH_NOT_FOUND), 0x80070003,
     OLESTR("The system cannot find the path specified.\r\n")},
    {E_ACCESSDENIED, 0x80070005, OLESTR("Access is denied.\r\n")},
    {E_HANDLE, 0x80070006, OLESTR("The handle is invalid.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_BAD_FORMAT), 0x8007000B,
     OLESTR("An attempt was made to load a program with an incorrect format.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_INVALID_DATA), 0x8007000D, OLESTR("The data is invalid.\r\n")},
    {E_OUTOFMEMORY, 0x8007000E, NULL},
    {__HRESULT_FROM_WIN32(ERROR_HANDLE_EOF), 0x80070026,
     OLESTR("Reached the end of the file.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_NOT_SUPPORTED), 0x80070032,
     OLESTR("The request is not supported.\r\n")},
    {E_INVALIDARG, 0x80070057, OLESTR("The parameter is incorrect.\r\n")},
    {E_NOT_SUFFICIENT_BUFFER, 0x8007007A,
     OLESTR("The data area passed to a system call is too small.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_FILENAME_EXCED_RANGE), 0x800700CE,
     OLESTR("The filename or extension is too long.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_MORE_DATA), 0x800700EA, OLESTR("More data is available.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_ARITHMETIC_OVERFLOW), 0x80070216,
     OLESTR("Arithmetic result exceeded 32 bits.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_UNHANDLED_EXCEPTION), 0x8007023E, NULL},
    {__HRESULT_FROM_WIN32(ERROR_STACK_OVERFLOW), 0x800703E9,
     OLESTR("Recursion too deep; the stack overflowed.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_NO_UNICODE_TRANSLATION), 0x80070459,
     OLESTR("No mapping for the Unicode character exists in the target multi-byte code page.\r\n")},
    {E_NOT_SET, 0x80070490, OLESTR("Element not found.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_CANCELLED), 0x800704C7,
     OLESTR("The operation was canceled by the user.\r\n")},
    {__HRESULT_FROM_WIN32(ERROR_TIMEOUT), 0x800705B4,
     OLESTR("This operation returned because the timeout period expired.\r\n")},
    {__HRESULT_FROM_WIN32(RPC_S_SERVER_UNAVAILABLE), 0x800706BA,
     OLESTR("The RPC server is unavailable.\r\n")},
    {E_NOT_VALID_STATE, 0x8007139F,
     OLESTR("The group or resource is not in the correct state to perform the requested "
            "operation.\r\n")},
    {JSCRIPT_E_CANTEXECUTE, 0x89020001, NULL},
};

FRESH_TEST(test_codes_have_their_values_and_texts)
{
    for (size_t i = 0; i < COUNT_OF(message_cases); i++) {
        IErrorInfo *info = NULL;
        BSTR text = NULL;

        check_row(i, (uint32_t)message_cases[i].hr, message_cases[i].value);
        RoOriginateError(message_cases[i].hr, NULL);
        assert_int_equal(GetErrorInfo(0, &info), S_OK);
        assert_int_equal(CALL(info, GetDescription, &text), S_OK);
        if (message_cases[i].text)
            check_text(text, message_cases[i].text);
        assert_int_equal(text[SysStringLen(text) - 2], '\r');
        assert_int_equal(text[SysStringLen(text) - 1], '\n');
        SysFreeString(text);
        release(info);
    }
}

static const struct {
    uint32_t given, want;
} win32_cases[] = {
    {0, 0}, /* ERROR_SUCCESS stays S_OK */
    {2, 0x80070002},
    {0xFFFF, 0x8007FFFF},
    {0x12345, 0x80072345},    /* only the low half is a code */
    {0x80004005, 0x80004005}, /* an HRESULT passes through */
    {0x80070002, 0x80070002},
    {0x7FFFFFFF, 0x8007FFFF},
};

TEST(test_hresult_from_win32)
{
    for (size_t i = 0; i < COUNT_OF(win32_cases); i++) {
        check_row(i, (uint32_t)HRESULT_FROM_WIN32(win32_cases[i].given), win32_cases[i].want);
        check_row(i, (uint32_t)__HRESULT_FROM_WIN32(win32_cases[i].given), win32_cases[i].want);
    }
}

TEST(test_hresult_parts)
{
    assert_int_equal(E_NOT_SET, HRESULT_FROM_WIN32(ERROR_NOT_FOUND));
    assert_int_equal(E_NOT_VALID_STATE, HRESULT_FROM_WIN32(ERROR_INVALID_STATE));
    assert_int_equal(E_NOT_SUFFICIENT_BUFFER, HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER));
    assert_true(SUCCEEDED(S_OK) && SUCCEEDED(S_FALSE) && !SUCCEEDED(E_FAIL));
    assert_true(FAILED(E_FAIL) && FAILED(0x80000000) && !FAILED(S_FALSE));
    assert_int_equal(HRESULT_FACILITY(E_INVALIDARG), FACILITY_WIN32);
    assert_int_equal(HRESULT_CODE(E_INVALIDARG), ERROR_INVALID_PARAMETER);
    assert_int_equal(HRESULT_SEVERITY(E_INVALIDARG), SEVERITY_ERROR);
    assert_int_equal(MAKE_HRESULT(SEVERITY_ERROR, FACILITY_WINDOWS, 0x201), (HRESULT)0x80080201);
    assert_int_equal(HRESULT_FROM_NT(0xC0000005), (HRESULT)0xD0000005);
    assert_int_equal(HRESULT_FACILITY(JSCRIPT_E_CANTEXECUTE), FACILITY_JSCRIPT);
}

static const struct {
    int facility, value;
} facility_cases[] = {
    {FACILITY_NULL, 0},       {FACILITY_RPC, 1},   {FACILITY_DISPATCH, 2}, {FACILITY_STORAGE, 3},
    {FACILITY_ITF, 4},        {FACILITY_WIN32, 7}, {FACILITY_WINDOWS, 8},  {FACILITY_SECURITY, 9},
    {FACILITY_CONTROL, 10},   {FACILITY_URT, 19},  {FACILITY_XAML, 43},    {FACILITY_SCRIPT, 112},
    {FACILITY_JSCRIPT, 2306},
};

TEST(test_facilities)
{
    for (size_t i = 0; i < COUNT_OF(facility_cases); i++)
        check_row(i, facility_cases[i].facility, facility_cases[i].value);
}

GROUP(NULL, fresh)
