#include "errors/private.h"

#include "base/base.h"
#include "errors/errors.h"

#include <stacksplice/stowed.h>

#include <stdlib.h>

/*
 * From one error to those inside of it and behind it.  The process was stopped anywhere and may be
 * damaged: all lists are bounded, and an error that encloses itself ends its chain.
 */

enum { MAX_ERRORS = 4096, MAX_MEMBERS = 128, MAX_LEVELS = 32 };

static size_t read_error(ssi_error_reader *r, uint64_t record, const char *relation);

static bool is_around(const ssi_error_reader *r, uint64_t record)
{
    for (unsigned i = 0; i < r->around_count; i++)
        if (r->around[i] == record)
            return true;
    return false;
}

/* False when there is no more room: what would follow is left out. */
static bool enclose(ssi_error_reader *r, uint64_t record)
{
    if (r->around_count == sizeof r->around / sizeof *r->around)
        return false;
    r->around[r->around_count++] = record;
    return true;
}

static void read_members(ssi_error_reader *r, uint64_t record, ssi_error *error)
{
    uint64_t exception = ssi_object_exception(r, record);
    uint64_t members = ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBERS);
    uint64_t count = ssi_object_number(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBER_COUNT,
                                       sizeof(uint32_t));
    size_t *link = &error->members, last = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t interface = 0, member;
        size_t read = 0;

        if (i < MAX_MEMBERS && r->around_count < MAX_LEVELS &&
            ssi_read_word(members + i * sizeof member, &interface)) {
            member = ssi_object_error(r, interface);
            read = member && !is_around(r, member) ? read_error(r, member, NULL) : 0;
        }
        if (!read) {
            error->members_left_out += i < MAX_MEMBERS ? 1 : (uint32_t)(count - i);
            if (i >= MAX_MEMBERS)
                return;
            continue;
        }
        if (last)
            r->errors->items[last].next = read;
        else
            *link = read;
        last = read;
    }
}

static const char *relation_at(const ssi_error_reader *r, uint64_t record)
{
    return ssi_object_number(r, record, STACKSPLICE_NUMBER_ERROR_RELATION, 1) ==
                   STACKSPLICE_RELATION_CONTEXT
               ? "context"
               : "cause";
}

/* All errors behind the one at RECORD, as one list, the latest first. */
static void read_causes(ssi_error_reader *r, uint64_t record, ssi_error *error)
{
    unsigned before = r->around_count;
    size_t last = 0;

    for (;;) {
        uint64_t interface = ssi_object_pointer(r, record, STACKSPLICE_NUMBER_ERROR_PREVIOUS);
        uint64_t previous = ssi_object_error(r, interface);
        const char *relation = relation_at(r, record);
        size_t read;

        if (!interface)
            break;
        if (previous && is_around(r, previous)) {
            error->above = relation;
            error->causes_left_out = 0;
            break;
        }
        read = previous ? read_error(r, previous, relation) : 0;
        if (!read || !enclose(r, previous)) {
            error->causes_left_out = 1;
            break;
        }
        error->causes_left_out = r->errors->items[read].causes_left_out;
        if (last)
            r->errors->items[last].next = read;
        else
            error->causes = read;
        last = read;
        record = previous;
    }
    r->around_count = before;
}

/* Its number; 0, at which no error stands, if there is no more room. */
static size_t add(ssi_errors *errors, const ssi_error *error)
{
    bool is_first = !errors->count;

    if (errors->count > MAX_ERRORS ||
        !ssi_append(&errors->items, &errors->count, &errors->room, error, sizeof *error))
        return 0;
    return is_first ? add(errors, error) : errors->count - 1;
}

/* Its number in the list; 0 if it cannot be read.  RELATION: it is in a list of causes, which also
   has its own. */
static size_t read_error(ssi_error_reader *r, uint64_t record, const char *relation)
{
    unsigned before = r->around_count;
    ssi_error error;
    size_t number;

    if (!ssi_object_read(r, record, &error) || !enclose(r, record))
        return 0;
    number = add(r->errors, &error);
    if (!number) {
        r->around_count = before;
        return 0;
    }
    error.relation = relation;
    read_members(r, record, &error);
    if (!relation)
        read_causes(r, record, &error);
    r->around_count = before;
    r->errors->items[number] = error;
    return number;
}

static size_t error_tree(ssi_error_reader *r, uint64_t record)
{
    return read_error(r, record, NULL);
}

static size_t error_alone(ssi_error_reader *r, const stacksplice_record *record)
{
    ssi_error error;

    ssi_object_of_record(r, record, &error);
    return add(r->errors, &error);
}

/* From the block to the threads and interpreters of a process, and to its errors. */

enum { MAX_LISTS = 4096 };

static void add_pending(ssi_error_reader *r, uint64_t thread, size_t error)
{
    ssi_errors *errors = r->errors;

    if (error && ssi_errors_of(errors, (int)thread))
        errors->hidden = true;
    else if (error)
        (void)ssi_append(&errors->pending, &errors->pending_count, &errors->pending_room,
                         &(ssi_pending){(int)thread, error}, sizeof(ssi_pending));
}

/* ---- What the list has ------------------------------------------------------------------------*/

/* False if its error cannot be read. */
static bool read_thread(ssi_error_reader *r, const stacksplice_entry *entry)
{
    stacksplice_anchor anchor;
    size_t error;

    if (!ssi_read(entry->object, &anchor, sizeof anchor) ||
        anchor.signature != STACKSPLICE_ANCHOR_SIGNATURE ||
        anchor.version != STACKSPLICE_INSPECT_VERSION)
        return false;
    error = anchor.error ? error_tree(r, anchor.error) : 0;
    add_pending(r, entry->detail, error);
    return error || !anchor.error;
}

static void read_interpreter(ssi_error_reader *r, const stacksplice_entry *entry)
{
    ssi_errors *errors = r->errors;
    ssi_interpreter interpreter = {.address = entry->object};

    interpreter.language = ssi_object_language(r, entry->detail);
    interpreter.version =
        ssi_text_at(ssi_object_pointer(r, entry->detail, STACKSPLICE_NUMBER_OWNER_VERSION));
    if (interpreter.language)
        (void)ssi_append(&errors->interpreters, &errors->interpreter_count,
                         &errors->interpreter_room, &interpreter, sizeof interpreter);
}

/* False if some of it cannot be read. */
static bool read_list(ssi_error_reader *r)
{
    uint64_t at = r->block->entries;
    stacksplice_entries list;
    bool whole = true;

    for (int i = 0; at && i < MAX_LISTS; i++) {
        if (!ssi_read(at, &list, sizeof list))
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
    const ssi_block *b = r->block;
    STOWED_EXCEPTION_INFORMATION_V2 stowed;
    stacksplice_record record = {.frame_size = 0};
    uint64_t address = 0;

    if (b->failed)
        return error_tree(r, b->failed);
    if (!b->stowed_count || !ssi_read_word(b->stowed, &address) ||
        !ssi_read(address, &stowed, sizeof stowed) ||
        stowed.Header.Signature != STOWED_EXCEPTION_INFORMATION_V2_SIGNATURE)
        return 0;
    record.thread_id = ssi_word(b->stowed_thread_ids);
    record.hresult = stowed.ResultCode;
    record.frame_count = stowed.StackTraceWords;
    record.frame_size = stowed.StackTraceWordSize;
    record.frames = (uintptr_t)stowed.StackTrace;
    return error_alone(r, &record);
}

void ssi_errors_read(const ssi_blocks *blocks, ssi_errors *errors, ssi_scripts *scripts)
{
    bool whole = true;

    for (size_t i = 0; i < blocks->count; i++) {
        ssi_block block;
        ssi_error_reader r = {.block = &block, .errors = errors};

        if (!ssi_block_read(blocks->addresses[i], &block)) {
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
