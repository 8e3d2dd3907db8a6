/* From the block to the threads and interpreters of a process, and to its errors. */
#include "errors/errors.h"

#include "base/list.h"
#include "errors/text.h"
#include "errors/tree.h"

#include <stacksplice/stowed.h>
#include <stdlib.h>

enum { MAX_LISTS = 4096 };

static void add_pending(ssi_error_reader *r, uint64_t thread, size_t error)
{
    ssi_errors *errors = r->errors;

    if (error && ssi_errors_of(errors, (int)thread))
        errors->hidden = true;
    else if (error && ssi_grow(&errors->pending, errors->pending_count, &errors->pending_room,
                               sizeof *errors->pending))
        errors->pending[errors->pending_count++] = (ssi_pending){(int)thread, error};
}

/* ---- What the list has ------------------------------------------------------------------------*/

/* False if its error cannot be read. */
static bool read_thread(ssi_error_reader *r, const stacksplice_entry *entry)
{
    stacksplice_anchor anchor;
    size_t error;

    if (!ssi_read(r->block->memory, entry->object, &anchor, sizeof anchor) ||
        anchor.signature != STACKSPLICE_ANCHOR_SIGNATURE ||
        anchor.version != STACKSPLICE_INSPECT_VERSION)
        return false;
    error = anchor.error ? ssi_error_tree(r, anchor.error) : 0;
    add_pending(r, entry->detail, error);
    return error || !anchor.error;
}

static void read_interpreter(ssi_error_reader *r, const stacksplice_entry *entry)
{
    ssi_errors *errors = r->errors;
    ssi_interpreter interpreter = {.address = entry->object};

    interpreter.language = ssi_object_language(r, entry->detail);
    interpreter.version = ssi_text_at(
        r->block->memory, ssi_object_pointer(r, entry->detail, STACKSPLICE_NUMBER_OWNER_VERSION));
    if (interpreter.language && ssi_grow(&errors->interpreters, errors->interpreter_count,
                                         &errors->interpreter_room, sizeof interpreter))
        errors->interpreters[errors->interpreter_count++] = interpreter;
}

/* False if some of it cannot be read. */
static bool read_list(ssi_error_reader *r)
{
    uint64_t at = r->block->words.entries;
    stacksplice_entries list;
    bool whole = true;

    for (int i = 0; at && i < MAX_LISTS; i++) {
        if (!ssi_read(r->block->memory, at, &list, sizeof list))
            return false;
        for (size_t e = 0; e < STACKSPLICE_ENTRIES; e++) {
            if (list.entries[e].kind == STACKSPLICE_ENTRY_THREAD)
                whole &= read_thread(r, &list.entries[e]);
            else if (list.entries[e].kind == STACKSPLICE_ENTRY_INTERPRETER)
                read_interpreter(r, &list.entries[e]);
        }
        at = list.next;
    }
    return whole;
}

/* ---- All of a process -------------------------------------------------------------------------*/

/* The error with which it failed fast; without one, what its first stowed record says. */
static size_t read_failed(ssi_error_reader *r)
{
    const stacksplice_inspection_block *b = &r->block->words;
    STOWED_EXCEPTION_INFORMATION_V2 stowed;
    stacksplice_record record = {.frame_size = 0};
    uint64_t address = 0;

    if (b->failed)
        return ssi_error_tree(r, b->failed);
    if (!b->stowed_count || !ssi_read_word(r->block->memory, b->stowed, &address) ||
        !ssi_read(r->block->memory, address, &stowed, sizeof stowed) ||
        stowed.Header.Signature != STOWED_EXCEPTION_INFORMATION_V2_SIGNATURE)
        return 0;
    (void)ssi_read_word(r->block->memory, b->stowed_thread_ids, &record.thread_id);
    record.hresult = stowed.ResultCode;
    record.frame_count = stowed.StackTraceWords;
    record.frame_size = stowed.StackTraceWordSize;
    record.frames = (uintptr_t)stowed.StackTrace;
    return ssi_error_alone(r, &record);
}

void ssi_errors_read(const ssi_target *target, const ssi_blocks *blocks, ssi_errors *errors,
                     ssi_scripts *scripts)
{
    bool whole = true;

    for (size_t i = 0; i < blocks->count; i++) {
        ssi_block block;
        ssi_error_reader r = {.block = &block, .errors = errors};

        if (!ssi_block_read(&target->memory, blocks->addresses[i], &block)) {
            whole = false;
            continue;
        }
        add_pending(&r, 0, read_failed(&r));
        whole &= read_list(&r);
    }
    if (errors->hidden)
        ssi_scripts_note(scripts, "the process has several copies of stacksplice: of a thread's "
                                  "errors, only that in the first copy is shown");
    if (!whole)
        ssi_scripts_note(scripts, "not all current errors of threads can be read: they are too "
                                  "many, or their memory is missing or damaged");
}

void ssi_errors_describe(ssi_errors *errors, ssi_native *native)
{
    for (size_t i = 0; native && i < errors->frames.count; i++) {
        ssi_frame *frame = &errors->frames.items[i];

        if (frame->kind == SSI_NATIVE && !frame->module)
            *frame = ssi_native_describe(native, &(ssi_native_frame){.address = frame->address});
    }
}

const ssi_error *ssi_errors_of(const ssi_errors *errors, int thread)
{
    for (size_t i = 0; i < errors->pending_count; i++)
        if (errors->pending[i].thread == thread)
            return &errors->items[errors->pending[i].error];
    return NULL;
}

void ssi_errors_free(ssi_errors *errors)
{
    free(errors->items);
    free(errors->frames.items);
    free(errors->nodes);
    free(errors->notes);
    free(errors->pending);
    free(errors->interpreters);
}
