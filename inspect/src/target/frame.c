#include "target/frame.h"

#include "base/base.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_locals = 64 << 20; /* bytes */

bool ssi_frames_add(ssi_frames *frames, const ssi_frame *frame)
{
    return frames->count < SSI_MAX_FRAMES &&
           ssi_append(&frames->items, &frames->count, &frames->room, frame, sizeof *frame);
}

bool ssi_frames_add_gap(ssi_frames *frames, const char *reason)
{
    return ssi_frames_add(frames,
                          &(ssi_frame){.known = {.kind = STACKSPLICE_FRAME_GAP,
                                                 .language = "native",
                                                 .reason = reason ? reason : "out of memory"}});
}

/* What only debuggers ask for. */
static void write_for_debugger(ssi_written *to, const ssi_frame *frame)
{
    ssi_write_number(to, "stack_address", frame->stack_address);
    ssi_write_member(to, "text", frame->text);
    if (frame->glue)
        ssi_write(to, ",\"glue\":true");
}

void ssi_write_frame(ssi_written *to, const ssi_frame *frame)
{
    static const char *const kinds[] = {[STACKSPLICE_FRAME_NATIVE] = "native",
                                        [STACKSPLICE_FRAME_SCRIPT] = "script",
                                        [STACKSPLICE_FRAME_GAP] = "gap"};
    static const char *const trusts[] = {[0] = "exact",
                                         [STACKSPLICE_TRUST_EXACT] = "exact",
                                         [STACKSPLICE_TRUST_INFERRED] = "inferred",
                                         [STACKSPLICE_TRUST_TRACEBACK] = "traceback"};
    const stacksplice_frame *known = &frame->known;

    ssi_write_format(to, "{\"kind\":\"%s\",\"trust\":\"%s\"", kinds[known->kind],
                     trusts[known->trust]);
    ssi_write_member(to, "language", known->language ? known->language : "native");
    ssi_write_member(to, "function", known->function);
    ssi_write_member(to, "file", known->file);
    ssi_write_number(to, "function_offset", known->function_offset);
    ssi_write_number(to, "line", known->line);
    ssi_write_number(to, "end_line", known->end_line);
    ssi_write_number(to, "column", known->column);
    ssi_write_number(to, "end_column", known->end_column);
    ssi_write_member(to, "module", known->module);
    ssi_write_number(to, "module_offset", known->module_offset);
    ssi_write_member(to, "build_id", known->build_id);
    ssi_write_member(to, "interpreter", known->interpreter);
    ssi_write_member(to, "calls", known->calls);
    ssi_write_member(to, "reason", known->reason);
    if (known->asynchronous)
        ssi_write(to, ",\"asynchronous\":true");
    if (frame->locals) {
        ssi_write(to, ",\"locals\":");
        ssi_write(to, frame->locals);
    }
    if (known->kind == STACKSPLICE_FRAME_NATIVE)
        ssi_write_format(to, ",\"inlined\":%s", known->inlined ? "true" : "false");
    if (frame->text)
        write_for_debugger(to, frame);
    ssi_write_format(to, ",\"address\":\"0x%" PRIx64 "\"}", known->address);
}

void ssi_write_frames(ssi_written *to, const ssi_frame *frames, size_t count)
{
    ssi_write(to, "[");
    for (size_t i = 0; i < count; i++) {
        ssi_write(to, i ? ",\n" : "");
        ssi_write_frame(to, &frames[i]);
    }
    ssi_write(to, "]");
}

bool ssi_scripts_add_run(ssi_scripts *scripts, const ssi_run *run)
{
    return scripts->run_count < SSI_MAX_RUNS &&
           ssi_append(&scripts->runs, &scripts->run_count, &scripts->run_room, run, sizeof *run);
}

void ssi_scripts_note(ssi_scripts *scripts, const char *note)
{
    const size_t room = sizeof scripts->notes / sizeof *scripts->notes;

    if (scripts->note_count + 1 >= room)
        note = "there are more such notes than are shown";
    for (size_t i = 0; note && i < scripts->note_count; i++)
        if (!strcmp(scripts->notes[i], note))
            return;
    if (note && scripts->note_count < room)
        scripts->notes[scripts->note_count++] = note;
}

const char *ssi_scripts_keep_locals(ssi_scripts *scripts, ssi_written *written)
{
    bool fits = !written->failed && scripts->locals_bytes + written->length <= most_locals;
    const char *kept = fits ? ssi_text(written->bytes, written->length) : NULL;

    if (kept) {
        scripts->locals_bytes += written->length;
    } else if (scripts->locals_bytes <= most_locals) {
        scripts->locals_bytes = most_locals + 1;
        ssi_scripts_note(scripts, "not all local variables are shown: they are too large");
    }
    free(written->bytes);
    return kept;
}

void ssi_write_remark(ssi_written *to, const char *remark)
{
    ssi_write_format(to, "\"" SS_VALUE_REMARK "\":\"%s\"", remark);
}

const char *ssi_scripts_locals_left_out(ssi_scripts *scripts)
{
    ssi_written written = {.shows_secrets = scripts->shows_secrets};

    ssi_write(&written, "{");
    ssi_write_remark(&written, SS_VALUE_OUTWARD);
    ssi_write(&written, "}");
    return ssi_scripts_keep_locals(scripts, &written);
}

void ssi_scripts_free(ssi_scripts *scripts)
{
    free(scripts->frames.items);
    free(scripts->runs);
    free(scripts->exceptions);
    free(scripts->interpreters);
    free(scripts->attached);
    free(scripts->tasks);
    free(scripts->awaiting);
}
