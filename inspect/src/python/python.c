#include "python/python.h"

#include "base/base.h"
#include "python/frames.h"
#include "python/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values are recognised as exceptions by the flags of their types before more of them is believed.
 */

enum {
    MAX_HANDLED = 64, /* steps from one handler to the one around it */
    MAX_SHOWN = 8,    /* of them */
    MAX_CHAIN = 16,
    MAX_TRACEBACK = 1 << 12
};

typedef struct exception_reader {
    ssi_python_frames *frames;
    int thread;
} exception_reader;

static bool is_exception(uint64_t address)
{
    uint64_t type = address ? ssi_word(ssi_members(address) + SSPY_OBJECT_TYPE) : 0;

    return type && (ssi_word(ssi_members(type) + SSPY_TYPE_FLAGS) & SSPY_TYPE_IS_EXCEPTION);
}

/* ---- One exception ----------------------------------------------------------------------------*/

/* A traceback begins with its outermost frame. */
static void add_traceback(const exception_reader *r, uint64_t entry)
{
    static uint64_t entries[MAX_TRACEBACK];
    uint64_t type;
    size_t count = 0;

    if (strcmp(ssi_object_type(entry), "traceback") != 0)
        return; /* 3.11 has None for none */
    type = ssi_word(ssi_members(entry) + SSPY_OBJECT_TYPE);
    for (;
         entry && count < MAX_TRACEBACK && ssi_word(ssi_members(entry) + SSPY_OBJECT_TYPE) == type;
         entry = ssi_word(ssi_members(entry) + SSPY_TRACEBACK_NEXT))
        entries[count++] = entry;
    if (entry)
        (void)ssi_frames_add_gap(&r->frames->scripts->frames,
                                 "the rest of this traceback is too long");
    while (count)
        (void)ssi_frame_show_traced(r->frames, entries[--count]);
}

/* As str() has the argument at ADDRESS. */
static void write_argument(const exception_reader *r, uint64_t address, ssi_written *to)
{
    ssi_python_text text;

    if (ssi_object_kind(address) == KIND_STR &&
        ssi_object_read_text(r->frames->layout, address, &text))
        ssi_write_characters(to, text.bytes, text.length);
    else
        ssi_value_write(r->frames->layout, address, to);
}

/* What decides the message: the arguments' number, the first two, and the text of the only one, or
   of all. */
static const char *arguments_of(const exception_reader *r, uint64_t exception)
{
    ssi_written written = {.shows_secrets = r->frames->scripts->shows_secrets};
    uint64_t all = ssi_word(ssi_members(exception) + SSPY_EXCEPTION_ARGS), key, value, first = 0;
    ssi_items items;

    if (!ssi_items_begin(&items, r->frames->layout, KIND_TUPLE, all))
        return NULL;
    ssi_write_format(&written, "{\"count\":%" PRIu64 ",\"each\":[", items.count);
    while (items.at < 2 && ssi_items_next(&items, &key, &value)) {
        ssi_write(&written, first ? "," : "");
        write_argument(r, value, &written);
        first = first ? first : value;
    }
    ssi_write(&written, "],\"value\":");
    ssi_value_write(r->frames->layout, items.count == 1 ? first : all, &written);
    ssi_write(&written, "}");
    return ssi_scripts_keep_locals(r->frames->scripts, &written);
}

static void add_exception(const exception_reader *r, uint64_t address, const char *state,
                          const char *relation)
{
    const char *name = ssi_object_type(address);
    ssi_exception e = {.thread = r->thread,
                       .state = state,
                       .relation = relation,
                       .language = "python",
                       .type = ssi_text(name, strlen(name)),
                       .first = r->frames->scripts->frames.count};

    e.arguments = arguments_of(r, address);
    add_traceback(r, ssi_word(ssi_members(address) + SSPY_EXCEPTION_TRACEBACK));
    e.count = r->frames->scripts->frames.count - e.first;
    (void)ssi_append(&r->frames->scripts->exceptions, &r->frames->scripts->exception_count,
                     &r->frames->scripts->exception_room, &e, sizeof e);
}

/* ---- What it was made from --------------------------------------------------------------------*/

/* What is behind the exception at ADDRESS, as Python shows it; 0 if there is nothing. */
static uint64_t behind(uint64_t address, const char **relation)
{
    uint64_t cause = ssi_word(ssi_members(address) + SSPY_EXCEPTION_CAUSE);
    uint8_t suppresses = 0;

    *relation = cause ? "cause" : "context";
    (void)ssi_read(ssi_members(address) + SSPY_EXCEPTION_SUPPRESSES, &suppresses, 1);
    return cause || suppresses ? cause : ssi_word(ssi_members(address) + SSPY_EXCEPTION_CONTEXT);
}

static bool has(const uint64_t *list, size_t count, uint64_t address)
{
    while (count--)
        if (list[count] == address)
            return true;
    return false;
}

static const char more_exceptions[] =
    "not all exceptions are shown: a thread handles more, or one was made "
    "from more";

static void add_chain(const exception_reader *r, uint64_t address, const char *state)
{
    uint64_t shown[MAX_CHAIN];
    const char *relation = NULL;

    for (size_t count = 0; is_exception(address) && !has(shown, count, address);) {
        if (count == MAX_CHAIN) {
            ssi_scripts_note(r->frames->scripts, more_exceptions);
            return;
        }
        shown[count++] = address;
        add_exception(r, address, state, relation);
        state = NULL;
        address = behind(address, &relation);
    }
}

/* Add those of the thread state at THREAD, whose number is ID, with what they were made from: one on
   its way, and those that are being handled. */
static void add_exceptions(ssi_python_frames *frames, uint64_t thread, int id)
{
    exception_reader r = {frames, id};
    uint64_t shown[MAX_SHOWN], item;
    size_t count = 0;

    if (!frames->layout->thread_handled)
        return;
    add_chain(&r, ssi_word(thread + frames->layout->thread_raised), "raised");
    item = ssi_word(thread + frames->layout->thread_handled);
    for (int steps = 0; item; steps++) {
        uint64_t value = ssi_word(item + SSPY_HANDLED_VALUE);
        bool is_new = is_exception(value) && !has(shown, count, value);

        if (steps == MAX_HANDLED || (is_new && count == MAX_SHOWN)) {
            ssi_scripts_note(frames->scripts, more_exceptions);
            return;
        }
        if (is_new) {
            shown[count++] = value;
            add_chain(&r, value, "handled");
        }
        item = ssi_word(item + SSPY_HANDLED_PREVIOUS);
    }
}

/* ---- Names of threads -------------------------------------------------------------------------*/

/* threading._active is a dict from numbers of threads to objects with their names. */

/* threading._active is a dict from numbers of threads to objects with their names. */

enum { MAX_NAMES = 1 << 14 };

/* Add those of the threads of the interpreter at INTERPRETER. */
static void add_names(ssi_python_names *names, const sspy_layout *layout, uint64_t interpreter)
{
    uint64_t threads = ssi_dict_find(layout, ssi_module_members(layout, interpreter, "threading"),
                                     "_active"),
             key, thread;
    ssi_items items;

    if (!ssi_items_begin(&items, layout, KIND_DICT, threads))
        return;
    while (names->count < MAX_NAMES && ssi_items_next(&items, &key, &thread)) {
        ssi_python_name name = {.interpreter = interpreter};

        if (!ssi_object_number(layout, key, &name.ident))
            continue;
        name.text = ssi_object_name(layout, ssi_object_attribute(layout, thread, "_name"));
        (void)ssi_object_number(layout, ssi_object_attribute(layout, thread, "_native_id"),
                                &name.id);
        if (!ssi_append(&names->items, &names->count, &names->room, &name, sizeof name))
            return;
    }
}

/* The name of the thread IDENT, or NULL.  Its number ID tells it from one that ended meanwhile; the
   OLDEST thread of an interpreter has no such predecessor, and another number after a fork.
   The youngest thread is the last here, and the first in the interpreter's list. */
static const char *name_of(ssi_python_names *names, uint64_t interpreter, uint64_t ident,
                           uint64_t id, bool oldest)
{
    for (size_t steps = 0; steps < names->count; steps++) {
        const ssi_python_name *name;

        names->at = names->at ? names->at - 1 : names->count - 1;
        name = &names->items[names->at];
        if (name->ident == ident && name->interpreter == interpreter)
            return name->id == id || oldest ? name->text : NULL;
    }
    return NULL;
}

/* ---- Copies -----------------------------------------------------------------------------------*/

void ssi_pythons_add(ssi_pythons *pythons, const ssi_binary *binary, const ssi_mapping *mapping,
                     ssi_scripts *scripts)
{
    ssi_python found = {.runtime = ssi_binary_symbol(binary, "_PyRuntime")};
    uint64_t table = ssi_binary_section(binary, ".AsyncioDebug");

    if (table && pythons->task_table_count < SSI_MAX_PYTHONS)
        pythons->task_tables[pythons->task_table_count++] = table;
    if (!found.runtime)
        found.runtime = ssi_binary_section(binary, ".PyRuntime");
    if (!found.runtime)
        return;
    for (size_t i = 0; i < pythons->count; i++)
        if (pythons->items[i].runtime == found.runtime)
            return;
    if (pythons->count == SSI_MAX_PYTHONS) {
        ssi_scripts_note(scripts,
                         "not all Python frames are shown: the process has more than 8 copies of "
                         "Python");
        return;
    }
    found.version_at = ssi_binary_symbol(binary, "Py_Version");
    found.path = ssi_text(mapping->path, strlen(mapping->path));
    pythons->items[pythons->count++] = found;
}

enum { INTERPRETER_SIZE = 6 /* a word of the runtime's table */ };

/* NUMBER of Py_Version as Python writes it, such as "3.15.0rc1". */
static const char *version_text(uint64_t number)
{
    static const char *const kinds[16] = {[0xA] = "a", [0xB] = "b", [0xC] = "rc"};
    const char *kind = kinds[number >> 4 & 15];
    char pre[16] = "";

    if (kind)
        snprintf(pre, sizeof pre, "%s%u", kind, (unsigned)(number & 15));
    return number
               ? ssi_text_format("%u.%u.%u%s", (unsigned)(number >> 24 & 255),
                                 (unsigned)(number >> 16 & 255), (unsigned)(number >> 8 & 255), pre)
               : NULL;
}

/* The runtime says its version itself where it begins with a table of offsets.  *NUMBER is that as
   Py_Version has it, or 0.  NULL, or why FOUND cannot be read. */
static const char *find_layouts(ssi_python *found, const ssi_pythons *all, uint64_t *number)
{
    uint64_t words[SSPY_TABLE_WORDS];
    const char *why;

    if (!ssi_read(found->runtime, words, sizeof words))
        return "its runtime cannot be read";
    if (!memcmp(words, "xdebugpy", 8))
        *number = words[1];
    else if (!ssi_read_word(found->version_at, number))
        return "it does not say which version it is";
    why = sspy_layout_of(*number, words, &found->layout);
    if (!why)
        ssi_task_layout_find(&found->tasks, &found->layout, words[INTERPRETER_SIZE],
                             all->task_tables, all->task_table_count);
    return why;
}

static void learn(ssi_python *found, const ssi_pythons *all)
{
    uint64_t interpreter = 0, number = 0;

    found->why = find_layouts(found, all, &number);
    found->version = version_text(number);
    if (found->why)
        return;
    ssi_object_head = found->layout.object_head;
    (void)ssi_read_word(found->runtime + found->layout.interpreters, &interpreter);
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        uint64_t module = ssi_module_members(&found->layout, interpreter, "asyncio.tasks");

        if (module)
            (void)ssi_map_put(&found->task_modules, interpreter, module);
        add_names(&found->names, &found->layout, interpreter);
        if (!ssi_read_word(interpreter + found->layout.interpreter_next, &interpreter))
            return;
    }
}

void ssi_pythons_learn(ssi_pythons *pythons)
{
    for (size_t i = 0; i < pythons->count; i++)
        learn(&pythons->items[i], pythons);
}

void ssi_pythons_free(ssi_pythons *pythons)
{
    for (size_t i = 0; i < pythons->count; i++) {
        free(pythons->items[i].names.items);
        free(pythons->items[i].task_modules.entries);
    }
}

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
    if (!layout
             ->is_free_threaded) /* where threads wait for it only while a module switches it on */
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
    ssi_python_frames frames;
    ssi_tasks tasks;
    ssi_python_activity activity; /* of the interpreter of the thread that is read */
    bool began_collection;        /* the thread that is read did */
    ssi_python_names *names;
    ssi_run run;
    int threads; /* of all interpreters so far */
    bool is_cut; /* there are more threads, or frames of one, than are read */
} reader;

/* ---- Runs -------------------------------------------------------------------------------------*/

static bool show(reader *r, const ssi_seen_frame *seen)
{
    ssi_tasks_see(&r->tasks, seen, r->run.thread);
    return ssi_frame_show(&r->frames, seen);
}

static void begin_run(reader *r)
{
    r->run.first = r->frames.scripts->frames.count;
}

static void end_run(reader *r, uint64_t marker)
{
    r->run.marker = marker;
    r->run.count = r->frames.scripts->frames.count - r->run.first;
    if (r->run.count)
        (void)ssi_scripts_add_run(r->frames.scripts, &r->run);
}

/* 3.11, 3.12: a run belongs to each _PyCFrame. */
static void read_cframes(reader *r, uint64_t cframe)
{
    uint64_t last = 0;
    int steps = 0;

    for (int runs = 0; cframe > last && runs < MAX_RUNS; runs++) {
        uint64_t frame = ssi_word(cframe + r->frames.layout->cframe_current);
        ssi_seen_frame seen;

        begin_run(r);
        while (frame && steps++ < MAX_FRAMES && ssi_frame_read(r->frames.layout, frame, &seen)) {
            if (seen.owner >= SSPY_FRAME_OF_C || !show(r, &seen) || seen.is_entry)
                break;
            frame = seen.previous;
        }
        end_run(r, cframe);
        last = cframe;
        cframe = ssi_word(cframe + r->frames.layout->cframe_previous);
    }
    r->is_cut |= cframe > last || steps > MAX_FRAMES;
}

/* From 3.13 on: entry frames in the chain end the runs. */
static void read_entry_frames(reader *r, uint64_t frame)
{
    ssi_seen_frame seen;

    begin_run(r);
    for (int steps = 0;
         frame && steps < MAX_FRAMES && ssi_frame_read(r->frames.layout, frame, &seen); steps++) {
        r->began_collection |= frame == r->activity.frame;
        if (seen.owner >= SSPY_FRAME_OF_C) {
            end_run(r, frame);
            begin_run(r);
        } else if (!show(r, &seen)) {
            break;
        }
        frame = seen.previous;
        r->is_cut |= steps + 1 == MAX_FRAMES && frame;
    }
    end_run(r, 0);
}

/* ---- Threads ----------------------------------------------------------------------------------*/

static void add_attached(reader *r, uint64_t thread, uint64_t id)
{
    uint64_t ident = ssi_word(thread + r->frames.layout->thread_ident);
    bool is_oldest = !ssi_word(thread + r->frames.layout->thread_next);
    ssi_python_activity *activity = &r->activity;
    ssi_scripts *scripts = r->frames.scripts;
    const char *name = name_of(r->names, activity->interpreter, ident, id, is_oldest);

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
    uint64_t id = ssi_word(thread + r->frames.layout->thread_id);
    uint64_t head = ssi_word(thread + r->frames.layout->thread_head);

    r->run = (ssi_run){.thread = (int)id};
    r->frames.locals_left = SSI_SHOWN_FRAMES + 1;
    r->began_collection = false;
    if (r->frames.layout->cframe)
        read_cframes(r, head);
    else
        read_entry_frames(r, head);
    add_exceptions(&r->frames, thread, (int)id);
    add_attached(r, thread, id);
}

static void begin_interpreter(reader *r, const ssi_python *python, uint64_t address, int64_t number)
{
    r->frames.interpreter = number ? ssi_text_format("interpreter %lld", (long long)number) : NULL;
    r->activity = (ssi_python_activity){.interpreter = address, .number = number};
    activity_read(&r->activity, r->frames.layout, python->runtime);
    (void)ssi_append(&r->frames.scripts->interpreters, &r->frames.scripts->interpreter_count,
                     &r->frames.scripts->interpreter_room,
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

    if (!ssi_read_word(interpreter + r->frames.layout->interpreter_threads, &thread) ||
        !ssi_read_word(interpreter + r->frames.layout->interpreter_id, &id))
        return false;
    begin_interpreter(r, python, interpreter, (int64_t)id);
    r->tasks.interpreter = (int64_t)id;
    while (thread && r->threads++ < MAX_THREADS &&
           r->frames.scripts->frames.count <
               SSI_MAX_FRAMES) { /* a note says so: see inspection.c */
        if (!ssi_read_word(thread + r->frames.layout->thread_interpreter, &owner) ||
            owner != interpreter)
            return false;
        read_thread(r, thread);
        ssi_tasks_collect(&r->tasks, thread);
        if (!ssi_read_word(thread + r->frames.layout->thread_next, &thread))
            return false;
    }
    r->is_cut |= thread != 0;
    mark_collector(r->frames.scripts, &r->activity);
    ssi_tasks_read(&r->tasks, interpreter);
    return true;
}

static const char *read_runtime(reader *r, const ssi_python *python)
{
    uint64_t interpreter = 0;

    if (!ssi_read_word(python->runtime + r->frames.layout->interpreters, &interpreter))
        return "its interpreters cannot be read";
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        if (!read_threads(r, python, interpreter))
            return "its threads cannot be read";
        if (!ssi_read_word(interpreter + r->frames.layout->interpreter_next, &interpreter))
            return "its interpreters cannot be read";
    }
    if (interpreter || r->is_cut)
        ssi_scripts_note(r->frames.scripts, "not all Python frames are shown: there are too many");
    return NULL;
}

static void read_python(ssi_python *python, ssi_scripts *scripts)
{
    reader r = {.frames = {.layout = &python->layout, .scripts = scripts},
                .tasks = {.layout = &python->tasks,
                          .modules = &python->task_modules,
                          .first = scripts->task_count},
                .names = &python->names};
    const char *why = python->why;

    r.tasks.frames = &r.frames;
    if (!why) {
        ssi_object_head = python->layout.object_head;
        why = read_runtime(&r, python);
        ssi_tasks_free(&r.tasks);
        ssi_python_frames_free(&r.frames);
    }
    if (why && python->version)
        why = ssi_text_format("%s (CPython %s)", why, python->version);
    if (why)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Python frames of %s: %s", python->path, why));
}

void ssi_pythons_read(ssi_pythons *pythons, ssi_scripts *scripts)
{
    for (size_t i = 0; i < pythons->count; i++)
        read_python(&pythons->items[i], scripts);
}
