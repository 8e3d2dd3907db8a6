/* Resolves offsets in binaries that are not loaded. */
#include "resolve/debuginfo.h"
#include "resolve/native.h"

#include <stacksplice/debugger.h>
#include <stacksplice/winrt/winerror.h>

#include <string.h>

static const stacksplice_hresult results[] = {
    [SS_FILE_READ] = S_OK,
    [SS_FILE_MISSING] = __HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND),
    [SS_FILE_NO_BINARY] = __HRESULT_FROM_WIN32(ERROR_BAD_FORMAT),
    [SS_FILE_OTHER_BUILD] = __HRESULT_FROM_WIN32(ERROR_INVALID_DATA),
    [SS_FILE_NO_MEMORY] = E_OUTOFMEMORY,
};

/* Copy TEXT into ROOM of CAPACITY bytes; false when it does not fit. */
static bool put(const char *text, char *room, size_t capacity)
{
    size_t length = strlen(text);

    if (length >= capacity)
        return false;
    memcpy(room, text, length + 1);
    return true;
}

/* Noinline: the binary is large for a small stack. */
static SS_NOINLINE ss_native_answer *find(const char *path, const char *build_id, uint64_t offset,
                                          stacksplice_hresult *hr)
{
    ss_binary file = {0};
    ss_file_status status;
    ss_native_answer *answer;

    *hr = E_INVALIDARG;
    if (!put(path, file.path, sizeof file.path) ||
        !put(build_id ? build_id : "", file.build_id, sizeof file.build_id))
        return NULL;
    answer = ss_native_find_in_file(&file, (uintptr_t)offset, &status);
    *hr = results[status];
    return answer;
}

stacksplice_hresult stacksplice_resolve_file(const char *path, const char *build_id,
                                             uint64_t offset, stacksplice_frame_callback callback,
                                             void *data)
{
    ss_native_answer *answer;
    stacksplice_hresult hr;

    if (!path || !callback)
        return E_POINTER;
    if (!offset || offset > UINTPTR_MAX)
        return E_INVALIDARG;
    if (!ss_debug_load())
        return ss_debug_missing() ? __HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND) : E_OUTOFMEMORY;
    answer = find(path, build_id, offset, &hr);
    if (!answer)
        return hr;
    for (uint32_t i = 0; i < answer->count && hr == S_OK; i++) {
        if (callback(&answer->frames[i].frame, data))
            hr = S_FALSE;
    }
    ss_native_unref(answer);
    return hr;
}
