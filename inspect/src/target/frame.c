#include "target/frame.h"

#include "base/base.h"

#include <stdlib.h>

static const size_t most_locals = 64 << 20; /* bytes */

bool ssi_frames_add(ssi_frames *frames, const ssi_frame *frame)
{
    if (frames->count == SSI_MAX_FRAMES ||
        !ssi_grow(&frames->items, frames->count, &frames->room, sizeof *frame))
        return false;
    frames->items[frames->count++] = *frame;
    return true;
}

bool ssi_frames_add_gap(ssi_frames *frames, const char *reason)
{
    return ssi_frames_add(frames, &(ssi_frame){.kind = SSI_GAP,
                                               .language = "native",
                                               .reason = reason ? reason : "out of memory"});
}

bool ssi_scripts_add_run(ssi_scripts *scripts, const ssi_run *run)
{
    if (scripts->run_count == SSI_MAX_RUNS ||
        !ssi_grow(&scripts->runs, scripts->run_count, &scripts->run_room, sizeof *run))
        return false;
    scripts->runs[scripts->run_count++] = *run;
    return true;
}

bool ssi_scripts_add_exception(ssi_scripts *scripts, const ssi_exception *exception)
{
    if (!ssi_grow(&scripts->exceptions, scripts->exception_count, &scripts->exception_room,
                  sizeof *exception))
        return false;
    scripts->exceptions[scripts->exception_count++] = *exception;
    return true;
}

bool ssi_scripts_add_interpreter(ssi_scripts *scripts, const ssi_script_interpreter *interpreter)
{
    if (!ssi_grow(&scripts->interpreters, scripts->interpreter_count, &scripts->interpreter_room,
                  sizeof *interpreter))
        return false;
    scripts->interpreters[scripts->interpreter_count++] = *interpreter;
    return true;
}

bool ssi_scripts_add_attached(ssi_scripts *scripts, const ssi_attached *attached)
{
    if (!ssi_grow(&scripts->attached, scripts->attached_count, &scripts->attached_room,
                  sizeof *attached))
        return false;
    scripts->attached[scripts->attached_count++] = *attached;
    return true;
}

void ssi_scripts_note(ssi_scripts *scripts, const char *note)
{
    if (note && scripts->note_count < sizeof scripts->notes / sizeof *scripts->notes)
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

void ssi_scripts_free(ssi_scripts *scripts)
{
    free(scripts->frames.items);
    free(scripts->runs);
    free(scripts->exceptions);
    free(scripts->interpreters);
    free(scripts->attached);
}
