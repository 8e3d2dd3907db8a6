/*
 * Reads errors of another process or a core dump.  Every byte comes through the callback; records
 * of an unknown version are refused.
 */
#include "base/platform.h"

#include <stacksplice/debugger.h>

static HRESULT check_arguments(USHORT machine, PINSPECT_MEMORY_CALLBACK read, const void *out)
{
    if (!read || !out)
        return E_POINTER;
    return machine == IMAGE_FILE_MACHINE_AMD64 || machine == IMAGE_FILE_MACHINE_ARM64 ||
                   machine == IMAGE_FILE_MACHINE_I386
               ? S_OK
               : E_INVALIDARG;
}

static HRESULT invalid_data(void)
{
    return HRESULT_FROM_WIN32(ERROR_INVALID_DATA);
}

HRESULT RoInspectThreadErrorInfo(UINT_PTR anchor_address, USHORT machine,
                                 PINSPECT_MEMORY_CALLBACK read, PVOID context,
                                 UINT_PTR *error_address)
{
    stacksplice_anchor anchor;
    HRESULT hr = check_arguments(machine, read, error_address);

    if (FAILED(hr))
        return hr;
    hr = read(context, anchor_address, sizeof anchor, (BYTE *)&anchor);
    if (FAILED(hr))
        return hr;
    if (anchor.signature != STACKSPLICE_ANCHOR_SIGNATURE ||
        anchor.version != STACKSPLICE_INSPECT_VERSION || anchor.error > UINTPTR_MAX)
        return invalid_data();
    *error_address = (UINT_PTR)anchor.error;
    return anchor.error ? S_OK : S_FALSE;
}

HRESULT RoInspectCapturedStackBackTrace(UINT_PTR error_address, USHORT machine,
                                        PINSPECT_MEMORY_CALLBACK read, PVOID context,
                                        UINT32 *frame_count, UINT_PTR *back_trace_address)
{
    stacksplice_record record;
    HRESULT hr = check_arguments(machine, read, back_trace_address);

    if (FAILED(hr) || !frame_count)
        return FAILED(hr) ? hr : E_POINTER;
    hr = read(context, error_address, sizeof record, (BYTE *)&record);
    if (FAILED(hr))
        return hr;
    if (record.signature != STACKSPLICE_RECORD_SIGNATURE ||
        record.version != STACKSPLICE_INSPECT_VERSION || record.frames > UINTPTR_MAX)
        return invalid_data();
    *frame_count = record.frame_count;
    *back_trace_address = (UINT_PTR)record.frames;
    return S_OK;
}
