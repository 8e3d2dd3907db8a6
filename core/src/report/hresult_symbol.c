#include "report/facts.h"

/* The names people know; a code that is not here is shown by its number and text. */
static const struct {
    uint32_t code;
    const char *symbol;
} symbols[] = {
    {0x8000000A, "E_PENDING"},
    {0x8000000B, "E_BOUNDS"},
    {0x8000000C, "E_CHANGED_STATE"},
    {0x8000000D, "E_ILLEGAL_STATE_CHANGE"},
    {0x8000000E, "E_ILLEGAL_METHOD_CALL"},
    {0x80000013, "RO_E_CLOSED"},
    {0x80000017, "E_STRING_NOT_NULL_TERMINATED"},
    {0x80000018, "E_ILLEGAL_DELEGATE_ASSIGNMENT"},
    {0x80000019, "E_ASYNC_OPERATION_NOT_STARTED"},
    {0x8000001A, "E_APPLICATION_EXITING"},
    {0x80004001, "E_NOTIMPL"},
    {0x80004002, "E_NOINTERFACE"},
    {0x80004003, "E_POINTER"},
    {0x80004004, "E_ABORT"},
    {0x80004005, "E_FAIL"},
    {0x8000FFFF, "E_UNEXPECTED"},
    {0x80020003, "DISP_E_MEMBERNOTFOUND"},
    {0x80020005, "DISP_E_TYPEMISMATCH"},
    {0x80020006, "DISP_E_UNKNOWNNAME"},
    {0x8002000A, "DISP_E_OVERFLOW"},
    {0x8002000B, "DISP_E_BADINDEX"},
    {0x80020012, "DISP_E_DIVBYZERO"},
    {0x80020101, "SCRIPT_E_REPORTED"},
    {0x80040110, "CLASS_E_NOAGGREGATION"},
    {0x80040111, "CLASS_E_CLASSNOTAVAILABLE"},
    {0x80040154, "REGDB_E_CLASSNOTREG"},
    {0x80070002, "ERROR_FILE_NOT_FOUND"},
    {0x80070003, "ERROR_PATH_NOT_FOUND"},
    {0x80070005, "E_ACCESSDENIED"},
    {0x80070006, "E_HANDLE"},
    {0x8007000E, "E_OUTOFMEMORY"},
    {0x80070026, "ERROR_HANDLE_EOF"},
    {0x80070050, "ERROR_FILE_EXISTS"},
    {0x80070057, "E_INVALIDARG"},
    {0x8007007E, "ERROR_MOD_NOT_FOUND"},
    {0x800700B7, "ERROR_ALREADY_EXISTS"},
    {0x80070216, "ERROR_ARITHMETIC_OVERFLOW"},
    {0x800703E9, "ERROR_STACK_OVERFLOW"},
    {0x80070459, "ERROR_NO_UNICODE_TRANSLATION"},
    {0x80070490, "ERROR_NOT_FOUND"},
    {0x800704C7, "ERROR_CANCELLED"},
    {0x800705B4, "ERROR_TIMEOUT"},
};

const char *ss_hresult_symbol(stacksplice_hresult hr)
{
    for (size_t i = 0; i < SS_COUNT_OF(symbols); i++) {
        if (symbols[i].code == (uint32_t)hr)
            return symbols[i].symbol;
    }
    return NULL;
}
