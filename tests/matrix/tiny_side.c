/*
 * Tiny: one interpreter with the steps of steps.tiny.  They call
 *
 *   call I              step I, whose error is thrown here
 *   is_end I, is_kind TEXT, style I, same A B, add A B
 *   thrown ERROR        is about to be thrown, on the next line
 *   fail                throws an error of C
 *   slot                the slot has to be empty
 *   look ERROR          is what was caught
 */
#include "matrix.h"

#include <stacksplice/tiny.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tiny *interpreter;
static tiny_object *thrown;
static const tiny_frame *base;  /* the frames from here on are logged */
static int blocks, idle_blocks; /* of memory */

/* ---- The log ----------------------------------------------------------------------------------*/

/* Those of scripts from FRAME out to the base, outermost first; the first one runs LINES on. */
static void log_frames(const tiny_frame *frame, int lines)
{
    char name[64];

    if (frame == base)
        return;
    log_frames(frame->caller, 0);
    if (frame->function->native)
        return;
    (void)snprintf(name, sizeof name, "%.*s", (int)frame->function->name.length,
                   frame->function->name.text);
    matrix_log_add('y', name, frame->line + lines);
}

/* ---- For the steps ----------------------------------------------------------------------------*/

static const tiny_value nil;

static tiny_value integer(int64_t number)
{
    return (tiny_value){number, NULL};
}

MATRIX_NODE tiny_value matrix_from_tiny(tiny *t, void *data, const tiny_value *arguments, int count)
{
    int i = (int)arguments->integer;
    const tiny_frame *before = base;
    HRESULT hr;

    (void)data;
    (void)count;
    log_frames(tiny_frames(), 0);
    matrix_enter();
    matrix_border(i - 1);
    base = tiny_frames();
    hr = matrix.modes[i - 1] == 't' ? matrix_c_thread(i) : matrix_step(i);
    base = before;
    if (FAILED(hr)) {
        matrix_passed(hr);
        return stacksplice_tiny_raise(t, hr);
    }
    return nil;
}

static tiny_value is_end(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)count;
    return integer(arguments->integer == matrix.length);
}

static tiny_value is_kind(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)count;
    return integer(*arguments->object->text == matrix.kind);
}

static tiny_value style(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)count;
    return integer(matrix.styles[arguments->integer - 1] - '0');
}

static tiny_value same(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)count;
    return integer(arguments[0].integer == arguments[1].integer);
}

static tiny_value add(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)count;
    return integer(arguments[0].integer + arguments[1].integer);
}

static tiny_value keep_thrown(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)data;
    (void)count;
    log_frames(tiny_frames()->caller, 1);
    tiny_drop(t, (tiny_value){0, thrown});
    thrown = tiny_keep(*arguments).object;
    return nil;
}

static tiny_value fail(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)data;
    (void)arguments;
    (void)count;
    (void)stacksplice_originate(E_ABORT, "clean-up", 8, NULL, NULL);
    return stacksplice_tiny_raise(t, E_ABORT);
}

static tiny_value slot(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)arguments;
    (void)count;
    matrix_check_slot();
    return nil;
}

static tiny_value look(tiny *t, void *data, const tiny_value *arguments, int count)
{
    tiny_object *caught = arguments->object;
    IScriptErrorInfo *error = NULL;
    stacksplice_hresult hr = S_OK;

    (void)data;
    (void)count;
    matrix_fact_text("what", caught->text, caught->length);
    if (stacksplice_tiny_error(t, caught, &error) != S_OK ||
        stacksplice_error_hresult((IUnknown *)(void *)error, &hr) != S_OK)
        abort();
    matrix_fact_number("hresult", hr);
    error->lpVtbl->Release(error);
    matrix_check_slot();
    matrix_collect(stacksplice_tiny_originate(t, caught));
    return nil;
}

static const struct {
    const char *name;
    tiny_native *native;
} functions[] = {{"call", matrix_from_tiny},
                 {"is_end", is_end},
                 {"is_kind", is_kind},
                 {"style", style},
                 {"same", same},
                 {"add", add},
                 {"thrown", keep_thrown},
                 {"fail", fail},
                 {"slot", slot},
                 {"look", look}};

/* ---- The interpreter --------------------------------------------------------------------------*/

static void *allocate(void *data, void *block, size_t size)
{
    (void)data;
    if (size) {
        blocks++;
        return malloc(size);
    }
    blocks--;
    free(block);
    return NULL;
}

const char *matrix_tiny_open(const char *source)
{
    interpreter = tiny_open(allocate, NULL);
    if (!interpreter || FAILED(stacksplice_tiny_open(interpreter)) ||
        !tiny_load(interpreter, "steps.tiny", source))
        return "not enough memory";
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!tiny_define(interpreter, functions[i].name, functions[i].native, NULL))
            return "not enough memory";
    idle_blocks = blocks;
    return NULL;
}

int matrix_tiny_forget(void)
{
    tiny_value nothing, number = integer(0);

    tiny_drop(interpreter, (tiny_value){0, thrown});
    thrown = NULL;
    /* Drops what was released elsewhere. */
    if (FAILED(stacksplice_tiny_call(interpreter, "return", &number, 1, &nothing)))
        abort();
    return blocks - idle_blocks;
}

void matrix_tiny_close(void)
{
    (void)matrix_tiny_forget();
    stacksplice_tiny_close(interpreter);
    tiny_close(interpreter);
}

/* ---- The border -------------------------------------------------------------------------------*/

MATRIX_NODE HRESULT matrix_to_tiny(int i)
{
    const tiny_frame *before = base;
    tiny_value step = integer(i), result;
    HRESULT hr;

    matrix_enter();
    base = tiny_frames();
    hr = stacksplice_tiny_call(interpreter, "step", &step, 1, &result);
    base = before;
    return hr;
}

int matrix_is_thrown_by_tiny(IUnknown *language_exception)
{
    return thrown && stacksplice_tiny_object(interpreter, language_exception) == thrown;
}
