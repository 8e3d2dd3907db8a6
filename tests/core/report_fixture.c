#include "report_fixture.h"
#include "frames.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fixture: %s\n", what);
        abort();
    }
}

/* ---- The language exception ------------------------------------------------------------------*/

typedef struct exception {
    ILanguageExceptionStackBackTrace stack;
    ILanguageExceptionTransform transform;
    IScriptException script;
    atomic_int outside, inside; /* freed when both are 0 */
    fixture_error contents;
} exception;

static exception *from_stack(ILanguageExceptionStackBackTrace *p)
{
    return CONTAINER(p, exception, stack);
}

static exception *from_script(IScriptException *p)
{
    return CONTAINER(p, exception, script);
}

static void drop(exception *x, atomic_int *count)
{
    if (atomic_fetch_sub(count, 1) == 1 && !atomic_load(&x->outside) && !atomic_load(&x->inside))
        free(x);
}

static HRESULT query(exception *x, REFIID iid, void **out)
{
    *out = NULL;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject) ||
        IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace))
        *out = &x->stack;
    else if (IsEqualIID(iid, &IID_ILanguageExceptionTransform) && x->contents.cause)
        *out = &x->transform;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptException) &&
             (x->contents.type || x->contents.language))
        *out = &x->script;
    else
        return E_NOINTERFACE;
    atomic_fetch_add(&x->outside, 1);
    return S_OK;
}

static HRESULT stack_query(ILanguageExceptionStackBackTrace *p, REFIID iid, void **out)
{
    return query(from_stack(p), iid, out);
}

static ULONG stack_add_ref(ILanguageExceptionStackBackTrace *p)
{
    return (ULONG)atomic_fetch_add(&from_stack(p)->outside, 1) + 1;
}

static ULONG stack_release(ILanguageExceptionStackBackTrace *p)
{
    drop(from_stack(p), &from_stack(p)->outside);
    return 0;
}

static HRESULT get_stack(ILanguageExceptionStackBackTrace *p, ULONG max, UINT_PTR *frames,
                         ULONG *captured)
{
    const fixture_error *contents = &from_stack(p)->contents;
    uint32_t count = contents->frame_count < max ? contents->frame_count : max;

    if (count)
        memcpy(frames, contents->frames, count * sizeof *frames);
    *captured = count;
    return S_OK;
}

static const ILanguageExceptionStackBackTraceVtbl stack_vtbl = {stack_query, stack_add_ref,
                                                                stack_release, get_stack};

static HRESULT transform_query(ILanguageExceptionTransform *p, REFIID iid, void **out)
{
    return query(CONTAINER(p, exception, transform), iid, out);
}

static ULONG transform_add_ref(ILanguageExceptionTransform *p)
{
    return stack_add_ref(&CONTAINER(p, exception, transform)->stack);
}

static ULONG transform_release(ILanguageExceptionTransform *p)
{
    return stack_release(&CONTAINER(p, exception, transform)->stack);
}

static HRESULT get_transformed(ILanguageExceptionTransform *p, IRestrictedErrorInfo **out)
{
    *out = CONTAINER(p, exception, transform)->contents.cause;
    (*out)->lpVtbl->AddRef(*out);
    return S_OK;
}

static const ILanguageExceptionTransformVtbl transform_vtbl = {transform_query, transform_add_ref,
                                                               transform_release, get_transformed};

static HRESULT script_query(IScriptException *p, REFIID iid, void **out)
{
    return query(from_script(p), iid, out);
}

static ULONG script_add_ref(IScriptException *p)
{
    return stack_add_ref(&from_script(p)->stack);
}

static ULONG script_release(IScriptException *p)
{
    return stack_release(&from_script(p)->stack);
}

static const char *get_language(IScriptException *p)
{
    const char *language = from_script(p)->contents.language;

    return language ? language : "python";
}

static const char *get_type_name(IScriptException *p)
{
    return from_script(p)->contents.type;
}

static const char *get_message(IScriptException *p, size_t *length)
{
    *length = from_script(p)->contents.message_length;
    return from_script(p)->contents.message;
}

static void add_inside(IScriptException *p)
{
    atomic_fetch_add(&from_script(p)->inside, 1);
}

static void release_inside(IScriptException *p)
{
    drop(from_script(p), &from_script(p)->inside);
}

static const IScriptExceptionVtbl script_vtbl = {script_query, script_add_ref, script_release,
                                                 get_language, get_type_name,  get_message,
                                                 add_inside,   release_inside};

static exception *make_exception(const fixture_error *contents)
{
    exception *x = calloc(1, sizeof *x);

    require(x != NULL, "memory");
    x->stack.lpVtbl = &stack_vtbl;
    x->transform.lpVtbl = &transform_vtbl;
    x->script.lpVtbl = &script_vtbl;
    atomic_init(&x->outside, 1);
    atomic_init(&x->inside, 0);
    x->contents = *contents;
    return x;
}

/* ---- Errors ----------------------------------------------------------------------------------*/

IRestrictedErrorInfo *fixture_originate(const fixture_error *contents)
{
    exception *x = make_exception(contents);
    IRestrictedErrorInfo *error = NULL, *taken = NULL;

    require(stacksplice_originate(contents->hr, contents->message, contents->message_length,
                                  (IUnknown *)&x->stack, &error) == S_OK,
            "originate");
    stack_release(&x->stack);
    require(GetRestrictedErrorInfo(&taken) == S_OK && taken == error, "take");
    taken->lpVtbl->Release(taken);
    return error;
}

void fixture_propagate(IRestrictedErrorInfo *error, const char *language, const uintptr_t *frames,
                       uint32_t count)
{
    const fixture_error contents = {.language = language, .frames = frames, .frame_count = count};
    exception *x = make_exception(&contents);
    ILanguageExceptionErrorInfo2 *info;
    void *out = NULL;

    require(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &out) == S_OK,
            "ILanguageExceptionErrorInfo2");
    info = out;
    require(info->lpVtbl->CapturePropagationContext(info, (IUnknown *)&x->stack) == S_OK,
            "CapturePropagationContext");
    info->lpVtbl->Release(info);
    stack_release(&x->stack);
}

uintptr_t fixture_script(const char *language, const char *function, const char *file,
                         uint32_t line)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = language, .function = function,
                                         .file = file, .line = line};
    uintptr_t token = 0;

    require(stacksplice_intern(&info, &token) == S_OK, "intern");
    return token;
}

uintptr_t fixture_gap(const char *reason)
{
    const stacksplice_token_info info = {GAP_TOKEN, .language = "python", .reason = reason};
    uintptr_t token = 0;

    require(stacksplice_intern(&info, &token) == S_OK, "intern");
    return token;
}

typedef struct written {
    size_t length;
    char text[1 << 20];
} written;

static int keep(const char *text, size_t length, void *data)
{
    written *w = data;

    require(length < sizeof w->text - w->length, "report too long");
    memcpy(w->text + w->length, text, length);
    w->length += length;
    return 0;
}

const char *fixture_format(IUnknown *error, stacksplice_format_kind kind,
                           const stacksplice_format_options *options)
{
    static written results[4];
    static unsigned next;
    written *w = &results[next++ % 4];

    w->length = 0;
    require(stacksplice_format(error, kind, options, keep, w) == S_OK, "format");
    w->text[w->length] = 0;
    return w->text;
}
