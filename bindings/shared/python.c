/*
 * 3.11 and 3.12 get security fixes only, so their layout is frozen and stands here.  From 3.13 on
 * the runtime begins with a table of its offsets (_Py_DebugOffsets), and a row has the numbers of
 * that table's words.  Code objects and strings are as the version's headers have them.
 */
#include "shared/python.h"

#include <string.h>

typedef struct row {
    sspy_layout fixed;
    /* The first words of groups in the table; 0: this version has none. */
    uint8_t interpreter, thread, frame;
    uint8_t gc;         /* in the interpreter's group; behind it: the modules, ..., the lock */
    uint8_t native_id;  /* in the thread's group, behind Python's own */
    uint8_t collecting; /* in the table, behind the size of its group */
    uint8_t collector;  /* in the table, or 0 */
} row;

static const row rows[] = {
    {.fixed = {.minor = 11,
               .thread_raised = 104,
               .thread_handled = 120,
               .cframe = true,
               .interpreters = 40,
               .interpreter_threads = 16,
               .interpreter_id = 48,
               .interpreter_collecting = 648 + 200,
               .interpreter_modules = 888,
               .runtime_lock = 360,
               .thread_next = 8,
               .thread_interpreter = 16,
               .thread_head = 56,
               .thread_id = 160,
               .thread_ident = 152,
               .cframe_current = 8,
               .cframe_previous = 16,
               .frame_code = 32,
               .frame_previous = 48,
               .frame_instruction = 56,
               .frame_owner = 69,
               .frame_is_entry = 68,
               .code_first_line = 72,
               .code_first_traceable = 168,
               .text_ascii = 48,
               .text_compact = 72,
               .frame_variables = 72,
               .frame_names = 24,
               .tuple_items = 24,
               .type_keys = 872}},
    {.fixed = {.minor = 12,
               .thread_raised = 96,
               .thread_handled = 104,
               .cframe = true,
               .interpreters = 40,
               .interpreter_threads = 72,
               .interpreter_id = 8,
               .interpreter_collecting = 112 + 200,
               .interpreter_modules = 944,
               .interpreter_lock = 384,
               .thread_next = 8,
               .thread_interpreter = 16,
               .thread_head = 56,
               .thread_id = 144,
               .thread_ident = 136,
               .cframe_current = 0,
               .cframe_previous = 8,
               .frame_code = 0,
               .frame_previous = 8,
               .frame_instruction = 56,
               .frame_owner = 70,
               .code_first_line = 68,
               .code_first_traceable = 176,
               .text_ascii = 40,
               .text_compact = 56,
               .frame_variables = 72,
               .frame_names = 40,
               .tuple_items = 24,
               .type_keys = 880,
               .int_tag = true}},
    {.fixed = {.minor = 13,
               .thread_raised = 112,
               .thread_handled = 120,
               .code_first_line = 68,
               .code_first_traceable = 184,
               .text_ascii = 40,
               .text_compact = 56,
               .frame_names = 40,
               .tuple_items = 24,
               .dict_values = 8,
               .type_keys = 880,
               .int_tag = true},
     .interpreter = 6,
     .thread = 19,
     .frame = 28,
     .gc = 4,
     .native_id = 6,
     .collecting = 72},
    {.fixed = {.minor = 14,
               .thread_raised = 112,
               .thread_handled = 120,
               .code_first_line = 68,
               .code_first_traceable = 192,
               .text_ascii = 40,
               .text_compact = 56,
               .frame_names = 40,
               .tuple_items = 32,
               .dict_values = 8,
               .type_keys = 880,
               .int_tag = true},
     .interpreter = 6,
     .thread = 22,
     .frame = 31,
     .gc = 5,
     .native_id = 6,
     .collecting = 82},
    {.fixed = {.minor = 15,
               .thread_raised = 136,
               .thread_handled = 144,
               .code_first_line = 68,
               .code_first_traceable = 192,
               .text_ascii = 40,
               .text_compact = 56,
               .frame_names = 40,
               .tuple_items = 32,
               .dict_values = 8,
               .type_keys = 888,
               .int_tag = true},
     .interpreter = 6,
     .thread = 22,
     .frame = 39,
     .gc = 5,
     .native_id = 9,
     .collecting = 95,
     .collector = 96},
};

static const row *row_of(uint64_t version)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (version >> 16 == (0x0300u | rows[i].fixed.minor))
            return &rows[i];
    return NULL;
}

/* Never follow impossible offsets. */
static bool are_within(const uint64_t *group, unsigned last, uint64_t limit)
{
    if (group[0] > limit)
        return false;
    for (unsigned i = 1; i <= last; i++)
        if (group[i] >= group[0])
            return false;
    return true;
}

/* An object's head has its thread, a lock and a second count.  From 3.14 on each thread runs a copy of the
   instructions, whose number ends the frame's group, and a str has a byte for how it is interned. */
static void read_free_threaded(const uint64_t *frame, sspy_layout *layout)
{
    layout->is_free_threaded = true;
    layout->object_head = 16;
    if (layout->minor >= 14) {
        layout->frame_copy = (uint32_t)frame[7];
        layout->text_shift = 6;
    }
}

/* The groups: the interpreter's are size, id, next, threads, ..., garbage collector, modules,
   settings, builtins, pointer to the lock; the thread's size, previous, next, interpreter, frame;
   the frame's size, previous, code, instruction, locals, owner. */
static const char *read_table(const row *r, const uint64_t *words, sspy_layout *layout)
{
    const uint64_t *interpreter = words + r->interpreter, *thread = words + r->thread;
    const uint64_t *frame = words + r->frame;

    if (words[2] > 1 || !are_within(words + 3, 2, 1 << 24) ||
        !are_within(interpreter, r->gc + 4, 1 << 24) ||
        !are_within(thread, r->native_id, 1 << 16) || !are_within(frame, 5, 1024) ||
        !are_within(words + r->collecting - 1, r->collector ? 2 : 1, 1 << 16))
        return "its table of offsets is damaged";
    if (layout->thread_handled >= thread[0])
        layout->thread_raised = layout->thread_handled = 0;
    layout->interpreters = (uint32_t)words[5];
    layout->interpreter_id = (uint32_t)interpreter[1];
    layout->interpreter_next = (uint32_t)interpreter[2];
    layout->interpreter_threads = (uint32_t)interpreter[3];
    layout->interpreter_collecting = (uint32_t)(interpreter[r->gc] + words[r->collecting]);
    if (r->collector)
        layout->interpreter_collector = (uint32_t)(interpreter[r->gc] + words[r->collector]);
    layout->interpreter_modules = (uint32_t)interpreter[r->gc + 1];
    layout->interpreter_lock = (uint32_t)interpreter[r->gc + 4];
    layout->thread_next = (uint32_t)thread[2];
    layout->thread_interpreter = (uint32_t)thread[3];
    layout->thread_head = (uint32_t)thread[4];
    layout->thread_id = (uint32_t)thread[r->native_id];
    layout->thread_ident = (uint32_t)thread[r->native_id - 1];
    layout->frame_previous = (uint32_t)frame[1];
    layout->frame_code = (uint32_t)frame[2];
    layout->frame_instruction = (uint32_t)frame[3];
    layout->frame_variables = (uint32_t)frame[4];
    layout->frame_owner = (uint32_t)frame[5];
    if (words[2])
        read_free_threaded(frame, layout);
    return NULL;
}

const char *sspy_layout_of(uint64_t version, const uint64_t *words, sspy_layout *layout)
{
    const row *r = row_of(version);

    if (!r)
        return "its version is not known";
    *layout = r->fixed;
    if (!r->frame)
        return NULL;
    if (!words)
        return "its runtime cannot be read";
    if (memcmp(words, "xdebugpy", 8) != 0 || words[1] >> 16 != version >> 16)
        return "its table of offsets is for another version";
    return read_table(r, words, layout);
}
