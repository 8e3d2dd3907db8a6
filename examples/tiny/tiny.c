/*
 * Tiny, the interpreter: it reads a function's text line by line while it runs it.  The error in
 * flight is t->thrown; until it is taken, no function can be called.
 */
#include "tiny.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tiny {
    tiny_allocator *allocate;
    void *data;
    tiny_hooks hooks;
    tiny_function *functions;
    tiny_object *thrown, *no_memory;
    int depth; /* of calls */
};

static const tiny_value nil;

/* In the first TLS block: reading it in a signal handler allocates nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) const tiny_frame *innermost;

/* ---- Values ----------------------------------------------------------------------------------*/

tiny_value tiny_keep(tiny_value value)
{
    if (value.object)
        value.object->references++;
    return value;
}

void tiny_drop(tiny *t, tiny_value value)
{
    for (tiny_object *o = value.object, *cause; o && --o->references == 0; o = cause) {
        cause = o->cause;
        if (o->host)
            t->hooks.ended(t, o, t->hooks.data);
        (void)t->allocate(t->data, o, 0);
    }
}

tiny_value tiny_error(tiny *t, const char *type, const char *message, size_t length,
                      tiny_object *cause)
{
    size_t behind = type ? strlen(type) + 1 : 0;
    tiny_object *o = t->allocate(t->data, NULL, sizeof *o + length + 1 + behind);

    if (!o)
        return tiny_throw(t, tiny_keep((tiny_value){0, t->no_memory}));
    (void)tiny_keep((tiny_value){0, cause});
    *o = (tiny_object){1, cause, NULL, NULL, length};
    memcpy(o->text, message, length);
    o->text[length] = 0;
    if (type)
        o->type = memcpy(o->text + length + 1, type, behind);
    return (tiny_value){0, o};
}

tiny_value tiny_string(tiny *t, const char *text, size_t length)
{
    return tiny_error(t, NULL, text, length, NULL);
}

tiny_value tiny_throw(tiny *t, tiny_value error)
{
    if (t->thrown || !tiny_is_error(error)) {
        tiny_drop(t, error);
        return nil;
    }
    t->thrown = error.object;
    if (t->hooks.thrown)
        t->hooks.thrown(t, t->thrown, t->hooks.data);
    return nil;
}

static tiny_value tiny_fail(tiny *t, const char *type, const char *what, tiny_word about)
{
    char text[100];

    (void)snprintf(text, sizeof text, "%s: %.*s", what,
                   (int)(about.length < 64 ? about.length : 64), about.text);
    return tiny_throw(t, tiny_error(t, type, text, strlen(text), NULL));
}

static tiny_value tiny_catch(tiny *t)
{
    tiny_value error = {0, t->thrown};

    t->thrown = NULL;
    return error;
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* The next word of the line; empty after the last. */
static tiny_word tiny_next(tiny_frame *f)
{
    tiny_word word = {f->at + strspn(f->at, " \t"), 0};

    if (*word.text == '"')
        word.length = 1 + strcspn(word.text + 1, "\"\n");
    else if (*word.text != '#')
        word.length = strcspn(word.text, " \t\n");
    f->at = word.text + word.length;
    f->at += *word.text == '"' && *f->at == '"';
    return word;
}

/* False at the end of the source. */
static bool tiny_next_line(tiny_frame *f)
{
    f->at += strcspn(f->at, "\n");
    if (!*f->at)
        return false;
    f->at++;
    f->line++;
    return true;
}

static bool tiny_same(tiny_word a, tiny_word b)
{
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static bool tiny_is(tiny_word word, const char *text)
{
    return tiny_same(word, (tiny_word){text, strlen(text)});
}

/* The variable, or the first free slot, or NULL. */
static struct tiny_local *tiny_find(tiny_frame *f, tiny_word name)
{
    for (struct tiny_local *l = f->locals; l < f->locals + TINY_MAX_LOCALS; l++)
        if (!l->name.length || tiny_same(l->name, name))
            return l;
    return NULL;
}

/* Set the variable NAME to VALUE, which becomes the frame's. */
static void tiny_set(tiny_frame *f, tiny_word name, tiny_value value)
{
    struct tiny_local *local = tiny_find(f, name);

    if (local && name.length) {
        tiny_drop(f->interpreter, local->value);
        *local = (struct tiny_local){name, value};
    } else {
        tiny_drop(f->interpreter, value);
        (void)tiny_fail(f->interpreter, "limit", "too many variables", name);
    }
}

static tiny_value tiny_read(tiny_frame *f, tiny_word word)
{
    const struct tiny_local *local;

    if (isdigit((unsigned char)*word.text) || *word.text == '-')
        return (tiny_value){strtoll(word.text, NULL, 10), NULL};
    if (*word.text == '"')
        return tiny_string(f->interpreter, word.text + 1, word.length - 1);
    if (tiny_is(word, "nil"))
        return nil;
    local = tiny_find(f, word);
    if (!local || !local->name.length)
        return tiny_fail(f->interpreter, "name", "no such variable", word);
    return tiny_keep(local->value);
}

/* ---- Calls -----------------------------------------------------------------------------------*/

static tiny_value tiny_run(tiny_frame *f, const tiny_value *arguments, int count);

/* The activation is in the C frame of this function, which must not be inlined. */
static __attribute__((noinline)) tiny_value tiny_enter(tiny *t, const tiny_function *function,
                                                       const tiny_value *arguments, int count)
{
    tiny_frame frame = {.caller = innermost,
                        .interpreter = t,
                        .function = function,
                        .line = function->line,
                        .at = function->body};
    tiny_value result;

    atomic_signal_fence(memory_order_release);
    innermost = &frame;
    t->depth++;
    result = function->native ? function->native(t, function->data, arguments, count)
                              : tiny_run(&frame, arguments, count);
    t->depth--;
    innermost = frame.caller;
    for (int i = 0; i < TINY_MAX_LOCALS; i++)
        tiny_drop(t, frame.locals[i].value);
    return result;
}

/* Returns nil when it throws. */
static tiny_value tiny_call_named(tiny *t, tiny_word name, const tiny_value *arguments, int count)
{
    const tiny_function *f = t->functions;
    tiny_value result;

    while (f && !tiny_same(f->name, name))
        f = f->next;
    if (!f)
        return tiny_fail(t, "name", "no such function", name);
    if (t->depth == TINY_MAX_DEPTH)
        return tiny_fail(t, "limit", "called too deep", name);
    result = tiny_enter(t, f, arguments, count);
    if (!t->thrown)
        return result;
    tiny_drop(t, result);
    return nil;
}

bool tiny_call(tiny *t, const char *name, const tiny_value *arguments, int count,
               tiny_value *result)
{
    *result = tiny_call_named(t, (tiny_word){name, strlen(name)}, arguments, count);
    if (!t->thrown)
        return true;
    *result = tiny_catch(t);
    return false;
}

/* Evaluate FUNCTION VALUE..., from WORDS on. */
static tiny_value tiny_evaluate(tiny_frame *f, const tiny_word *words)
{
    tiny_value arguments[TINY_MAX_ARGUMENTS], result = nil;
    int count = 0;

    for (; count < TINY_MAX_ARGUMENTS && words[count + 1].length; count++)
        arguments[count] = tiny_read(f, words[count + 1]);
    if (words->length && !f->interpreter->thrown)
        result = tiny_call_named(f->interpreter, *words, arguments, count);
    while (count > 0)
        tiny_drop(f->interpreter, arguments[--count]);
    return result;
}

/* Run one line.  True: the function ends, with *RESULT. */
static bool tiny_run_line(tiny_frame *f, tiny_value *result)
{
    tiny_word words[5 + 1 + TINY_MAX_ARGUMENTS], *w = words, target = {NULL, 0};
    tiny *t = f->interpreter;
    tiny_value value;
    bool returns;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = tiny_next(f);
    if (tiny_is(*w, "function"))
        return true;
    if (tiny_is(*w, "if")) {
        value = tiny_read(f, w[1]);
        tiny_drop(t, value);
        if (!value.integer && !value.object)
            return t->thrown != NULL;
        w += 2;
    }
    if (tiny_is(w[1], "=")) {
        target = *w;
        w += 2;
    }
    returns = tiny_is(*w, "return");
    if (tiny_is(*w, "try")) {
        tiny_drop(t, tiny_evaluate(f, w + 1));
        value = tiny_catch(t);
    } else {
        value = tiny_evaluate(f, w);
    }
    if (target.text && !t->thrown)
        tiny_set(f, target, value);
    else if (returns)
        *result = value;
    else
        tiny_drop(t, value);
    return returns || t->thrown;
}

static tiny_value tiny_run(tiny_frame *f, const tiny_value *arguments, int count)
{
    tiny_value result = nil;
    tiny_word word;

    for (int i = 0; i < count && (word = tiny_next(f)).length; i++)
        tiny_set(f, word, tiny_keep(arguments[i]));
    while (tiny_next_line(f) && !tiny_run_line(f, &result))
        ;
    return result;
}

/* ---- Functions and interpreters --------------------------------------------------------------*/

static bool tiny_add(tiny *t, tiny_function function)
{
    tiny_function *added = t->allocate(t->data, NULL, sizeof *added);

    if (!added)
        return false;
    *added = function;
    added->next = t->functions;
    t->functions = added;
    return true;
}

bool tiny_define(tiny *t, const char *name, tiny_native *native, void *data)
{
    return tiny_add(t, (tiny_function){NULL, {name, strlen(name)}, NULL, NULL, 0, native, data});
}

bool tiny_load(tiny *t, const char *file, const char *source)
{
    tiny_frame f = {.at = source, .line = 1};
    bool added = true;

    do {
        bool begins = tiny_is(tiny_next(&f), "function");
        tiny_word name = tiny_next(&f);

        if (begins)
            added = tiny_add(t, (tiny_function){NULL, name, file, f.at, f.line, NULL, NULL});
    } while (added && tiny_next_line(&f));
    return added;
}

static tiny_value tiny_make_error(tiny *t, void *data, const tiny_value *a, int count)
{
    (void)data;
    if (count < 2 || !a[0].object || !a[1].object || (count > 2 && a[2].integer))
        return tiny_fail(t, "type", "use", (tiny_word){"error TYPE MESSAGE CAUSE", 24});
    return tiny_error(t, a[0].object->text, a[1].object->text, a[1].object->length,
                      count > 2 && tiny_is_error(a[2]) ? a[2].object : NULL);
}

static tiny_value tiny_return(tiny *t, void *data, const tiny_value *a, int count)
{
    (void)t;
    (void)data;
    return count ? tiny_keep(*a) : nil;
}

static tiny_value tiny_throw_value(tiny *t, void *data, const tiny_value *a, int count)
{
    (void)data;
    if (!count || !tiny_is_error(*a))
        return tiny_fail(t, "type", "use", (tiny_word){"throw ERROR", 11});
    return tiny_throw(t, tiny_keep(*a));
}

tiny *tiny_open(tiny_allocator *allocate, void *data)
{
    tiny *t = allocate(data, NULL, sizeof *t);

    if (!t)
        return NULL;
    *t = (tiny){.allocate = allocate, .data = data};
    t->no_memory = tiny_error(t, "memory", "not enough memory", 17, NULL).object;
    if (t->no_memory && tiny_define(t, "error", tiny_make_error, NULL) &&
        tiny_define(t, "return", tiny_return, NULL) &&
        tiny_define(t, "throw", tiny_throw_value, NULL))
        return t;
    tiny_close(t);
    return NULL;
}

void tiny_close(tiny *t)
{
    for (tiny_function *f = t->functions, *next; f; f = next) {
        next = f->next;
        (void)t->allocate(t->data, f, 0);
    }
    tiny_drop(t, (tiny_value){0, t->no_memory});
    (void)t->allocate(t->data, t, 0);
}

tiny_hooks *tiny_hooks_of(tiny *t)
{
    return &t->hooks;
}

tiny_object *tiny_no_memory(tiny *t)
{
    return t->no_memory;
}

const tiny_frame *tiny_frames(void)
{
    return innermost;
}
