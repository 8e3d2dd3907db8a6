/* The loader fills in the addresses, so the block is complete before any code runs. */
#include "inspect/block.h"

#include "error/error.h"
#include "script/exception.h"
#include "splice/pool.h"
#include "splice/unloaded.h"

#define ADDRESS(object) ((uintptr_t)(object))
#define IN_ERROR(member) ((int32_t)offsetof(ss_error, member) - RECORD)
#define IN_NODE(member) ((int32_t)offsetof(ss_node, member) - RECORD)
#define IN_EXCEPTION(member)                            \
    ((int32_t)offsetof(stacksplice_exception, member) - \
     (int32_t)offsetof(stacksplice_exception, script))

enum { RECORD = offsetof(ss_record, fixed) };

_Static_assert(offsetof(ss_error, record) == 0 && offsetof(ss_node, record) == 0,
               "an offset in a record is one in both");

stacksplice_entries ss_entries_first;

__attribute__((used, aligned(16))) stacksplice_inspection_block ss_inspection = {
    .signature = STACKSPLICE_INSPECTION_SIGNATURE,
    .self = ADDRESS(&ss_inspection),
    .version = STACKSPLICE_INSPECTION_VERSION,
    .size = sizeof ss_inspection,
    .number_count = STACKSPLICE_NUMBERS,
    .entries = ADDRESS(&ss_entries_first),
    .token_chunks = ADDRESS(ss_row_chunks),
    .fixed_tokens = ADDRESS(ss_token_fixed),
    .unloaded_modules = ADDRESS(ss_met_modules),
    .error_methods = ADDRESS(&ss_error_script_methods),
    .exception_methods = ADDRESS(&ss_exception_script_methods),
    .numbers =
        {
            [STACKSPLICE_NUMBER_CELLS] = SS_POOL_CELLS,
            [STACKSPLICE_NUMBER_CHUNK_CELLS] = SS_CHUNK_CELLS,
            [STACKSPLICE_NUMBER_CELL_SIZE] = sizeof(ss_cell),
            [STACKSPLICE_NUMBER_CELL_STATE] = offsetof(ss_cell, state),
            [STACKSPLICE_NUMBER_CELL_NEXT] = offsetof(ss_cell, next),
            [STACKSPLICE_NUMBER_CELL_ROW] = offsetof(ss_cell, row),
            [STACKSPLICE_NUMBER_CELL_WORDS] = SS_CELL_WORDS,
            [STACKSPLICE_NUMBER_FIXED_TOKENS] = SS_TOKEN_FIXED_COUNT,
            [STACKSPLICE_NUMBER_MODULE_BUILD_ID] = offsetof(ss_met_module, build_id),
            [STACKSPLICE_NUMBER_MODULE_PATH] = offsetof(ss_met_module, path),
            [STACKSPLICE_NUMBER_RECORD_EXCEPTION] = IN_ERROR(record.language.exception),
            [STACKSPLICE_NUMBER_ERROR_INTERFACE] = IN_ERROR(IScriptErrorInfo_iface),
            [STACKSPLICE_NUMBER_ERROR_MESSAGE] = IN_ERROR(message),
            [STACKSPLICE_NUMBER_ERROR_MESSAGE_LENGTH] = IN_ERROR(message_length),
            [STACKSPLICE_NUMBER_ERROR_PREVIOUS] = IN_ERROR(previous.error),
            [STACKSPLICE_NUMBER_ERROR_RELATION] = IN_ERROR(relation),
            [STACKSPLICE_NUMBER_ERROR_CAUSES_LEFT_OUT] = IN_ERROR(causes_left_out),
            [STACKSPLICE_NUMBER_ERROR_NODES] = IN_ERROR(head),
            [STACKSPLICE_NUMBER_ERROR_NOTES] = IN_ERROR(notes),
            [STACKSPLICE_NUMBER_ERROR_PROCESS] = IN_ERROR(process),
            [STACKSPLICE_NUMBER_ERROR_NUMBER] = IN_ERROR(number),
            [STACKSPLICE_NUMBER_NODE_RECORD] = RECORD,
            [STACKSPLICE_NUMBER_NODE_PREVIOUS] = IN_NODE(previous),
            [STACKSPLICE_NUMBER_NODE_RECEIVER] = IN_NODE(receiver),
            [STACKSPLICE_NUMBER_NOTE_PREVIOUS] = offsetof(ss_note, previous),
            [STACKSPLICE_NUMBER_NOTE_LENGTH] = offsetof(ss_note, length),
            [STACKSPLICE_NUMBER_NOTE_TEXT] = offsetof(ss_note, text),
            [STACKSPLICE_NUMBER_EXCEPTION_OWNER] = IN_EXCEPTION(owner),
            [STACKSPLICE_NUMBER_EXCEPTION_TYPE] = IN_EXCEPTION(types),
            [STACKSPLICE_NUMBER_EXCEPTION_MESSAGE] = IN_EXCEPTION(message),
            [STACKSPLICE_NUMBER_EXCEPTION_MESSAGE_LENGTH] = IN_EXCEPTION(message_length),
            [STACKSPLICE_NUMBER_EXCEPTION_GROUP] = IN_EXCEPTION(group),
            [STACKSPLICE_NUMBER_EXCEPTION_MEMBERS] = IN_EXCEPTION(members),
            [STACKSPLICE_NUMBER_EXCEPTION_MEMBER_COUNT] = IN_EXCEPTION(member_count),
            [STACKSPLICE_NUMBER_EXCEPTION_MEMBERS_LEFT_OUT] = IN_EXCEPTION(members_left_out),
            [STACKSPLICE_NUMBER_EXCEPTION_NOTES] = IN_EXCEPTION(notes),
            [STACKSPLICE_NUMBER_EXCEPTION_NOTE_COUNT] = IN_EXCEPTION(note_count),
            [STACKSPLICE_NUMBER_OWNER_LANGUAGE] = offsetof(ss_owner, language),
            [STACKSPLICE_NUMBER_OWNER_VERSION] = offsetof(ss_owner, version),
        },
};

/* Not the variable itself: a program that copies exported data would have another block. */
extern __attribute__((alias("ss_inspection")))
const stacksplice_inspection_block stacksplice_inspection;
