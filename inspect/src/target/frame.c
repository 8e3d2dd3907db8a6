#include "target/frame.h"

#include "base/base.h"

#include <stdlib.h>

static const size_t most_locals = 64 << 20; /* bytes */

bool ssi_frames_add(ssi_frames *frames, const ssi_frame *frame)
{
    return frames->count < SSI_MAX_FRAMES &&
           ssi_append(&frames->items, &frames->count, &frames->room, frame, sizeof *frame);
}

bool ssi_frames_add_gap(ssi_frames *frames, const char *reason)
{
    return ssi_frames_add(frames, &(ssi_frame){.kind = SSI_GAP,
                                               .language = "native",
                                               .reason = reason ? reason : "out of memory"});
}

bool ssi_scripts_add_run(ssi_scripts *scripts, const ssi_run *run)
{
    return scripts->run_count < SSI_MAX_RUNS &&
           ssi_append(&scripts->runs, &scripts->run_count, &scripts->run_room, run, sizeof *run);
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
