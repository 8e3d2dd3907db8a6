/* An event for Sentry: the error, what it was made from, and the members of groups, as one list. */
#include "report/visit.h"
#include "report/report.h"
#include "splice/unloaded.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

typedef struct ss_image {
    uintptr_t start;
    const stacksplice_frame *saved; /* borrowed; NULL: a binary of this process */
} ss_image;

/* The binaries of the frames that were emitted. */
typedef struct ss_images {
    ss_image all[32];
    uint32_t count;
} ss_images;

enum { LINE_MAX = 512 /* of a text that is kept as far as it fits */ };

/* ---- Frames ----------------------------------------------------------------------------------*/

/* What is known of one element of the stack. */
typedef struct element {
    const ss_report *r;
    ss_emit *e;
    ss_images *images;
    bool of_runner; /* called by the C library or a test runner, or one of their functions */
} element;

static bool is_in_app(const element *of, const stacksplice_frame *f, bool glue)
{
    return f->kind != STACKSPLICE_FRAME_GAP && !of->of_runner && !glue &&
           ss_report_shows(of->r, f, glue) && !stacksplice_frame_installed(f);
}

static void emit_place(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;
    char line[SS_SOURCE_LINE_MAX];
    uint32_t column;
    ss_text source;

    if (!f->file)
        return;
    ss_emit_text(of->e, "filename",
                 f->kind == STACKSPLICE_FRAME_NATIVE ? ss_base_name(f->file) : f->file);
    if (*f->file == '/')
        ss_emit_text(of->e, "abs_path", f->file);
    if (f->line)
        ss_emit_integer(of->e, "lineno", f->line);
    if (f->column)
        ss_emit_integer(of->e, "colno", f->column);
    source = ss_report_source(of->r, shown, line, &column);
    if (source.length)
        ss_visit_text(of->e, "context_line", source);
}

static void add_image(ss_images *images, uintptr_t start, const stacksplice_frame *saved)
{
    for (uint32_t i = 0; i < images->count; i++) {
        if (images->all[i].start == start)
            return;
    }
    if (images->count < SS_COUNT_OF(images->all))
        images->all[images->count++] = (ss_image){start, saved};
}

static void emit_address(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;

    if (!f->address || ss_unloaded_is(f->address)) { /* no address that an image of the event has */
        if (f->module)
            ss_emit_text(of->e, "package", f->module);
        return;
    }
    ss_emit_hex(of->e, "instruction_addr", f->address, 1);
    if (f->function && f->function_offset)
        ss_emit_hex(of->e, "symbol_addr", f->address - (uintptr_t)f->function_offset, 1);
    if (!f->module)
        return;
    ss_emit_text(of->e, "package", f->module);
    ss_emit_hex(of->e, "image_addr", f->address - (uintptr_t)f->module_offset, 1);
    add_image(of->images, f->address - (uintptr_t)f->module_offset, shown->saved ? f : NULL);
}

/* A gap is a frame whose function is what text reports say, and which is never the program's. */
static void emit_gap(const element *of, const stacksplice_frame *f)
{
    char line[LINE_MAX];
    ss_kept_text kept = {line, sizeof line, 0};

    (void)stacksplice_format_frame(f, ss_writer_keep, &kept);
    ss_emit_utf8(of->e, "function", line, kept.used);
    ss_emit_text(of->e, "platform", "other");
    if (f->asynchronous)
        ss_emit_boolean(of->e, "stack_start", true);
}

static void emit_frame(const element *of, const ss_shown_frame *shown)
{
    const stacksplice_frame *f = shown->frame;

    ss_emit_begin(of->e, NULL, STACKSPLICE_OBJECT);
    if (f->kind == STACKSPLICE_FRAME_GAP) {
        emit_gap(of, f);
    } else {
        if (f->function)
            ss_emit_text(of->e, "function", f->function);
        ss_emit_text(of->e, "platform", f->language);
        emit_place(of, shown);
        ss_emit_locals(of->e, "vars", shown->locals);
        if (f->kind == STACKSPLICE_FRAME_NATIVE)
            emit_address(of, shown);
    }
    ss_emit_boolean(of->e, "in_app", is_in_app(of, f, shown->glue));
    ss_emit_end(of->e, STACKSPLICE_OBJECT);
}

/* Sentry wants callers first, and an element gives its inlined frames the other way round. */
static SS_NOINLINE uint32_t emit_element(const element *of, const ss_shown_stack *stack,
                                         uint32_t at)
{
    ss_element e;

    ss_element_begin(&e, of->r, stack, at, false);
    for (uint32_t i = e.count; i-- && !of->e->stopped;) {
        const ss_shown_frame shown = ss_element_at(&e, i);

        emit_frame(of, &shown);
    }
    ss_element_end(&e);
    return e.begin;
}

/*
 * Emit "stacktrace", unless the stack is empty; add the binaries of its frames to IMAGES.  Of a stack
 * that a signal INTERRUPTED the innermost address is that of an instruction, of any other it is a
 * return address, too.
 */
static void emit_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, bool interrupted,
                       ss_images *images)
{
    ss_folds folds = ss_report_folds(r, stack);
    element of = {.r = r, .e = e, .images = images};

    if (!stack.count)
        return;
    ss_report_dates(r, stack);
    ss_emit_begin(e, "stacktrace", STACKSPLICE_OBJECT);
    ss_emit_text(e, "instruction_addr_adjustment", interrupted ? "all_but_first" : "all");
    ss_emit_begin(e, "frames", STACKSPLICE_ARRAY);
    for (uint32_t i = stack.count; i && !e->stopped;) {
        of.of_runner = i > folds.start_up || ss_fold_of(&folds, i - 1);
        i = emit_element(&of, &stack, i - 1);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* ---- Binaries --------------------------------------------------------------------------------*/

/*
 * The first 16 bytes of BUILD_ID, in hexadecimal, as a GUID, whose first three numbers are of the
 * other byte order.
 */
static void debug_id(const char *build_id, char out[37])
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t bytes = strlen(build_id) / 2;

    for (unsigned i = 0; i < 16; i++) {
        bool known = order[i] < bytes;

        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = known ? build_id[2 * order[i]] : '0';
        *out++ = known ? build_id[2 * order[i] + 1] : '0';
    }
    *out = 0;
}

static void emit_image(ss_emit *e, const stacksplice_document_module *module)
{
    char id[37];

    if (!module->build_id || !*module->build_id)
        return;
    debug_id(module->build_id, id);
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(e, "type", "elf");
    ss_emit_text(e, "debug_id", id);
    ss_emit_text(e, "code_id", module->build_id);
    ss_emit_text(e, "code_file", module->path);
    ss_emit_hex(e, "image_addr", module->start, 1);
    if (module->end > module->start)
        ss_emit_integer(e, "image_size", (int64_t)(module->end - module->start));
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* The binary of frames; the report of an error does not say how large it was. */
static void emit_image_of_frames(ss_emit *e, const ss_image *image)
{
    stacksplice_document_module module = {.start = image->start};
    ss_binary binary;

    if (image->saved) {
        module.path = image->saved->module;
        module.build_id = image->saved->build_id;
    } else if (ss_binary_find(image->start, &binary)) {
        module.path = binary.path;
        module.build_id = binary.build_id;
        module.end = binary.end;
    }
    emit_image(e, &module);
}

/* Emit "debug_meta": those of the binaries that have a build-id.  FILE may be NULL. */
static SS_NOINLINE void emit_images(ss_emit *e, const ss_images *images,
                                    const stacksplice_document_file *file)
{
    ss_emit_begin(e, "debug_meta", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "images", STACKSPLICE_ARRAY);
    for (uint32_t i = 0; file && i < file->module_count && !e->stopped; i++)
        emit_image(e, &file->modules[i]);
    for (uint32_t i = 0; !(file && file->module_count) && i < images->count && !e->stopped; i++)
        emit_image_of_frames(e, &images->all[i]);
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* ---- What belongs to the event ----------------------------------------------------------------*/

enum { MOST_ERRORS = 64 };

/* Small: reports work on stacks of 16 KB. */
typedef struct listed {
    ss_subject error;     /* owned */
    const void *identity; /* as in ss_error_view */
    uint32_t member;      /* of its parent, a group; NOT_A_MEMBER: what the parent was made from */
    uint16_t parent;      /* in the list */
    uint8_t relation;     /* to the parent, if it is no member: of the names below */
} listed;

enum { CAUSE, CONTEXT, CURRENT };
static const char *const relations[] = {"__cause__", "__context__", "current_error"};

enum { NOT_A_MEMBER = UINT32_MAX };

typedef struct event {
    const ss_report *r;
    ss_emit *e;
    listed errors[MOST_ERRORS]; /* the error itself first */
    uint16_t count;
    uint32_t left_out;
    ss_images *images;
    const stacksplice_document_file *file; /* of the error, or NULL */
} event;

/* ---- The list --------------------------------------------------------------------------------*/

/* Add the error of FACTS, which is AS; each is in the list once. */
static void add(event *v, const ss_facts *facts, listed as)
{
    as.error = (ss_subject){facts->error, facts->document};
    as.identity = facts->view.identity;
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->errors[i].identity == as.identity)
            return;
    }
    if (v->count == MOST_ERRORS) {
        v->left_out++;
        return;
    }
    if (facts->error)
        facts->error->lpVtbl->AddRef(facts->error);
    v->errors[v->count++] = as;
}

static void add_members(event *v, uint16_t of, const ss_facts *facts)
{
    uint32_t members, left_out, i = 0;

    if (!ss_facts_group(facts, &members, &left_out))
        return;
    for (; i < members && v->count < MOST_ERRORS; i++) {
        ss_facts member;

        if (ss_facts_get_member(facts, i, &member))
            add(v, &member, (listed){.member = i, .parent = of});
        else
            left_out++;
        ss_facts_release(&member);
    }
    v->left_out += left_out + members - i;
}

/* Add what belongs to the error at index OF. */
static SS_NOINLINE void add_what_belongs(event *v, uint16_t of)
{
    ss_facts facts, cause;

    if (!ss_facts_of(v->errors[of].error, &facts))
        return;
    if (ss_facts_of(ss_facts_previous(&facts), &cause))
        add(v, &cause,
            (listed){.member = NOT_A_MEMBER,
                     .parent = of,
                     .relation =
                         facts.view.relation == STACKSPLICE_RELATION_CONTEXT ? CONTEXT : CAUSE});
    ss_facts_release(&cause);
    v->left_out += facts.view.causes_left_out;
    add_members(v, of, &facts);
    ss_facts_release(&facts);
}

/* ---- Mechanisms ------------------------------------------------------------------------------*/

/* "LANGUAGE at price (rules:3)": as text reports show a node. */
static bool emit_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    const event *v = data;
    char line[LINE_MAX];
    ss_kept_text kept = {line, sizeof line, 0};
    ss_writer w;
    ss_report r = *v->r;

    (void)thread_id;
    r.w = &w;
    ss_writer_init(&w, ss_writer_keep, &kept);
    ss_writer_utf8(&w, receiver, strlen(receiver), SS_ESCAPE_LINE);
    ss_report_where(&r, " at ", stack);
    (void)ss_writer_finish(&w);
    ss_emit_utf8(v->e, NULL, line, kept.used);
    return !v->e->stopped;
}

static void emit_data(event *v, const ss_facts *facts, bool is_root)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    ss_emit_begin(v->e, "data", STACKSPLICE_OBJECT);
    ss_emit_hex(v->e, "hresult", (uint32_t)facts->view.hresult, 8);
    if (symbol)
        ss_emit_text(v->e, "symbol", symbol);
    ss_emit_text(v->e, "language", facts->language);
    ss_visit_notes(v->e, facts);
    ss_emit_begin(v->e, "propagation", STACKSPLICE_ARRAY);
    ss_facts_each_node(facts, emit_node, v);
    ss_emit_end(v->e, STACKSPLICE_ARRAY);
    if (ss_facts_stack(facts).left_out)
        ss_emit_integer(v->e, "frames_left_out", ss_facts_stack(facts).left_out);
    if (is_root && v->left_out)
        ss_emit_integer(v->e, "errors_left_out", v->left_out);
    ss_emit_end(v->e, STACKSPLICE_OBJECT);
}

static bool crashed(const stacksplice_document_file *file)
{
    return file && file->signal;
}

static void emit_signal(ss_emit *e, const char *name, const stacksplice_document_file *file)
{
    ss_emit_text(e, "type", "signalhandler");
    ss_emit_boolean(e, "handled", false);
    ss_emit_boolean(e, "synthetic", true); /* the signal's name is not the type of an exception */
    ss_emit_begin(e, "meta", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "signal", STACKSPLICE_OBJECT);
    ss_emit_integer(e, "number", file->signal);
    ss_emit_integer(e, "code", file->signal_code);
    ss_emit_text(e, "name", name);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

static void emit_mechanism(event *v, uint32_t index, const ss_facts *facts)
{
    const listed *l = &v->errors[index];
    uint32_t members, left_out;
    char place[32];

    ss_emit_begin(v->e, "mechanism", STACKSPLICE_OBJECT);
    if (!index && crashed(v->file))
        emit_signal(v->e, facts->type, v->file);
    else
        ss_emit_text(v->e, "type", index ? "chained" : "generic");
    ss_emit_integer(v->e, "exception_id", index);
    if (index) {
        ss_emit_integer(v->e, "parent_id", l->parent);
        (void)snprintf(place, sizeof place, "exceptions[%" PRIu32 "]", l->member);
        /* The name of the attribute of its parent in which the error was. */
        ss_emit_text(v->e, "source", l->member == NOT_A_MEMBER ? relations[l->relation] : place);
    }
    if (ss_facts_group(facts, &members, &left_out))
        ss_emit_boolean(v->e, "is_exception_group", true);
    emit_data(v, facts, !index);
    ss_emit_end(v->e, STACKSPLICE_OBJECT);
}

/* ---- The event -------------------------------------------------------------------------------*/

/* Sentry drops an exception that has neither type nor value. */
static void emit_type(ss_emit *e, const ss_facts *facts, size_t message_length)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (facts->type)
        ss_emit_text(e, "type", facts->type);
    else if (facts->view.exception && message_length)
        return; /* a value that a script threw */
    else if (symbol)
        ss_emit_text(e, "type", symbol);
    else
        ss_emit_hex(e, "type", (uint32_t)facts->view.hresult, 8);
}

static void emit_exception(event *v, uint32_t index)
{
    ss_facts facts;
    ss_locals locals;
    ss_text message;

    if (!ss_facts_of(v->errors[index].error, &facts))
        return;
    message = ss_facts_message(&facts);
    ss_emit_begin(v->e, NULL, STACKSPLICE_OBJECT);
    emit_type(v->e, &facts, message.length);
    ss_visit_text(v->e, "value", message);
    ss_emit_integer(v->e, "thread_id", (int64_t)facts.view.thread_id);
    emit_mechanism(v, index, &facts);
    emit_stack(v->r, v->e, ss_report_stack_of(v->r, &facts, &locals), !index && crashed(v->file),
               v->images);
    ss_locals_end(&locals);
    ss_emit_end(v->e, STACKSPLICE_OBJECT);
    ss_facts_release(&facts);
}

/* A random UUID of version 4 without dashes. */
static void emit_id(ss_emit *e)
{
    uint64_t bits[2];
    char id[33];

    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return; /* Sentry makes one */
    bits[0] = (bits[0] & ~UINT64_C(0xf000)) | 0x4000;
    bits[1] = bits[1] >> 2 | UINT64_C(1) << 63;
    (void)snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
    ss_emit_text(e, "event_id", id);
}

/* A saved report has its own: the elements of its stack, of which it was made, are gone. */
static void emit_fingerprint(const ss_report *r, ss_emit *e, const ss_facts *facts)
{
    const stacksplice_document *document = facts->document;
    char fingerprint[33];

    if (document && !document->fingerprint)
        return; /* Sentry groups by the stack */
    if (!document)
        ss_report_fingerprint(r, facts, false, fingerprint);
    ss_emit_begin(e, "fingerprint", STACKSPLICE_ARRAY);
    ss_emit_text(e, NULL, document ? document->fingerprint : fingerprint);
    ss_emit_end(e, STACKSPLICE_ARRAY);
}

/* The threads of a process that failed: the stack of the first is that of the error. */
static void emit_threads(const ss_report *r, ss_emit *e, const ss_facts *facts, ss_images *images)
{
    const stacksplice_document_file *file = facts->document->file;

    ss_emit_begin(e, "threads", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "values", STACKSPLICE_ARRAY);
    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_integer(e, "id", (int64_t)facts->view.thread_id);
    ss_emit_boolean(e, "crashed", crashed(file));
    ss_emit_boolean(e, "current", true);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    for (uint32_t i = 0; i < file->thread_count && !e->stopped; i++) {
        const stacksplice_document_thread *thread = &file->threads[i];

        ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
        ss_emit_integer(e, "id", (int64_t)thread->thread_id);
        ss_emit_text(e, "name", thread->name);
        emit_stack(r, e, ss_document_stack(&thread->stack), true, images);
        ss_emit_end(e, STACKSPLICE_OBJECT);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

static void emit_if_known(ss_emit *e, const char *key, const char *text)
{
    if (text && *text)
        ss_emit_text(e, key, text);
}

/*
 * Where the process of FILE ran.  An SDK fills in what an event lacks with what it knows of its own
 * process, which may be another on another machine: so each member is there.
 */
static void emit_machine(ss_emit *e, const stacksplice_document_file *file)
{
    static const char unknown[] = "unknown";

    ss_emit_text(e, "server_name", file->host && *file->host ? file->host : unknown);
    ss_emit_begin(e, "contexts", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "os", STACKSPLICE_OBJECT);
    ss_emit_text(e, "name", file->platform ? file->platform : unknown);
    emit_if_known(e, "kernel_version", file->platform_release);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    ss_emit_begin(e, "device", STACKSPLICE_OBJECT);
    ss_emit_text(e, "arch", file->arch ? file->arch : unknown);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    /* The program: it may have several languages. */
    ss_emit_begin(e, "runtime", STACKSPLICE_OBJECT);
    ss_emit_text(e, "name", file->process ? ss_base_name(file->process) : unknown);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    ss_emit_begin(e, "process", STACKSPLICE_OBJECT);
    emit_if_known(e, "executable", file->process);
    if (file->pid)
        ss_emit_integer(e, "pid", file->pid);
    ss_emit_text(e, "arguments", "not in the file: they may hold secrets");
    ss_emit_end(e, STACKSPLICE_OBJECT);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

/* Noinline: facts are large for a small stack. */
static SS_NOINLINE void add_current(event *v)
{
    ss_facts current;

    if (ss_facts_of((ss_subject){NULL, v->file->current_error}, &current))
        add(v, &current, (listed){.member = NOT_A_MEMBER, .relation = CURRENT});
}

/* Noinline: the list is off the stack again when the binaries are emitted. */
static SS_NOINLINE void emit_exceptions(const ss_report *r, ss_emit *e, const ss_facts *facts,
                                        const stacksplice_document_file *file, ss_images *images)
{
    event v = {.r = r, .e = e, .images = images, .file = file};

    add(&v, facts, (listed){.member = NOT_A_MEMBER});
    if (v.file && v.file->current_error)
        add_current(&v);
    for (uint16_t i = 0; i < v.count; i++)
        add_what_belongs(&v, i);
    ss_emit_begin(e, "exception", STACKSPLICE_OBJECT);
    ss_emit_begin(e, "values", STACKSPLICE_ARRAY);
    for (uint32_t i = v.count; i--;) { /* the oldest first */
        if (!e->stopped)
            emit_exception(&v, i);
        if (v.errors[i].error.error)
            v.errors[i].error.error->lpVtbl->Release(v.errors[i].error.error);
    }
    ss_emit_end(e, STACKSPLICE_ARRAY);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

void ss_sentry_event(const ss_report *r, ss_emit *e, const ss_facts *facts)
{
    const stacksplice_document_file *file = facts->document ? facts->document->file : NULL;
    bool goes_on =
        !file || !strcmp(file->event, "deadline") || !strcmp(file->event, "report_on_signal");
    ss_images images = {.count = 0};

    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    emit_id(e);
    if (file)
        ss_emit_text(e, "timestamp", file->time);
    else
        ss_emit_integer(e, "timestamp", (int64_t)time(NULL));
    ss_emit_text(e, "platform", "native");
    ss_emit_text(e, "level", goes_on ? "error" : "fatal");
    emit_fingerprint(r, e, facts);
    emit_exceptions(r, e, facts, file, &images);
    if (file) {
        emit_machine(e, file);
        emit_threads(r, e, facts, &images);
    }
    emit_images(e, &images, file);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}
