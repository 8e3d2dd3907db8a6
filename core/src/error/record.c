#include "error/record.h"

#include "com/messages.h"

/*
 * The interface by which an object tells that it is a record of this library, or of another copy of
 * it in the process.  QueryInterface returns the record, without a reference.  The last byte
 * changes with the layout of ss_record and ss_error.
 */
const IID ss_record_iid = {
    0x3ad6a0b8, 0x5ad1, 0x4be9, {0x97, 0x0e, 0x6c, 0x1d, 0x1f, 0x5e, 0x52, 0x05}};

ss_record *ss_record_from(IUnknown *object)
{
    void *out = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, &ss_record_iid, &out)))
        return NULL;
    return out;
}

HRESULT ss_record_asked(IUnknown *object, const void *out, ss_record **record)
{
    *record = NULL;
    if (!object || !out)
        return E_POINTER;
    *record = ss_record_from(object);
    return *record ? S_OK : E_INVALIDARG;
}

const WCHAR *ss_error_description(const ss_error *error, uint32_t *length)
{
    return ss_message_text(error->record.fixed.hresult, length);
}

const WCHAR *ss_error_message(const ss_error *error, uint32_t *length)
{
    *length = error->message_length;
    return error->message ? error->message : ss_error_description(error, length);
}
