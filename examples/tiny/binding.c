/*
 * The errors of tiny: docs/inside/bindings.md walks through this file and source.c.  What all languages
 * share is in stacksplice/script.h.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The frame of the current function; the stack of an error begins outside of it. */
#define HERE() __builtin_frame_address(0)

#define NEVER_THROWN "exception created but never raised"

static void *query(void *object, REFIID iid)
{
    IUnknown *unknown = object;
    void *out = NULL;

    if (!unknown || FAILED(unknown->lpVtbl->QueryInterface(unknown, iid, &out)))
        return NULL;
    return out;
}

static void release(void *object)
{
    IUnknown *unknown = object;

    if (unknown)
        unknown->lpVtbl->Release(unknown);
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* The binding's data of an interpreter, which its hooks receive. */
typedef struct binding {
    tiny *t;
    stacksplice_owner *owner;
    struct tie *foreign; /* the errors that were born elsewhere */
} binding;

/* The member host of an error points to its tie. */
typedef struct tie {
    stacksplice_ties ties;
    tiny_object *error; /* borrowed */
    struct tie *next;
} tie;

static binding *binding_of(tiny *t)
{
    return tiny_hooks_of(t)->data;
}

static tie *tie_of(const tiny_object *error)
{
    return error->host;
}

static stacksplice_exception *exception_of(const tiny_object *error)
{
    return error->host ? tie_of(error)->ties.exception : NULL;
}

static void drop_value(void *unused, void *data, void *value)
{
    (void)unused;
    tiny_drop(((binding *)data)->t, (tiny_value){0, value});
}

static const stacksplice_language language = {
    .size = sizeof language, .name = "tiny", .drop = drop_value};

static stacksplice_hresult hresult_of(const tiny_object *error)
{
    static const struct {
        const char *type;
        HRESULT hr;
    } rows[] = {{"argument", E_INVALIDARG},
                {"access", E_ACCESSDENIED},
                {"bounds", E_BOUNDS},
                {"abort", E_ABORT}};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(error->type, rows[i].type) == 0)
            return rows[i].hr;
    return E_FAIL;
}

/* ---- Exceptions ------------------------------------------------------------------------------*/

/*
 * Give ERROR, which has none, a language exception.  Its stack is GAP, unless that is 0, and the
 * frames outside of ABOVE, unless that is NULL.  False without memory.
 */
static bool make_exception(binding *b, tiny_object *error, uintptr_t gap, const void *above)
{
    uint32_t max = stacksplice_max_frames(), first = gap != 0, count = 0;
    uintptr_t *frames = malloc(max * sizeof *frames);
    tie *made = calloc(1, sizeof *made);
    stacksplice_exception *x = NULL;

    if (frames && made) {
        *frames = gap;
        if (above)
            (void)stacksplice_capture_ends(above, 0, max - first, frames + first, &count);
        x = stacksplice_exception_new(
            b->owner, &(stacksplice_exception_parts){.size = sizeof(stacksplice_exception_parts),
                                                     .hresult = hresult_of(error),
                                                     .types = &error->type,
                                                     .type_count = 1,
                                                     .message = error->text,
                                                     .message_length = error->length,
                                                     .frames = frames,
                                                     .frame_count = first + count});
    }
    free(frames);
    if (!x) {
        free(made);
        return false;
    }
    stacksplice_ties_set_exception(&made->ties, x);
    error->host = made;
    return true;
}

/* The hook of a throw, called while the whole stack still exists.  Thrown again, an error keeps its
   exception. */
static void on_thrown(tiny *t, tiny_object *error, void *data)
{
    if (!error->host && error != tiny_no_memory(t))
        (void)make_exception(data, error, 0, HERE());
}

static void on_ended(tiny *t, tiny_object *error, void *data)
{
    tie *old = tie_of(error), **place = &((binding *)data)->foreign;

    (void)t;
    while (*place && *place != old)
        place = &(*place)->next;
    if (*place)
        *place = old->next;
    stacksplice_ties_drop(&old->ties);
    free(old);
}

/* ---- Out of tiny -----------------------------------------------------------------------------*/

/* Let the exceptions of ERROR and of its causes keep them, before code outside holds the first. */
static void keep(tiny_object *error)
{
    stacksplice_exception *x = exception_of(error);

    while (x && !stacksplice_exception_is_held(x)) {
        if (stacksplice_exception_keep(x, error))
            error->references++;
        error = stacksplice_exception_related(x, 0) ? error->cause : NULL;
        x = error ? exception_of(error) : NULL;
    }
}

/* Set the error of ERROR's cause, which has a tie, as the cause of ERROR's exception. */
static void set_cause(tiny_object *error)
{
    stacksplice_exception *x = exception_of(error);
    IScriptErrorInfo *cause = NULL;
    uint32_t depth = 0;
    bool fits;

    if (!x || !error->cause || stacksplice_exception_related(x, 0))
        return;
    if (error->cause->host)
        (void)stacksplice_make_error(&tie_of(error->cause)->ties, &cause);
    if (cause)
        (void)stacksplice_error_depth((IUnknown *)(void *)cause, &depth);
    fits = cause && depth < STACKSPLICE_MAX_DEPTH;
    stacksplice_exception_set_cause(x, fits ? cause : NULL, STACKSPLICE_RELATION_CAUSE, !fits);
    release(cause);
}

/* Drop what other threads released.  Every function that a host calls begins with this. */
static binding *enter(tiny *t)
{
    binding *b = binding_of(t);

    if (stacksplice_owner_waits(b->owner))
        stacksplice_owner_drain(b->owner, NULL);
    return b;
}

/* Prepare ERROR and its causes to leave.  An error without a stack gets one from outside of
   ABOVE. */
static bool prepare(tiny *t, tiny_object *error, const void *above)
{
    uintptr_t gap = stacksplice_gap("tiny", STACKSPLICE_GAP_RETURNED, 0);
    tiny_object *chain[STACKSPLICE_MAX_DEPTH + 1];
    binding *b = enter(t);
    size_t count = 0;

    for (tiny_object *o = error; o && o != tiny_no_memory(t) && count < COUNT_OF(chain);
         o = o->cause) {
        if (!o->host && !make_exception(b, o, gap, above))
            return false;
        chain[count++] = o;
        if (tie_of(o)->ties.error)
            break;
        gap = stacksplice_gap("tiny", NEVER_THROWN, 0);
        above = NULL;
    }
    while (count-- > 0) {
        keep(chain[count]);
        set_cause(chain[count]);
    }
    return error != tiny_no_memory(t);
}

static stacksplice_hresult leave(tiny *t, tiny_object *error, const void *above)
{
    stacksplice_hresult hr;

    if (!prepare(t, error, above) || FAILED(stacksplice_leave(&tie_of(error)->ties, &hr))) {
        (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
        return E_OUTOFMEMORY;
    }
    return hr;
}

stacksplice_hresult stacksplice_tiny_originate(tiny *t, tiny_object *error)
{
    return leave(t, error, HERE());
}

stacksplice_hresult stacksplice_tiny_call(tiny *t, const char *name, const tiny_value *arguments,
                                          int count, tiny_value *result)
{
    tiny_value error;
    stacksplice_hresult hr;

    (void)enter(t);
    if (tiny_call(t, name, arguments, count, result))
        return S_OK;
    error = *result;
    *result = (tiny_value){0, NULL};
    hr = leave(t, error.object, HERE());
    tiny_drop(t, error);
    return hr;
}

stacksplice_hresult stacksplice_tiny_error(tiny *t, tiny_object *error, IScriptErrorInfo **out)
{
    *out = NULL;
    if (!prepare(t, error, HERE()))
        return E_OUTOFMEMORY;
    return stacksplice_make_error(&tie_of(error)->ties, out);
}

/* ---- Into tiny -------------------------------------------------------------------------------*/

tiny_object *stacksplice_tiny_object(tiny *t, IUnknown *language_exception)
{
    stacksplice_exception *x = stacksplice_exception_from(language_exception, binding_of(t)->owner);

    return x ? stacksplice_exception_value(x) : NULL;
}

static tiny_value plain_error(tiny *t, IRestrictedErrorInfo *info)
{
    BSTR description = NULL, message = NULL, sid = NULL;
    char text[1024] = "";
    HRESULT hr;

    (void)info->lpVtbl->GetErrorDetails(info, &description, &hr, &message, &sid);
    (void)stacksplice_utf8(message, SysStringLen(message), text, sizeof text);
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    return tiny_error(t, "error", text, strlen(text), NULL);
}

/* An error with the type and message of ERROR's own language, if that gives them. */
static tiny_value error_like(tiny *t, IRestrictedErrorInfo *info)
{
    ILanguageExceptionErrorInfo *carrier = query(info, &IID_ILanguageExceptionErrorInfo);
    IUnknown *exception = NULL;
    IScriptException *script;
    const char *type, *text;
    size_t length = 0;
    tiny_value made;

    (void)carrier->lpVtbl->GetLanguageException(carrier, &exception);
    release(carrier);
    script = query(exception, &stacksplice_IID_IScriptException);
    release(exception);
    if (!script)
        return plain_error(t, info);
    type = script->lpVtbl->GetTypeName(script, 0);
    text = script->lpVtbl->GetMessage(script, &length);
    made = tiny_error(t, type ? type : "error", text ? text : "", length, NULL);
    release(script);
    return made;
}

/* The value that ERROR was born from, else the value that stands for it. */
static tiny_value value_of(binding *b, IRestrictedErrorInfo *info, IScriptErrorInfo *error)
{
    stacksplice_exception *x = stacksplice_own_exception(b->owner, (IUnknown *)info);
    tiny_value made = {0, x ? stacksplice_exception_value(x) : NULL};
    tie *new;

    for (tie *known = b->foreign; known && !made.object; known = known->next)
        if (known->ties.error == error)
            made.object = known->error;
    if (made.object)
        return tiny_keep(made);
    made = error_like(b->t, info);
    new = made.object ? calloc(1, sizeof *new) : NULL;
    if (!new) {
        tiny_drop(b->t, made);
        return tiny_keep((tiny_value){0, tiny_no_memory(b->t)});
    }
    *new = (tie){.error = made.object, .next = b->foreign};
    stacksplice_ties_set_error(&new->ties, error, 1);
    b->foreign = made.object->host = new;
    return made;
}

tiny_value stacksplice_tiny_raise(tiny *t, stacksplice_hresult hr)
{
    static const char unknown[] = "an error without information";
    binding *b = enter(t);
    IRestrictedErrorInfo *info = NULL;
    IScriptErrorInfo *error;
    tiny_value value;

    hr = stacksplice_arrive(b->owner, HERE(), hr, &info);
    error = query(info, &stacksplice_IID_IScriptErrorInfo);
    if (error)
        value = value_of(b, info, error);
    else if (hr == E_OUTOFMEMORY)
        value = tiny_keep((tiny_value){0, tiny_no_memory(t)});
    else
        value = tiny_error(t, "error", unknown, sizeof unknown - 1, NULL);
    release(error);
    release(info);
    return tiny_throw(t, value);
}

/* ---- For scripts -----------------------------------------------------------------------------*/

static tiny_value report(tiny *t, void *unused, const tiny_value *arguments, int count)
{
    IScriptErrorInfo *error = NULL;
    tiny_value text;

    (void)unused;
    if (count && tiny_is_error(*arguments))
        (void)stacksplice_tiny_error(t, arguments->object, &error);
    text = stacksplice_tiny_text(t, (IUnknown *)(void *)error);
    release(error);
    return text;
}

/* ---- Interpreters ----------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_tiny_open(tiny *t)
{
    binding *b = calloc(1, sizeof *b);

    if (!b)
        return E_OUTOFMEMORY;
    b->t = t;
    b->owner = stacksplice_owner_new(&language, b);
    if (!b->owner || FAILED(stacksplice_tiny_add_source()) ||
        !tiny_define(t, "report", report, NULL)) {
        stacksplice_owner_unref(b->owner);
        free(b);
        return E_OUTOFMEMORY;
    }
    *tiny_hooks_of(t) = (tiny_hooks){on_thrown, on_ended, b};
    return S_OK;
}

void stacksplice_tiny_close(tiny *t)
{
    binding *b = binding_of(t);

    stacksplice_owner_drop_all(b->owner, NULL);
    stacksplice_owner_close(b->owner);
    *tiny_hooks_of(t) = (tiny_hooks){NULL, NULL, NULL};
    free(b);
}
