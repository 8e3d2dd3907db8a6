/* Values are recognised as exceptions by the flags of their types before more of them is believed.
 */
#include "python/private.h"

#include "base/base.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAX_HANDLED = 64, /* steps from one handler to the one around it */
    MAX_SHOWN = 8,    /* of them */
    MAX_CHAIN = 16,
    MAX_TRACEBACK = 1 << 12
};

typedef struct reader {
    ssi_scripts *scripts;
    ssi_codes *codes;
    int thread;
} reader;

static bool is_exception(uint64_t address)
{
    uint64_t type = address ? ssi_word(address + SSPY_OBJECT_TYPE) : 0;

    return type && (ssi_word(type + SSPY_TYPE_FLAGS) & SSPY_TYPE_IS_EXCEPTION);
}

/* ---- One exception ----------------------------------------------------------------------------*/

static void add_frame(const reader *r, uint64_t entry)
{
    const sspy_layout *layout = r->codes->layout;
    uint64_t object = ssi_word(entry + SSPY_TRACEBACK_FRAME);
    uint64_t frame = object ? ssi_word(object + SSPY_FRAME_OBJECT_FRAME) : 0;
    uint64_t code = frame ? ssi_word(frame + layout->frame_code) & ~(uint64_t)SSPY_CODE_TAG : 0;
    const ssi_code *known = ssi_code_at(r->codes, code);
    ssi_frame shown = {.kind = SSI_SCRIPT, .language = "python", .traceback = true};
    int32_t instruction = 0;

    if (!known) {
        (void)ssi_frames_add_gap(&r->scripts->frames, "a Python frame cannot be read");
        return;
    }
    (void)ssi_read(entry + SSPY_TRACEBACK_INSTRUCTION, &instruction, sizeof instruction);
    shown.function = known->function;
    shown.file = known->file;
    shown.address = sspy_code_start(layout, code) + (uint64_t)(int64_t)instruction;
    ssi_code_place(r->codes, known, instruction, &shown);
    (void)ssi_frames_add(&r->scripts->frames, &shown);
}

/* A traceback begins with its outermost frame. */
static void add_traceback(const reader *r, uint64_t entry)
{
    static uint64_t entries[MAX_TRACEBACK];
    char name[SSI_PYTHON_TYPE_ROOM];
    uint64_t type;
    size_t count = 0;

    (void)ssi_python_kind_of(entry, name);
    if (strcmp(name, "traceback") != 0)
        return; /* 3.11 has None for none */
    type = ssi_word(entry + SSPY_OBJECT_TYPE);
    for (; entry && count < MAX_TRACEBACK && ssi_word(entry + SSPY_OBJECT_TYPE) == type;
         entry = ssi_word(entry + SSPY_TRACEBACK_NEXT))
        entries[count++] = entry;
    if (entry)
        (void)ssi_frames_add_gap(&r->scripts->frames, "the rest of this traceback is too long");
    while (count)
        add_frame(r, entries[--count]);
}

/* As str() has the argument at ADDRESS. */
static void write_argument(const reader *r, uint64_t address, ssi_written *to)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    ssi_python_characters text;

    if (ssi_python_kind_of(address, type) == SSI_PYTHON_STR &&
        ssi_python_characters_of(r->codes->layout, address, &text))
        ssi_python_write_characters(&text, to);
    else
        ssi_python_value(r->codes->layout, address, to);
}

/* What decides the message: the arguments' number, the first two, and the text of the only one, or
   of all. */
static const char *arguments_of(const reader *r, uint64_t exception)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};
    uint64_t all = ssi_word(exception + SSPY_EXCEPTION_ARGS), key, value, first = 0;
    char type[SSI_PYTHON_TYPE_ROOM];
    ssi_python_items items;

    if (ssi_python_kind_of(all, type) != SSI_PYTHON_TUPLE ||
        !ssi_python_items_begin(&items, r->codes->layout, SSI_PYTHON_TUPLE, all))
        return NULL;
    ssi_write_format(&written, "{\"count\":%" PRIu64 ",\"each\":[", items.count);
    while (items.at < 2 && ssi_python_items_next(&items, &key, &value)) {
        ssi_write(&written, first ? "," : "");
        write_argument(r, value, &written);
        first = first ? first : value;
    }
    ssi_write(&written, "],\"value\":");
    ssi_python_value(r->codes->layout, items.count == 1 ? first : all, &written);
    ssi_write(&written, "}");
    return ssi_scripts_keep_locals(r->scripts, &written);
}

static void add(const reader *r, uint64_t address, const char *state, const char *relation)
{
    char name[SSI_PYTHON_TYPE_ROOM];
    ssi_exception e = {.thread = r->thread,
                       .state = state,
                       .relation = relation,
                       .language = "python",
                       .first = r->scripts->frames.count};

    (void)ssi_python_kind_of(address, name);
    e.type = ssi_text(name, strlen(name));
    e.arguments = arguments_of(r, address);
    add_traceback(r, ssi_word(address + SSPY_EXCEPTION_TRACEBACK));
    e.count = r->scripts->frames.count - e.first;
    (void)ssi_append(&r->scripts->exceptions, &r->scripts->exception_count,
                     &r->scripts->exception_room, &e, sizeof e);
}

/* ---- What it was made from --------------------------------------------------------------------*/

/* What is behind the exception at ADDRESS, as Python shows it; 0 if there is nothing. */
static uint64_t behind(uint64_t address, const char **relation)
{
    uint64_t cause = ssi_word(address + SSPY_EXCEPTION_CAUSE);
    uint8_t suppresses = 0;

    *relation = cause ? "cause" : "context";
    (void)ssi_read(address + SSPY_EXCEPTION_SUPPRESSES, &suppresses, 1);
    return cause || suppresses ? cause : ssi_word(address + SSPY_EXCEPTION_CONTEXT);
}

static bool has(const uint64_t *list, size_t count, uint64_t address)
{
    while (count--)
        if (list[count] == address)
            return true;
    return false;
}

static void add_chain(const reader *r, uint64_t address, const char *state)
{
    uint64_t shown[MAX_CHAIN];
    const char *relation = NULL;

    for (size_t count = 0;
         count < MAX_CHAIN && is_exception(address) && !has(shown, count, address);) {
        shown[count++] = address;
        add(r, address, state, relation);
        state = NULL;
        address = behind(address, &relation);
    }
}

void ssi_python_exceptions(ssi_scripts *scripts, ssi_codes *codes, uint64_t thread, int id)
{
    reader r = {scripts, codes, id};
    uint64_t shown[MAX_SHOWN], item;
    size_t count = 0;

    if (!codes->layout->thread_handled)
        return;
    add_chain(&r, ssi_word(thread + codes->layout->thread_raised), "raised");
    item = ssi_word(thread + codes->layout->thread_handled);
    for (int steps = 0; item && steps < MAX_HANDLED && count < MAX_SHOWN; steps++) {
        uint64_t value = ssi_word(item + SSPY_HANDLED_VALUE);

        if (is_exception(value) && !has(shown, count, value)) {
            shown[count++] = value;
            add_chain(&r, value, "handled");
        }
        item = ssi_word(item + SSPY_HANDLED_PREVIOUS);
    }
}
