#include "report/locals.h"

#include "base/alloc.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_ADDED = 8 };

static _Atomic(stacksplice_locals_callback) added[MOST_ADDED]; /* (ATOMIC) set once, in order */

stacksplice_hresult stacksplice_add_locals(stacksplice_locals_callback read)
{
    if (!read)
        return E_POINTER;
    for (uint32_t i = 0; i < MOST_ADDED; i++) {
        stacksplice_locals_callback there = NULL;

        if (atomic_compare_exchange_strong(&added[i], &there, read))
            return S_OK;
        if (there == read)
            return S_FALSE;
    }
    return E_OUTOFMEMORY;
}

/* NAME and VALUE in one block. */
static bool copy(stacksplice_told_local *to, const char *name, const char *value, size_t length)
{
    size_t before = strlen(name) + 1;
    char *block = ss_alloc_dirty(before + length);

    if (!block)
        return false;
    memcpy(block, name, before);
    if (length)
        memcpy(block + before, value, length);
    *to = (stacksplice_told_local){block, {block + before, length}};
    return true;
}

static bool begin_storing(ss_locals *l)
{
    if (!l->all)
        l->all = ss_alloc_dirty(STACKSPLICE_MAX_LOCALS * sizeof *l->all);
    if (!l->elements)
        l->elements = ss_alloc_dirty(STACKSPLICE_MAX_LOCALS * sizeof *l->elements);
    return l->all && l->elements;
}

/* A stacksplice_local_callback. */
static int put(uint32_t element, const char *name, const char *value, size_t length, void *data)
{
    ss_locals *l = data;

    if (l->count == STACKSPLICE_MAX_LOCALS || !begin_storing(l) ||
        !copy(&l->all[l->count], name, value, length))
        return 1;
    l->elements[l->count++] = element;
    return 0;
}

/* The place of the element WANTED of VIEW's captured stack in its frames, which have the captured
   ones and perhaps others; UINT32_MAX if it was left out. */
static uint32_t place_of(const ss_error_view *view, uint32_t wanted)
{
    uint32_t at = 0;

    if (!view->captured || view->captured == view->frames)
        return wanted;
    for (uint32_t i = 0; i < view->frame_count && at < view->captured_count; i++) {
        if (view->frames[i] != view->captured[at])
            continue;
        if (at++ == wanted)
            return i;
    }
    return UINT32_MAX;
}

static void put_kept(ss_locals *locals, const stacksplice_exception *x, const ss_error_view *view)
{
    uint32_t count;
    const stacksplice_kept_local *kept = stacksplice_exception_locals(x, &count);

    for (uint32_t i = 0; i < count; i++) {
        const stacksplice_told_local *local = &kept[i].local;
        uint32_t element = place_of(view, kept[i].element);

        if (element != UINT32_MAX &&
            put(element, local->name, local->value.text, local->value.length, locals))
            return;
    }
}

/* A report without memory for them goes on without them. */
void ss_locals_begin(ss_locals *locals, IUnknown *error, const ss_error_view *view)
{
    const stacksplice_exception *x;
    stacksplice_locals_callback read;

    *locals = (ss_locals){.count = 0};
    if (!error || !view->frame_count)
        return;
    x = view->language_exception ? stacksplice_exception_from(view->language_exception, NULL)
                                 : NULL;
    if (x)
        put_kept(locals, x, view);
    for (uint32_t i = 0; i < MOST_ADDED && (read = atomic_load(&added[i])) != NULL; i++)
        read(error, view->frames, view->frame_count, put, locals);
}

void ss_locals_end(ss_locals *locals)
{
    for (uint32_t i = 0; i < locals->count; i++)
        ss_free((void *)(uintptr_t)locals->all[i].name);
    ss_free(locals->all);
    ss_free(locals->elements);
    *locals = (ss_locals){.count = 0};
}

stacksplice_told_locals ss_locals_of(const ss_locals *locals, uint32_t element)
{
    uint32_t begin = 0, end;

    while (locals && begin < locals->count && locals->elements[begin] != element)
        begin++;
    if (!locals || begin == locals->count)
        return (stacksplice_told_locals){NULL, 0};
    for (end = begin + 1; end < locals->count && locals->elements[end] == element;)
        end++;
    return (stacksplice_told_locals){&locals->all[begin], end - begin};
}
