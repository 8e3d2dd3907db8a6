/* RoInspectThreadErrorInfo and RoInspectCapturedStackBackTrace, on a process that is only read. */
#include "error_test.h"
#include "frames.h"
#include "threads.h"

#include <signal.h>
#include <sys/uio.h>

#define MACHINE IMAGE_FILE_MACHINE_AMD64

/* Reads the process whose id CONTEXT points to. */
static HRESULT read_process(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    struct iovec here = {buffer, length}, there = {(void *)address, length};
    ssize_t got = process_vm_readv(*(pid_t *)context, &here, 1, &there, 1, 0);

    return got == (ssize_t)length ? S_OK : E_ACCESSDENIED;
}

static HRESULT read_here(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    memcpy(buffer, (const void *)address, length);
    return S_OK;
}

static HRESULT read_nothing(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    return E_HANDLE;
}

static UINT_PTR anchor(void)
{
    return (UINT_PTR)stacksplice_thread_anchor();
}

FRESH_TEST(test_inspect_finds_error_and_stack)
{
    static const uintptr_t frames[] = {0x11, 0x22, 0x33};
    UINT_PTR error = 1, stack = 0;
    UINT32 count = 0;
    error_double x;

    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_here, NULL, &error), S_FALSE);
    assert_int_equal(error, 0);
    error_double_init(&x, 1);
    x.has_stack = 1;
    x.frames = frames;
    x.frame_count = 3;
    RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&x));
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_here, NULL, &error), S_OK);
    assert_int_equal(
        RoInspectCapturedStackBackTrace(error, MACHINE, read_here, NULL, &count, &stack), S_OK);
    assert_int_equal(count, 3);
    assert_memory_equal((const void *)stack, frames, sizeof frames);
    RoClearError();
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_here, NULL, &error), S_FALSE);
}

FRESH_TEST(test_inspect_refuses)
{
    static const USHORT machines[] = {IMAGE_FILE_MACHINE_AMD64, IMAGE_FILE_MACHINE_ARM64,
                                      IMAGE_FILE_MACHINE_I386, 0, 0x8665};
    UINT_PTR error = 0, out = 99;
    UINT32 count = 99;
    stacksplice_record broken;
    HRESULT invalid = HRESULT_FROM_WIN32(ERROR_INVALID_DATA);

    RoOriginateError(E_FAIL, NULL);
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_here, NULL, &error), S_OK);
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        HRESULT want = i < 3 ? S_OK : E_INVALIDARG;
        UINT_PTR address;
        UINT32 frames;

        check_row(i, RoInspectThreadErrorInfo(anchor(), machines[i], read_here, NULL, &address),
                  want);
        check_row(
            i,
            RoInspectCapturedStackBackTrace(error, machines[i], read_here, NULL, &frames, &address),
            want);
    }
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, NULL, NULL, &out), E_POINTER);
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_here, NULL, NULL), E_POINTER);
    assert_int_equal(RoInspectThreadErrorInfo(anchor(), MACHINE, read_nothing, NULL, &out),
                     E_HANDLE);
    assert_int_equal(RoInspectThreadErrorInfo(error, MACHINE, read_here, NULL, &out), invalid);
    assert_int_equal(RoInspectCapturedStackBackTrace(error, MACHINE, NULL, NULL, &count, &out),
                     E_POINTER);
    assert_int_equal(RoInspectCapturedStackBackTrace(error, MACHINE, read_here, NULL, NULL, &out),
                     E_POINTER);
    assert_int_equal(RoInspectCapturedStackBackTrace(error, MACHINE, read_here, NULL, &count, NULL),
                     E_POINTER);
    assert_int_equal(
        RoInspectCapturedStackBackTrace(error, MACHINE, read_nothing, NULL, &count, &out),
        E_HANDLE);
    memcpy(&broken, (const void *)error, sizeof broken);
    broken.version++;
    assert_int_equal(
        RoInspectCapturedStackBackTrace((UINT_PTR)&broken, MACHINE, read_here, NULL, &count, &out),
        invalid);
    broken.version--;
    broken.signature = 0;
    assert_int_equal(
        RoInspectCapturedStackBackTrace((UINT_PTR)&broken, MACHINE, read_here, NULL, &count, &out),
        invalid);
    assert_int_equal(out, 99);
    assert_int_equal(count, 99);
}

FRESH_TEST(test_inspect_another_process)
{
    UINT_PTR anchor_address = 0, error = 0, stack = 0;
    UINT32 count = 0;
    uintptr_t first = 0;
    int to_parent[2];
    pid_t child;
    HRESULT hr;

    assert_int_equal(pipe(to_parent), 0);
    child = fork();
    if (child == 0) {
        anchor_address = anchor();
        RoOriginateError(E_FAIL, NULL);
        (void)!write(to_parent[1], &anchor_address, sizeof anchor_address);
        pause();
        _exit(0);
    }
    assert_int_equal(read(to_parent[0], &anchor_address, sizeof anchor_address),
                     sizeof anchor_address);
    hr = RoInspectThreadErrorInfo(anchor_address, MACHINE, read_process, &child, &error);
    if (hr == S_OK)
        hr = RoInspectCapturedStackBackTrace(error, MACHINE, read_process, &child, &count, &stack);
    if (hr == S_OK)
        hr = read_process(&child, stack, sizeof first, (BYTE *)&first);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(to_parent[0]);
    close(to_parent[1]);
    if (hr == E_ACCESSDENIED)
        SKIP("reading other processes is not allowed here");
    assert_int_equal(hr, S_OK);
    assert_true(count > 0);
    NEEDS_NATIVE_FRAMES();
    assert_true(count > 1);
    assert_true(first - (uintptr_t)test_inspect_another_process < 2000);
}

GROUP(NULL, fresh)
