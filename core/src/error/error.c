/* Each error is one block of memory. */
#include "error/error.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "error/registry.h"
#include "error/related.h"
#include "error/stack.h"

#include <string.h>

static ss_error *allocate_error(const ss_origin *origin, const ss_stack *stack)
{
    size_t text = origin->message ? (origin->length + (size_t)1) * sizeof(WCHAR) : 0;
    ss_error *error = ss_alloc_dirty(sizeof *error + stack->to_store * sizeof(uintptr_t) + text);

    if (!error)
        return NULL;
    memset(error, 0, sizeof *error);
    ss_error_init(error, origin->hr);
    ss_stack_store(stack, &error->record, error->storage);
    error->captured = ss_record_frames(&error->record, &error->captured_count);
    if (origin->message) {
        WCHAR *copy = (WCHAR *)(error->storage + stack->to_store);

        memcpy(copy, origin->message, origin->length * sizeof *copy);
        copy[origin->length] = 0;
        error->message = copy;
        error->message_length = origin->length;
    }
    return error;
}

ss_error *ss_error_new(const ss_origin *origin)
{
    ss_stack stack;
    ss_held language;
    ss_related related;
    ss_error *error;

    ss_held_begin(&language, origin->language_exception);
    ss_stack_take(&stack, &language, origin->above);
    ss_related_take(&related, origin);
    error = allocate_error(origin, &stack);
    ss_stack_done(&stack);
    if (!error) {
        ss_related_drop(&related);
        ss_held_sleep(&language);
        ss_held_end(&language);
        return NULL;
    }
    error->record.fixed.thread_id = ss_thread_id();
    error->record.language = language;
    error->previous = related.previous;
    error->relation = (uint8_t)related.relation;
    error->causes_left_out = related.causes_left_out;
    error->depth = related.depth;
    atomic_init(&error->outside, 1);
    atomic_init(&error->inside, 1);
    ss_registry_add(error);
    return error;
}
