#include "errors/private.h"

#include "base/base.h"
#include "errors/errors.h"

#include <stacksplice/script.h>
#include <string.h>

enum { MAX_ELEMENTS = 1 << 16, MAX_ALL_ELEMENTS = 1 << 20, MAX_NODES = 256, MAX_NOTES = 512 };

/* ---- Words ------------------------------------------------------------------------------------*/

static uint64_t address_of(const ssi_error_reader *r, uint64_t object, stacksplice_number which)
{
    return object + (uint64_t)(int64_t)r->block->numbers[which];
}

uint64_t ssi_object_number(const ssi_error_reader *r, uint64_t object, stacksplice_number which,
                           size_t size)
{
    uint64_t number = 0;

    if (!object || !ssi_read(address_of(r, object, which), &number, size))
        return 0;
    return number;
}

uint64_t ssi_object_pointer(const ssi_error_reader *r, uint64_t object, stacksplice_number which)
{
    return ssi_object_number(r, object, which, sizeof object);
}

uint64_t ssi_object_error(const ssi_error_reader *r, uint64_t interface)
{
    if (!interface || ssi_word(interface) != r->block->error_methods)
        return 0;
    return interface - (uint64_t)(int64_t)r->block->numbers[STACKSPLICE_NUMBER_ERROR_INTERFACE];
}

uint64_t ssi_object_exception(const ssi_error_reader *r, uint64_t record)
{
    uint64_t exception = ssi_object_pointer(r, record, STACKSPLICE_NUMBER_RECORD_EXCEPTION);

    return exception && ssi_word(exception) == r->block->exception_methods ? exception : 0;
}

/* ---- Stacks -----------------------------------------------------------------------------------*/

static void read_stack(ssi_error_reader *r, const stacksplice_record *record,
                       ssi_error_stack *stack)
{
    uint64_t element;

    stack->frames.first = r->errors->frames.count;
    for (uint32_t i = 0; i < record->frame_count; i++) {
        ssi_frame frame;

        if (i == MAX_ELEMENTS || r->elements++ >= MAX_ALL_ELEMENTS ||
            record->frame_size != sizeof element ||
            !ssi_read_word(record->frames + i * sizeof element, &element)) {
            (void)ssi_frames_add_gap(&r->errors->frames, "the rest of this stack cannot be read");
            break;
        }
        frame = ssi_token_frame(r->block, element, &stack->left_out);
        if (!ssi_frames_add(&r->errors->frames, &frame))
            break;
    }
    stack->frames.count = r->errors->frames.count - stack->frames.first;
}

static bool read_record(uint64_t address, stacksplice_record *record)
{
    return address && ssi_read(address, record, sizeof *record) &&
           record->signature == STACKSPLICE_RECORD_SIGNATURE &&
           record->version == STACKSPLICE_INSPECT_VERSION;
}

/* The language of the innermost script frame. */
static const char *language_of(const ssi_error_reader *r, const ssi_error_stack *stack)
{
    for (size_t i = 0; i < stack->frames.count; i++) {
        const ssi_frame *frame = &r->errors->frames.items[stack->frames.first + i];

        if (frame->kind == SSI_SCRIPT && frame->language)
            return frame->language;
    }
    return "native";
}

/* ---- Nodes ------------------------------------------------------------------------------------*/

static void read_node(ssi_error_reader *r, uint64_t address)
{
    ssi_errors *errors = r->errors;
    ssi_node node = {.language = "native"};
    stacksplice_record record;
    const char *receiver;

    if (!read_record(address, &record))
        return;
    receiver = ssi_text_at(ssi_object_pointer(r, address, STACKSPLICE_NUMBER_NODE_RECEIVER));
    if (receiver)
        node.language = receiver;
    node.thread_id = record.thread_id;
    read_stack(r, &record, &node.stack);
    (void)ssi_append(&errors->nodes, &errors->node_count, &errors->node_room, &node, sizeof node);
}

/* The newest is the first of their list. */
static void read_nodes(ssi_error_reader *r, uint64_t error, ssi_part *part)
{
    int32_t in_node = r->block->numbers[STACKSPLICE_NUMBER_NODE_RECORD];
    uint64_t node = ssi_object_pointer(r, error, STACKSPLICE_NUMBER_ERROR_NODES);
    uint64_t nodes[MAX_NODES];
    size_t count = 0;

    while (node && count < MAX_NODES) {
        nodes[count++] = node + (uint64_t)(int64_t)in_node;
        node = ssi_object_pointer(r, nodes[count - 1], STACKSPLICE_NUMBER_NODE_PREVIOUS);
    }
    part->first = r->errors->node_count;
    while (count)
        read_node(r, nodes[--count]);
    part->count = r->errors->node_count - part->first;
}

/* ---- Notes ------------------------------------------------------------------------------------*/

static void add_note(ssi_error_reader *r, uint64_t address, uint64_t length)
{
    ssi_errors *errors = r->errors;
    const char *note = ssi_bytes_at(address, length);

    if (note)
        (void)ssi_append(&errors->notes, &errors->note_count, &errors->note_room, &note,
                         sizeof note);
}

/* Those that the exception came with, then those added to the error. */
static void read_notes(ssi_error_reader *r, uint64_t error, uint64_t exception, ssi_part *part)
{
    uint64_t told = ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_NOTES);
    uint64_t told_count =
        ssi_object_number(r, exception, STACKSPLICE_NUMBER_EXCEPTION_NOTE_COUNT, sizeof(uint32_t));
    uint64_t note = ssi_object_pointer(r, error, STACKSPLICE_NUMBER_ERROR_NOTES);
    uint64_t notes[MAX_NOTES];
    size_t count = 0;

    part->first = r->errors->note_count;
    for (uint64_t i = 0; i < told_count && i < MAX_NOTES; i++) {
        stacksplice_document_text text;

        if (!ssi_read(told + i * sizeof text, &text, sizeof text))
            break;
        add_note(r, (uintptr_t)text.text, text.length);
    }
    for (; note && count < MAX_NOTES;
         note = ssi_object_pointer(r, note, STACKSPLICE_NUMBER_NOTE_PREVIOUS))
        notes[count++] = note;
    while (count--)
        add_note(r, address_of(r, notes[count], STACKSPLICE_NUMBER_NOTE_TEXT),
                 ssi_object_pointer(r, notes[count], STACKSPLICE_NUMBER_NOTE_LENGTH));
    part->count = r->errors->note_count - part->first;
}

/* ---- Errors -----------------------------------------------------------------------------------*/

const char *ssi_object_language(const ssi_error_reader *r, uint64_t owner)
{
    uint64_t language = ssi_object_pointer(r, owner, STACKSPLICE_NUMBER_OWNER_LANGUAGE);

    return language ? ssi_text_at(ssi_word(language + offsetof(stacksplice_language, name))) : NULL;
}

void ssi_object_of_record(ssi_error_reader *r, const stacksplice_record *record, ssi_error *error)
{
    *error = (ssi_error){.hresult = record->hresult, .thread_id = record->thread_id};
    read_stack(r, record, &error->stack);
    error->language = language_of(r, &error->stack);
}

static void read_exception(const ssi_error_reader *r, uint64_t exception, ssi_error *error)
{
    const char *language = ssi_object_language(
        r, ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_OWNER));
    uint64_t message = ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MESSAGE);

    if (language)
        error->language = language;
    error->type = ssi_text_at(ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_TYPE));
    if (message)
        error->message = ssi_bytes_at(
            message, ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MESSAGE_LENGTH));
    error->group = ssi_object_number(r, exception, STACKSPLICE_NUMBER_EXCEPTION_GROUP, 1) != 0;
    error->members_left_out = (uint32_t)ssi_object_number(
        r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBERS_LEFT_OUT, sizeof(uint32_t));
}

static const char *reference_of(const ssi_error_reader *r, uint64_t error)
{
    unsigned long long number = ssi_object_pointer(r, error, STACKSPLICE_NUMBER_ERROR_NUMBER);

    if (!number)
        return NULL;
    return ssi_text_format(
        "%016llx-%016llx",
        (unsigned long long)ssi_object_pointer(r, error, STACKSPLICE_NUMBER_ERROR_PROCESS), number);
}

bool ssi_object_read(ssi_error_reader *r, uint64_t address, ssi_error *error)
{
    uint64_t exception = ssi_object_exception(r, address);
    stacksplice_record record;

    if (!read_record(address, &record))
        return false;
    ssi_object_of_record(r, &record, error);
    error->message = ssi_wide_at(
        ssi_object_pointer(r, address, STACKSPLICE_NUMBER_ERROR_MESSAGE),
        ssi_object_number(r, address, STACKSPLICE_NUMBER_ERROR_MESSAGE_LENGTH, sizeof(uint32_t)));
    if (exception)
        read_exception(r, exception, error);
    error->reference = reference_of(r, address);
    error->causes_left_out = (uint32_t)ssi_object_number(
        r, address, STACKSPLICE_NUMBER_ERROR_CAUSES_LEFT_OUT, sizeof(uint32_t));
    read_nodes(r, address, &error->nodes);
    read_notes(r, address, exception, &error->notes);
    return true;
}
