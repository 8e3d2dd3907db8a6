#include "python/private.h"

#include "base/base.h"
#include "python/python.h"
#include "target/frame.h"

#include <string.h>

/* What an interpreter of a target does: who holds its lock, and whether it collects garbage. */

typedef struct ssi_python_activity {
    uint64_t interpreter; /* its address */
    int64_t number;
    uint64_t lock;                /* address of its GIL; 0: not known */
    uint64_t holder;              /* the thread state that has it, or 0 */
    bool collects;                /* garbage */
    uint64_t frame;               /* that began it; 0: not known */
    size_t collectors, collector; /* how many threads can be the one that does, and the last */
} ssi_python_activity;

/* A lock is believed only if it looks like one: 3.11 and 3.12 do not say where it is. */
static void read_lock(uint64_t lock, ssi_python_activity *activity)
{
    uint64_t holder;
    int32_t held;

    if (!ssi_read(lock + SSPY_LOCK_HELD, &held, sizeof held) || held < -1 || held > 1 ||
        !ssi_read_word(lock + SSPY_LOCK_HOLDER, &holder))
        return;
    activity->lock = lock;
    if (held == 1)
        activity->holder = holder;
}

/* Read what the interpreter says, whose address is there already. */
static void activity_read(ssi_python_activity *activity, const sspy_layout *layout,
                          uint64_t runtime)
{
    uint64_t lock = runtime + layout->runtime_lock, at = activity->interpreter;
    int32_t collects = 0;

    if (layout->interpreter_lock)
        (void)ssi_read_word(at + layout->interpreter_lock, &lock);
    read_lock(lock, activity);
    (void)ssi_read(at + layout->interpreter_collecting, &collects, sizeof collects);
    activity->collects = collects == 1;
    if (activity->collects && layout->interpreter_collector)
        (void)ssi_read_word(at + layout->interpreter_collector, &activity->frame);
}

/* After all of its threads: mark the one that collects garbage, if that is certain. */
static void mark_collector(ssi_scripts *scripts, const ssi_python_activity *activity)
{
    if (activity->collectors == 1 && activity->collector < scripts->attached_count)
        scripts->attached[activity->collector].collects = true;
}

/*
 * From the runtime to its interpreters, their threads, and each thread's chain of frames.
 *
 * Every run of the evaluation loop has an object on the C stack, whose address says which native
 * frame it is: a _PyCFrame in 3.11 and 3.12, an entry frame of the chain from 3.13 on.  The process
 * was stopped anywhere, so each word that is read may be half made: all reads are checked, all
 * chains bounded, and code objects are recognised before anything of them is believed.
 */

enum { MAX_THREADS = 1 << 16, MAX_RUNS = 1 << 14, MAX_FRAMES = 1 << 17 };

typedef struct reader {
    sspy_layout layout;
    ssi_codes codes;
    ssi_scripts *scripts;
    const char *interpreter;      /* of the thread that is read; NULL: the main one */
    ssi_python_activity activity; /* of its interpreter */
    bool began_collection;        /* the thread that is read did */
    ssi_python_names *names;
    ssi_run run;
    int locals_left; /* so many frames of the thread may still show theirs */
    int threads;     /* of all interpreters so far */
} reader;

typedef struct seen_frame {
    uint64_t address, code, previous, instruction;
    uint8_t owner, is_entry;
} seen_frame;

/* ---- Frames -----------------------------------------------------------------------------------*/

static bool read_frame(const reader *r, uint64_t address, seen_frame *seen)
{
    const sspy_layout *l = &r->layout;

    *seen = (seen_frame){.address = address};
    if (!ssi_read_word(address + l->frame_code, &seen->code) ||
        !ssi_read_word(address + l->frame_previous, &seen->previous) ||
        !ssi_read_word(address + l->frame_instruction, &seen->instruction) ||
        !ssi_read(address + l->frame_owner, &seen->owner, 1))
        return false;
    if (l->frame_is_entry && !ssi_read(address + l->frame_is_entry, &seen->is_entry, 1))
        return false;
    seen->code &= ~(uint64_t)SSPY_CODE_TAG;
    return true;
}

static const char *locals_of(reader *r, const seen_frame *seen)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};

    if (!r->scripts->with_locals || !r->locals_left)
        return NULL;
    r->locals_left--;
    ssi_python_locals(&r->layout, seen->address, seen->code, &written);
    return ssi_scripts_keep_locals(r->scripts, &written);
}

/* Add FRAME if Python shows it; false without memory. */
static bool show(reader *r, const seen_frame *seen)
{
    const ssi_code *code = ssi_code_at(&r->codes, seen->code);
    ssi_frame frame = {.kind = SSI_SCRIPT,
                       .language = "python",
                       .address = seen->instruction,
                       .interpreter = r->interpreter};

    if (!code)
        return ssi_frames_add_gap(&r->scripts->frames, "a Python frame cannot be read");
    if (!sspy_has_begun(&r->layout, seen->owner, seen->code, seen->instruction,
                        code->first_traceable))
        return true;
    frame.function = code->function;
    frame.file = code->file;
    ssi_code_place(&r->codes, code,
                   (int64_t)(seen->instruction - sspy_code_start(&r->layout, seen->code)), &frame);
    frame.locals = locals_of(r, seen);
    return ssi_frames_add(&r->scripts->frames, &frame);
}

/* ---- Runs -------------------------------------------------------------------------------------*/

static void begin_run(reader *r)
{
    r->run.first = r->scripts->frames.count;
}

static void end_run(reader *r, uint64_t marker)
{
    r->run.marker = marker;
    r->run.count = r->scripts->frames.count - r->run.first;
    if (r->run.count)
        (void)ssi_scripts_add_run(r->scripts, &r->run);
}

/* 3.11, 3.12: a run belongs to each _PyCFrame. */
static void read_cframes(reader *r, uint64_t cframe)
{
    uint64_t last = 0;
    int steps = 0;

    for (int runs = 0; cframe > last && runs < MAX_RUNS; runs++) {
        uint64_t frame = ssi_word(cframe + r->layout.cframe_current);
        seen_frame seen;

        begin_run(r);
        while (frame && steps++ < MAX_FRAMES && read_frame(r, frame, &seen)) {
            if (seen.owner >= SSPY_FRAME_OF_C || !show(r, &seen) || seen.is_entry)
                break;
            frame = seen.previous;
        }
        end_run(r, cframe);
        last = cframe;
        cframe = ssi_word(cframe + r->layout.cframe_previous);
    }
}

/* From 3.13 on: entry frames in the chain end the runs. */
static void read_entry_frames(reader *r, uint64_t frame)
{
    seen_frame seen;

    begin_run(r);
    for (int steps = 0; frame && steps < MAX_FRAMES && read_frame(r, frame, &seen); steps++) {
        r->began_collection |= frame == r->activity.frame;
        if (seen.owner >= SSPY_FRAME_OF_C) {
            end_run(r, frame);
            begin_run(r);
        } else if (!show(r, &seen)) {
            break;
        }
        frame = seen.previous;
    }
    end_run(r, 0);
}

/* ---- Threads ----------------------------------------------------------------------------------*/

static void add_attached(reader *r, uint64_t thread, uint64_t id)
{
    uint64_t ident = ssi_word(thread + r->layout.thread_ident);
    bool is_oldest = !ssi_word(thread + r->layout.thread_next);
    ssi_python_activity *activity = &r->activity;
    ssi_scripts *scripts = r->scripts;
    const char *name = ssi_python_name_of(r->names, activity->interpreter, ident, id, is_oldest);

    if (activity->collects && (r->began_collection || !activity->frame)) {
        activity->collectors++;
        activity->collector = scripts->attached_count;
    }
    (void)ssi_append(&scripts->attached, &scripts->attached_count, &scripts->attached_room,
                     &(ssi_attached){.thread = (int)id,
                                     .interpreter = activity->number,
                                     .name = name,
                                     .lock = activity->lock,
                                     .holds = activity->holder == thread},
                     sizeof(ssi_attached));
}

static void read_thread(reader *r, uint64_t thread)
{
    uint64_t id = ssi_word(thread + r->layout.thread_id);
    uint64_t head = ssi_word(thread + r->layout.thread_head);

    r->run = (ssi_run){.thread = (int)id};
    r->locals_left = SSI_SHOWN_FRAMES;
    r->began_collection = false;
    if (r->layout.cframe)
        read_cframes(r, head);
    else
        read_entry_frames(r, head);
    ssi_python_exceptions(r->scripts, &r->codes, thread, (int)id);
    add_attached(r, thread, id);
}

static void begin_interpreter(reader *r, const ssi_python *python, uint64_t address, int64_t number)
{
    r->interpreter = number ? ssi_text_format("interpreter %lld", (long long)number) : NULL;
    r->activity = (ssi_python_activity){.interpreter = address, .number = number};
    activity_read(&r->activity, &r->layout, python->runtime);
    (void)ssi_append(&r->scripts->interpreters, &r->scripts->interpreter_count,
                     &r->scripts->interpreter_room,
                     &(ssi_script_interpreter){.version = python->version,
                                               .path = python->path,
                                               .number = number,
                                               .collects = r->activity.collects},
                     sizeof(ssi_script_interpreter));
}

/* False when the threads of INTERPRETER are not where the layout has them. */
static bool read_threads(reader *r, const ssi_python *python, uint64_t interpreter)
{
    uint64_t thread = 0, owner, id = 0;

    if (!ssi_read_word(interpreter + r->layout.interpreter_threads, &thread) ||
        !ssi_read_word(interpreter + r->layout.interpreter_id, &id))
        return false;
    begin_interpreter(r, python, interpreter, (int64_t)id);
    while (thread && r->threads++ < MAX_THREADS && r->scripts->frames.count < SSI_MAX_FRAMES) {
        if (!ssi_read_word(thread + r->layout.thread_interpreter, &owner) || owner != interpreter)
            return false;
        read_thread(r, thread);
        if (!ssi_read_word(thread + r->layout.thread_next, &thread))
            return false;
    }
    mark_collector(r->scripts, &r->activity);
    return true;
}

static const char *read_runtime(reader *r, const ssi_python *python)
{
    uint64_t interpreter = 0;

    if (!ssi_read_word(python->runtime + r->layout.interpreters, &interpreter))
        return "its interpreters cannot be read";
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        if (!read_threads(r, python, interpreter))
            return "its threads cannot be read";
        if (!ssi_read_word(interpreter + r->layout.interpreter_next, &interpreter))
            return "its interpreters cannot be read";
    }
    return NULL;
}

void ssi_python_read(ssi_python *python, ssi_scripts *scripts)
{
    reader r = {.layout = python->layout, .scripts = scripts, .names = &python->names};
    const char *why = python->why;

    if (!why) {
        r.codes.layout = &r.layout;
        why = read_runtime(&r, python);
        ssi_codes_free(&r.codes);
    }
    if (why && python->version)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Python frames of %s: %s (CPython %s)",
                                         python->path, why, python->version));
    else if (why)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Python frames of %s: %s", python->path, why));
}
