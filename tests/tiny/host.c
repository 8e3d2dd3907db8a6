/* Interpreters of tiny, and what the tests of its binding look at. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

/* ---- Memory -----------------------------------------------------------------------------------*/

/* The linker gives these to the binding: one allocation of it can fail.  Libraries may refer to
   them, so they are visible. */
int binding_left = -1;
void *__real_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    return binding_left-- == 0 ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return binding_left-- == 0 ? NULL : __real_calloc(count, size);
}

static void *allocate(void *data, void *block, size_t size)
{
    host *h = data;

    if (!size) {
        h->blocks--;
        free(block);
        return NULL;
    }
    if (h->left-- == 0)
        return NULL;
    h->blocks++;
    return __real_malloc(size);
}

/* ---- Hosts ------------------------------------------------------------------------------------*/

host *open_host(const char *source)
{
    host *h = calloc(1, sizeof *h);

    assert_non_null(h);
    h->left = -1;
    h->t = tiny_open(allocate, h);
    assert_non_null(h->t);
    assert_int_equal(stacksplice_tiny_open(h->t), S_OK);
    assert_true(tiny_load(h->t, "test.tiny", source));
    return h;
}

void close_host(host *h)
{
    stacksplice_tiny_close(h->t);
    tiny_close(h->t);
    assert_int_equal(h->blocks, 0);
    free(h);
}

HRESULT run(host *h, const char *name)
{
    tiny_value result;
    HRESULT hr = stacksplice_tiny_call(h->t, name, NULL, 0, &result);

    tiny_drop(h->t, result);
    return hr;
}

IRestrictedErrorInfo *take_error(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    return error;
}

void check_slot_is_empty(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_FALSE);
}

/* ---- Stacks -----------------------------------------------------------------------------------*/

/* "function:line " of scripts, "name " of the native functions at_..., "[reason] " of gaps. */
static int add_frame(const stacksplice_frame *frame, void *data)
{
    char *out = (char *)data + strlen(data);

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)sprintf(out, "[%s] ", frame->reason);
    else if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)sprintf(out, "%s:%u ", frame->function, (unsigned)frame->line);
    else if (frame->function && strncmp(frame->function, "at_", 3) == 0)
        (void)sprintf(out, "%s ", frame->function);
    return 0;
}

void write_frames(char *out, const uintptr_t *frames, uint32_t count)
{
    *out = 0;
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, out);
}

void write_error_stack(char *out, void *error)
{
    uintptr_t frames[500];
    uint32_t count = 0;

    assert_int_equal(stacksplice_error_stack(error, 500, frames, &count), S_OK);
    write_frames(out, frames, count);
}

/* ---- Functions for scripts --------------------------------------------------------------------*/

tiny_value at_capture(tiny *t, void *data, const tiny_value *arguments, int count)
{
    uintptr_t frames[500];
    uint32_t taken = 0;

    (void)t;
    (void)arguments;
    (void)count;
    assert_int_equal(stacksplice_capture(0, 500, frames, &taken, NULL), S_OK);
    write_frames(data, frames, taken);
    return (tiny_value){0, NULL};
}

tiny_value at_other(tiny *t, void *data, const tiny_value *arguments, int count)
{
    HRESULT hr = run(data, "main");

    (void)arguments;
    (void)count;
    return FAILED(hr) ? stacksplice_tiny_raise(t, hr) : (tiny_value){0, NULL};
}

tiny_value made(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    assert_int_equal(count, 1);
    *(tiny_object **)data = arguments->object;
    return (tiny_value){0, NULL};
}

tiny_value raise_native(tiny *t, void *error, const tiny_value *arguments, int count)
{
    (void)arguments;
    (void)count;
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    return stacksplice_tiny_raise(t, E_BOUNDS);
}
