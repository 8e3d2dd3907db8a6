/*
 * The text of a report, as docs/reports.md describes it.  First what a brief report leaves out, then
 * one frame, one stack, one error, and an error with its causes and members.
 */
#include "report/report.h"
#include "splice/hash.h"
#include "splice/sink.h"
#include "splice/token.h"

#include <stacksplice/read.h>
#include <stacksplice/script.h>
#include <string.h>

#define SS_COLOR_PLACE "\033[35m" /* file, line, function, message */

#define SS_COLOR_TYPE "\033[1;35m"

#define SS_COLOR_MARK "\033[1m" /* of a language that has chosen none */

#define SS_COLOR_NONE ""

/* Begin COLOR, one of these, and end it, where the report is coloured. */
static inline void ss_color_begin(const ss_report *r, const char *color)
{
    if (r->color)
        ss_writer_text(r->w, color);
}

static inline void ss_color_end(const ss_report *r, const char *color)
{
    if (r->color && *color)
        ss_writer_text(r->w, "\033[0m");
}

/* ---- What a brief report leaves out -----------------------------------------------------------*/

/*
 * What a brief report leaves out of a stack: glue, loaders, customary gaps, start-up code, and the
 * programs that run users' code, such as test runners.
 */

static bool is_quiet(const stacksplice_frame *gap)
{
    const stacksplice_glue *known = ss_glue_of(gap->language);

    for (size_t i = 0; known && known->quiet && gap->reason && known->quiet[i]; i++) {
        if (!strcmp(gap->reason, known->quiet[i]))
            return true;
    }
    return false;
}

static bool is_loader(const stacksplice_frame *frame)
{
    const stacksplice_glue *known = frame->file ? ss_glue_of(frame->language) : NULL;

    return known && ss_glue_matches(frame->file, known->loaders);
}

bool ss_report_shows(const ss_report *r, const stacksplice_frame *frame, bool glue,
                     bool *is_counted)
{
    *is_counted = true;
    if (r->all_frames)
        return true;
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        *is_counted = false; /* it is no frame */
        return !is_quiet(frame);
    }
    return frame->kind == STACKSPLICE_FRAME_SCRIPT ? !is_loader(frame) : !glue;
}

/* ---- One element -----------------------------------------------------------------------------*/

void ss_element_begin(ss_element *e, const ss_report *r, const ss_shown_stack *stack,
                      uint32_t begin, uint32_t end, bool brief)
{
    e->r = r;
    e->saved = stack->frames ? stack->frames + begin : NULL;
    e->count = end - begin;
    if (e->saved)
        return;
    ss_frames_begin(&e->found, stack->elements[begin], brief && !r->all_frames, r->failfast);
    e->count = e->found.count;
    e->locals = ss_locals_of(stack->locals, begin);
}

ss_shown_frame ss_element_at(const ss_element *e, uint32_t index)
{
    const stacksplice_document_frame *saved = e->saved ? &e->saved[index] : NULL;
    const ss_frame *f = saved ? NULL : ss_frames_at(&e->found, index);

    if (saved)
        return (ss_shown_frame){&saved->frame, saved->glue != 0, saved, saved->locals, false};
    return (ss_shown_frame){&f->frame, f->frame.address != e->r->crashed_at && ss_glue_is(f), NULL,
                            e->locals, f->replaced};
}

void ss_element_end(ss_element *e)
{
    if (!e->saved)
        ss_frames_end(&e->found);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length, most = strlen(end);

    if (!text)
        return false;
    length = strlen(text);
    return length >= most && !strcmp(text + length - most, end);
}

/* ---- Shells ----------------------------------------------------------------------------------*/

/* The name of the shell that FRAME is of, or NULL. */
static const char *shell_of(const stacksplice_frame *frame)
{
    const stacksplice_glue *known =
        frame->kind == STACKSPLICE_FRAME_SCRIPT ? ss_glue_of(frame->language) : NULL;

    for (const stacksplice_shell *s = known ? known->shells : NULL; s && s->name; s++) {
        if (ends_with(frame->file, s->file) && ends_with(frame->function, s->function))
            return s->name;
    }
    return NULL;
}

/* Nothing is left out of a stack that goes on outside of the shell, in a task that waits for it. */
static SS_NOINLINE void find_shell(const ss_report *r, const ss_shown_stack *stack, ss_folds *folds)
{
    bool any = false, goes_on = false; /* script frame of the user; outside of the shell */

    for (uint32_t at = 0; at < stack->count && !goes_on; at++) {
        const stacksplice_frame *frame;
        const char *name;
        ss_element e;

        if (!stack->frames && !ss_token_is(stack->elements[at]))
            continue;
        ss_element_begin(&e, r, stack, at, at + 1, true);
        frame = ss_element_at(&e, 0).frame;
        name = shell_of(frame);
        if (name && any && !folds->shell_is) {
            folds->shell = at;
            folds->shell_is = name;
        } else if (frame->kind == STACKSPLICE_FRAME_GAP && frame->asynchronous && folds->shell_is) {
            folds->shell = stack->count;
            folds->shell_is = NULL;
            goes_on = true;
        }
        any = any || frame->kind == STACKSPLICE_FRAME_SCRIPT;
        ss_element_end(&e);
    }
}

/* ---- Start-up code ---------------------------------------------------------------------------*/

/* ANY_MODULE: a frame without a name counts wherever it is. */
static bool is_start_up_frame(const ss_shown_frame *shown, bool any_module)
{
    static const char *const libraries[] = {"libc.so*", "libc-*", "libpthread*", "ld-*", NULL};
    const stacksplice_frame *frame = shown->frame;
    bool nameless = !frame->function && !frame->file && frame->module;

    return frame->kind == STACKSPLICE_FRAME_NATIVE &&
           (shown->glue ||
            (nameless && (any_module || ss_glue_matches(ss_base_name(frame->module), libraries))));
}

static SS_NOINLINE bool is_start_up(const ss_report *r, const ss_shown_stack *stack, uint32_t at,
                                    bool any_module)
{
    bool found = true;
    ss_element e;

    if (!stack->frames && ss_token_is(stack->elements[at]))
        return false;
    ss_element_begin(&e, r, stack, at, at + 1, true);
    for (uint32_t i = 0; i < e.count && found; i++) {
        ss_shown_frame shown = ss_element_at(&e, i);

        found = is_start_up_frame(&shown, any_module);
    }
    ss_element_end(&e);
    return found;
}

/* In a stripped C library the code below main has no name that tells what it is. */
static void find_start_up(const ss_report *r, const ss_shown_stack *stack, ss_folds *folds)
{
    uint32_t at = folds->start_up;

    /* _start itself is in the program, whose names cannot be read without symbols, either. */
    if (at > 1 && is_start_up(r, stack, at - 1, true) && is_start_up(r, stack, at - 2, false))
        at--;
    while (at && is_start_up(r, stack, at - 1, false))
        at--;
    folds->start_up = at;
}

ss_folds ss_report_folds(const ss_report *r, ss_shown_stack stack)
{
    ss_folds folds = {stack.count, stack.count, NULL};

    if (!r->all_frames) {
        find_shell(r, &stack, &folds);
        find_start_up(r, &stack, &folds);
    }
    return folds;
}

/* ---- Where a language received an error ------------------------------------------------------*/

static void put_name_at(const ss_report *r, const stacksplice_frame *frame)
{
    ss_writer *w = r->w;
    const char *file = frame->file ? frame->file : frame->module, *name = frame->function;

    ss_writer_text(w, " at ");
    ss_report_put(r, name ? name : "???", STACKSPLICE_TEXT_MESSAGE);
    if (!file)
        return;
    file = ss_base_name(file);
    ss_writer_text(w, " (");
    ss_report_put(r, file, STACKSPLICE_TEXT_PATH);
    if (frame->file && frame->line) {
        ss_writer_text(w, ":");
        ss_writer_decimal(w, frame->line);
    } else if (!frame->file) {
        ss_writer_text(w, "+0x");
        ss_writer_hex(w, frame->module_offset, 1);
    }
    ss_writer_text(w, ")");
}

void ss_report_where(const ss_report *r, ss_shown_stack stack)
{
    bool found = false, counted;

    for (uint32_t at = 0; at < stack.count && !found; at++) {
        ss_element e;

        ss_element_begin(&e, r, &stack, at, at + 1, true);
        for (uint32_t i = 0; i < e.count && !found; i++) {
            ss_shown_frame shown = ss_element_at(&e, i);

            found = shown.frame->kind != STACKSPLICE_FRAME_GAP &&
                    ss_report_shows(r, shown.frame, shown.glue, &counted);
            if (found)
                put_name_at(r, shown.frame);
        }
        ss_element_end(&e);
    }
}

/* ---- One frame --------------------------------------------------------------------------------*/

/* One frame as text, in pystack's grammar. */

static void put_name(const ss_report *r, const char *text)
{
    ss_color_begin(r, SS_COLOR_PLACE);
    ss_report_put(r, text, STACKSPLICE_TEXT_MESSAGE);
    ss_color_end(r, SS_COLOR_PLACE);
}

static void put_spaces(ss_writer *w, unsigned count)
{
    while (count--)
        ss_writer_put(w, " ", 1);
}

/* Whether FRAME is shown as the tracebacks of its language show it. */
static bool ss_report_has_own_look(const ss_report *r, const stacksplice_frame *frame)
{
    const stacksplice_glue *known = ss_glue_of(frame->language);

    return r->order == STACKSPLICE_ORDER_NEWEST_LAST && known && known->own_look && frame->file &&
           !frame->interpreter;
}

/* Capitalize the name; show "native" as "C". */
static void put_language_name(ss_writer *w, const char *language)
{
    char first;

    if (!strcmp(language, "native")) {
        ss_writer_text(w, "C");
    } else if (*language) {
        first = *language >= 'a' && *language <= 'z' ? (char)(*language - 32) : *language;
        ss_writer_utf8(w, &first, 1, SS_ESCAPE_LINE);
        ss_writer_utf8(w, language + 1, strlen(language + 1), SS_ESCAPE_LINE);
    }
}

static void put_language(const ss_report *r, const char *language)
{
    const stacksplice_glue *known = ss_glue_of(language);
    const char *color = known && known->color ? known->color : SS_COLOR_MARK;
    ss_writer *w = r->w;

    ss_color_begin(r, color);
    ss_writer_text(w, "(");
    put_language_name(w, language);
    ss_writer_text(w, ")");
    ss_color_end(r, color);
    ss_writer_text(w, " ");
}

static void put_place(const ss_report *r, const stacksplice_frame *frame)
{
    ss_writer_text(r->w, "File ");
    ss_color_begin(r, SS_COLOR_PLACE);
    ss_writer_text(r->w, "\"");
    ss_report_put(r, frame->file, STACKSPLICE_TEXT_PATH);
    ss_writer_text(r->w, "\"");
    ss_color_end(r, SS_COLOR_PLACE);
    if (frame->line) {
        ss_writer_text(r->w, ", line ");
        ss_color_begin(r, SS_COLOR_PLACE);
        ss_writer_decimal(r->w, frame->line);
        ss_color_end(r, SS_COLOR_PLACE);
    }
    if (frame->function)
        ss_writer_text(r->w, ", in ");
}

/* "??? (libfoo.so+0x1234)" */
static void put_nameless(const ss_report *r, const stacksplice_frame *frame)
{
    ss_writer_text(r->w, "??? (");
    if (frame->module) {
        ss_report_put(r, ss_base_name(frame->module), STACKSPLICE_TEXT_PATH);
        ss_writer_text(r->w, "+");
    }
    ss_writer_text(r->w, "0x");
    ss_writer_hex(r->w, frame->module ? frame->module_offset : frame->address, 1);
    ss_writer_text(r->w, ")");
}

/* Whether the bracket at NAME[AT] is part of an operator, as in "operator<<" and "->". */
static bool is_operator(const char *name, size_t at)
{
    static const char word[] = "operator";
    size_t end = at;

    if (end && name[at] == '>' && name[end - 1] == '-')
        return true;
    while (end && strchr("<=>", name[end - 1]))
        end--;
    return end >= sizeof word - 1 && !memcmp(name + end - (sizeof word - 1), word, sizeof word - 1);
}

/* The name of a native function.  In a brief report what a long one of C++ has between angle brackets
   is left out: "map<...>::at(int)". */
static void put_function(const ss_report *r, const char *name)
{
    enum { SHORT_ENOUGH = 120 };
    static const char dots[] = "<...>";
    char brief[4 * SHORT_ENOUGH];
    size_t length = 0, at = 0;
    unsigned depth = 0;

    if (r->all_frames || strlen(name) <= SHORT_ENOUGH) {
        put_name(r, name);
        return;
    }
    for (; name[at] && length < sizeof brief - sizeof "<...>..."; at++) {
        bool is_bracket = (name[at] == '<' || name[at] == '>') && !is_operator(name, at);

        if (is_bracket && name[at] == '<' && !depth++) {
            memcpy(brief + length, dots, sizeof dots);
            length += sizeof dots - 1;
        } else if (is_bracket && name[at] == '>' && depth) {
            depth--;
        } else if (!depth) {
            brief[length++] = name[at];
        }
    }
    memcpy(brief + length, name[at] ? "..." : "", name[at] ? 4 : 1);
    put_name(r, brief);
}

/* Whether FUNCTION is NAME, or NAME in a table or namespace. */
static bool is_called(const char *function, const char *name)
{
    size_t length = strlen(function), end = strlen(name);

    return end <= length && !strcmp(function + length - end, name) &&
           (end == length || strchr(".:", function[length - end - 1]));
}

/* " (Language: name)" where the CALLER, if not NULL, has another name for the function of FRAME. */
static void put_called(const ss_report *r, const stacksplice_frame *frame,
                       const stacksplice_frame *caller)
{
    if (!caller || !caller->calls || (frame->function && is_called(frame->function, caller->calls)))
        return;
    ss_writer_text(r->w, " (");
    put_language_name(r->w, caller->language);
    ss_writer_text(r->w, ": ");
    put_name(r, caller->calls);
    ss_writer_text(r->w, ")");
}

static void put_native(const ss_report *r, const stacksplice_frame *frame,
                       const stacksplice_frame *caller)
{
    if (!frame->function && !frame->file) {
        put_nameless(r, frame);
        put_called(r, frame, caller);
        return;
    }
    if (frame->file)
        put_place(r, frame);
    if (frame->function)
        put_function(r, frame->function);
    if (!frame->file && frame->function && frame->function_offset) {
        ss_writer_text(r->w, "+0x");
        ss_writer_hex(r->w, frame->function_offset, 1);
    }
    if (frame->inlined)
        ss_writer_text(r->w, " (inlined)");
    put_called(r, frame, caller);
    if (frame->module) {
        const char *module = r->all_frames ? frame->module : ss_base_name(frame->module);

        ss_writer_text(r->w, " (");
        ss_report_put(r, module, STACKSPLICE_TEXT_PATH);
        ss_writer_text(r->w, ")");
    }
}

/* "g" of the qualified name "f.<locals>.g". */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && dot[1] ? dot + 1 : name;
}

/* Equal for frames that tracebacks of their language take for a repetition: line by line. */
static uint64_t ss_report_place(const stacksplice_frame *frame)
{
    const char *name = frame->function ? last_part(frame->function) : "";
    uint64_t hash = ss_hash_word(SS_HASH_START, frame->line);

    hash = ss_hash_bytes(hash, frame->file, strlen(frame->file));
    return ss_hash_bytes(hash, name, strlen(name)) | 1; /* never 0 */
}

static void put_script(const ss_report *r, const stacksplice_frame *frame)
{
    if (frame->interpreter) {
        ss_writer_text(r->w, "[");
        ss_report_put(r, frame->interpreter, STACKSPLICE_TEXT_MESSAGE);
        ss_writer_text(r->w, "] ");
    }
    if (frame->file)
        put_place(r, frame);
    if (frame->function)
        put_name(r,
                 ss_report_has_own_look(r, frame) ? last_part(frame->function) : frame->function);
    if (!frame->file && !frame->function)
        ss_writer_text(r->w, "???");
}

static void put_gap(const ss_report *r, const stacksplice_frame *frame)
{
    const char *reason = frame->reason ? frame->reason : "unknown";

    ss_writer_text(r->w, frame->asynchronous ? "[async: " : "[gap: ");
    ss_report_put(r, reason, STACKSPLICE_TEXT_MESSAGE);
    ss_writer_text(r->w, "]");
}

/* An interpreter's own record is as right as the stack, so a brief report does not mention it. */
static void put_trust(const ss_report *r, stacksplice_trust trust)
{
    if (trust == STACKSPLICE_TRUST_INFERRED)
        ss_writer_text(r->w, " [inferred]");
    else if (trust == STACKSPLICE_TRUST_TRACEBACK && r->all_frames)
        ss_writer_text(r->w, " [traceback]");
}

size_t ss_report_source(const ss_report *r, const stacksplice_frame *frame,
                        char line[SS_SOURCE_LINE_MAX], uint32_t *column)
{
    if (!r->source || !frame->file || !frame->line || frame->chunk)
        return 0;
    /* A compiler's relative path is relative to its own directory, not to ours. */
    if (frame->kind == STACKSPLICE_FRAME_NATIVE && *frame->file != '/')
        return 0;
    return ss_source_line(r->source, frame->file, frame->line, ss_written_at(frame->module), line,
                          column);
}

static unsigned source_indent(const ss_report *r, unsigned indent)
{
    return r->order == STACKSPLICE_ORDER_NEWEST_LAST ? indent + 2 : indent + 4;
}

static void put_source(const ss_report *r, const ss_shown_frame *shown, unsigned indent)
{
    char line[SS_SOURCE_LINE_MAX];
    uint32_t column;
    const stacksplice_document_text *saved = shown->saved ? &shown->saved->source : NULL;
    const char *text = saved ? saved->text : line;
    size_t length = saved ? saved->length : ss_report_source(r, shown->frame, line, &column);

    if (!text || !length)
        return;
    put_spaces(r->w, source_indent(r, indent));
    ss_redact((ss_text){text, NULL, length}, STACKSPLICE_TEXT_SOURCE, r->failfast != NULL, r->w,
              SS_ESCAPE_LINE);
    ss_writer_text(r->w, "\n");
}

static void put_frame(const ss_report *r, const stacksplice_frame *frame,
                      const stacksplice_frame *caller)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        put_gap(r, frame);
        return;
    }
    if (!ss_report_has_own_look(r, frame))
        put_language(r, frame->language);
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        put_native(r, frame, caller);
    else
        put_script(r, frame);
    put_trust(r, frame->trust);
}

/* Whether the file of SHOWN, of a living error, is no longer the one that ran. */
static bool is_refused(const ss_report *r, const ss_shown_frame *shown)
{
    return !shown->saved && !r->bare && r->source && shown->frame->file && !shown->frame->chunk &&
           ss_source_refuses(r->source, shown->frame->file);
}

/* Whether the caller has written SHOWN in the look of its language. */
static bool put_own_look(const ss_report *r, const ss_shown_frame *shown)
{
    const stacksplice_document_frame live = {.frame = *shown->frame, .glue = shown->glue};
    stacksplice_document_text text = {NULL, 0};

    if (!r->look || r->all_frames || shown->frame->kind != STACKSPLICE_FRAME_SCRIPT ||
        shown->frame->trust == STACKSPLICE_TRUST_INFERRED ||
        !ss_report_has_own_look(r, shown->frame) || is_refused(r, shown))
        return false;
    if (r->look(shown->saved ? shown->saved : &live, &text, r->look_data))
        return false;
    ss_writer_put(r->w, text.text, text.length);
    return true;
}

/* Below the source line, where tracebacks of scripts have them if they show any. */
static void put_locals(const ss_report *r, const ss_shown_frame *shown, unsigned indent)
{
    for (uint32_t i = 0; i < shown->locals.count; i++) {
        const stacksplice_document_local *local = &shown->locals.all[i];

        put_spaces(r->w, source_indent(r, indent));
        ss_report_put(r, local->name, STACKSPLICE_TEXT_MESSAGE);
        ss_writer_text(r->w, " = ");
        ss_redact_local(local->name, (ss_text){local->value.text, NULL, local->value.length},
                        r->failfast != NULL, r->w, SS_ESCAPE_LINE);
        ss_writer_text(r->w, "\n");
    }
}

static void put_default_look(const ss_report *r, const ss_shown_frame *shown,
                             const stacksplice_frame *caller, unsigned indent)
{
    put_spaces(r->w, indent);
    put_frame(r, shown->frame, caller);
    ss_writer_text(r->w, "\n");
    if (shown->frame->kind != STACKSPLICE_FRAME_GAP)
        put_source(r, shown, indent);
}

/*
 * Write one frame as one line of text, its source line where it can be read, and its variables.
 * CALLER is the next frame outward of a native one, or NULL: it may have another name for it.
 */
static void ss_report_frame(const ss_report *r, const ss_shown_frame *shown,
                            const stacksplice_frame *caller, unsigned indent)
{
    bool is_written = put_own_look(r, shown);

    if (!is_written)
        put_default_look(r, shown, caller, indent);
    if (!is_written || !r->bare)
        put_locals(r, shown, indent);
}

stacksplice_hresult stacksplice_format_frame(const stacksplice_frame *frame,
                                             stacksplice_write_callback write, void *data)
{
    ss_writer w;
    ss_report r = {.w = &w, .all_frames = true};

    if (!frame || !write)
        return E_POINTER;
    ss_writer_init(&w, write, data);
    put_frame(&r, frame, NULL);
    return ss_writer_finish(&w) ? S_OK : S_FALSE;
}

/* ---- One stack --------------------------------------------------------------------------------*/

/* A stack as text: glue hidden and counted, repeats folded, in either order. */

typedef struct printer {
    const ss_report *r;
    ss_shown_stack stack;
    unsigned indent;
    uint32_t hidden; /* glue frames so far */
    uint64_t last;   /* of the last element shown; 0: none */
    uint32_t equal;  /* how often it came in a row */
    bool is_line;    /* equal by file, line and function, as tracebacks of scripts compare */
    bool lineless;   /* showed a native frame of a module without a file */
    bool replaced;   /* and its file is another one by now */
    ss_folds folds;
} printer;

/* Where an element is in the stack: one of an error object's, or the frames of a saved report. */
typedef struct element {
    uint32_t begin, end;
} element;

/* In a saved report, inlined frames and the function that contains them form one element. */
static element element_at(const ss_shown_stack *stack, uint32_t begin)
{
    element e = {begin, begin + 1};

    while (stack->frames && e.end < stack->count && stack->frames[e.end - 1].frame.inlined)
        e.end++;
    return e;
}

static element element_before(const ss_shown_stack *stack, uint32_t end)
{
    element e = {end - 1, end};

    while (stack->frames && e.begin && stack->frames[e.begin - 1].frame.inlined)
        e.begin--;
    return e;
}

static uintptr_t address_of(const ss_shown_stack *stack, element e)
{
    return stack->frames ? stack->frames[e.begin].frame.address : stack->elements[e.begin];
}

/* CALLER, the frame of a script outside of SHOWN, may have another name for it.
   Noinline, as what else has an element: it is large for a small stack. */
static SS_NOINLINE void print_called(const printer *p, uint32_t caller, const ss_shown_frame *shown)
{
    ss_element e;

    ss_element_begin(&e, p->r, &p->stack, caller, caller + 1, false);
    ss_report_frame(p->r, shown, ss_element_at(&e, 0).frame, p->indent);
    ss_element_end(&e);
}

static void print_frame(const printer *p, element at, const ss_shown_frame *shown)
{
    const ss_shown_stack *stack = &p->stack;

    if (shown->frame->kind == STACKSPLICE_FRAME_NATIVE && !shown->frame->inlined &&
        at.end < stack->count && (stack->frames || ss_token_is_script(stack->elements[at.end])))
        print_called(p, at.end, shown);
    else
        ss_report_frame(p->r, shown, NULL, p->indent);
}

/* What of an element is shown. */
typedef struct contents {
    uint32_t shown;
    uint32_t uncounted; /* of those that are not shown: gaps, inlined functions */
    uint64_t place;     /* of a script frame in its own look, else 0 */
    bool lineless, replaced;
} contents;

static bool is_shown(const printer *p, element at, const ss_shown_frame *shown, bool *is_counted)
{
    return ss_report_shows(p->r, shown->frame, shown->glue || at.begin >= p->folds.start_up,
                           is_counted);
}

static contents look_at(const printer *p, element at, const ss_element *e)
{
    contents c = {.shown = 0};

    for (uint32_t i = 0; i < e->count; i++) {
        const ss_shown_frame shown = ss_element_at(e, i);
        const stacksplice_frame *frame = shown.frame;
        bool is_counted;

        if (frame->kind == STACKSPLICE_FRAME_SCRIPT && ss_report_has_own_look(p->r, frame))
            c.place = ss_report_place(frame);
        if (is_shown(p, at, &shown, &is_counted))
            c.shown++;
        else if (!is_counted || frame->inlined)
            c.uncounted++;
        c.replaced |= !shown.glue && shown.replaced;
        c.lineless |= !e->saved && !shown.glue && frame->kind == STACKSPLICE_FRAME_NATIVE &&
                      frame->module && !frame->file;
    }
    return c;
}

static void put_line(const printer *p, const char *before, uint64_t count, const char *after)
{
    put_spaces(p->r->w, p->indent);
    ss_writer_text(p->r->w, before);
    ss_writer_decimal(p->r->w, count);
    ss_writer_text(p->r->w, after);
}

static void end_repeats(printer *p)
{
    uint32_t more = p->equal > SS_REPORT_EQUAL_MAX ? p->equal - SS_REPORT_EQUAL_MAX : 0;

    if (more)
        put_line(p, p->is_line ? "[Previous line repeated " : "[Previous frame repeated ", more,
                 more == 1 ? " more time]\n" : " more times]\n");
    p->equal = 0;
}

static void print_frames(const printer *p, element at, const ss_element *e, bool all)
{
    bool last = p->r->order == STACKSPLICE_ORDER_NEWEST_LAST, is_counted;

    for (uint32_t i = 0; i < e->count; i++) {
        const ss_shown_frame shown = ss_element_at(e, last ? e->count - 1 - i : i);

        if (all || is_shown(p, at, &shown, &is_counted))
            print_frame(p, at, &shown);
    }
}

static SS_NOINLINE void print_element(printer *p, element at)
{
    uint64_t key;
    ss_element e;
    contents c;

    ss_element_begin(&e, p->r, &p->stack, at.begin, at.end, true);
    c = look_at(p, at, &e);
    p->hidden += e.count - c.shown - c.uncounted;
    p->lineless |= c.lineless;
    p->replaced |= c.replaced;
    if (c.shown) {
        key = c.place ? c.place : address_of(&p->stack, at);
        if (key != p->last)
            end_repeats(p);
        p->last = key;
        p->is_line = c.place != 0;
        if (++p->equal <= SS_REPORT_EQUAL_MAX)
            print_frames(p, at, &e, c.shown == e.count);
    }
    ss_element_end(&e);
}

/* How many frames the elements from BEGIN on stand for, including omitted ones. */
static uint64_t count_frames(const ss_shown_stack *stack, uint32_t begin)
{
    uint64_t count = 0;

    while (begin < stack->count) {
        element e = element_at(stack, begin);

        count += ss_left_out_count(address_of(stack, e));
        begin = e.end;
    }
    return count;
}

/* Write how many frames outside of those shown are of a program that called the user's code. */
static void put_shell(const printer *p)
{
    if (!p->folds.shell_is)
        return;
    put_line(p, "... ", count_frames(&p->stack, p->folds.shell), " frames of ");
    ss_writer_text(p->r->w, p->folds.shell_is);
    ss_writer_text(p->r->w, " hidden\n");
}

/* Say why something is missing; NULL: nothing is. */
static void put_missing(const printer *p, const char *what, const char *reason)
{
    if (!reason)
        return;
    put_spaces(p->r->w, p->indent);
    ss_writer_text(p->r->w, what);
    ss_writer_text(p->r->w, reason);
    ss_writer_text(p->r->w, "\n");
}

/* Once in a report. */
static void put_replaced(const printer *p)
{
    ss_source *report = p->r->source;

    if (report && report->has_told_of_binaries)
        return;
    if (report)
        report->has_told_of_binaries = true;
    put_missing(p, "... ",
                "no files and lines of C frames in binaries that were replaced on disk "
                "since they were loaded");
}

/* Likewise, of lines of source. */
static void put_refused(const printer *p)
{
    ss_source *source = p->r->source;
    const char *reason = source && !source->has_told ? ss_why_no_lines(source) : NULL;

    if (reason)
        source->has_told = true;
    put_missing(p, "... ", reason);
}

/* Whether it would write anything. */
static SS_NOINLINE bool ss_report_stack_shows(const ss_report *r, ss_shown_stack stack)
{
    const printer p = {.r = r, .stack = stack, .folds = ss_report_folds(r, stack)};
    bool any = p.folds.shell_is != NULL;

    for (uint32_t begin = 0; begin < p.folds.shell && !any;) {
        element at = element_at(&stack, begin);
        ss_element e;

        ss_element_begin(&e, r, &stack, at.begin, at.end, true);
        any = look_at(&p, at, &e).shown != 0;
        ss_element_end(&e);
        begin = at.end;
    }
    return any;
}

void ss_report_stack(const ss_report *r, ss_shown_stack stack, unsigned indent)
{
    printer p = {.r = r, .stack = stack, .indent = indent, .folds = ss_report_folds(r, stack)};
    uint32_t end = p.folds.shell;
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    element e = {0, 0};

    ss_report_dates(r, stack);
    if (last)
        put_shell(&p);
    for (uint32_t at = last ? end : 0; at != (last ? 0 : end) && !r->w->failed;) {
        e = last ? element_before(&stack, at) : element_at(&stack, at);
        print_element(&p, e);
        at = last ? e.begin : e.end;
    }
    end_repeats(&p);
    if (!last)
        put_shell(&p);
    if (p.hidden)
        put_line(&p, "... ", p.hidden,
                 p.hidden == 1 ? " glue frame hidden\n" : " glue frames hidden\n");
    if (p.lineless && !r->failfast) /* if the machine and not a binary is the reason */
        put_missing(&p, "... no files and lines of C frames: ", stacksplice_lines_missing());
    if (p.replaced)
        put_replaced(&p);
    put_refused(&p);
}

/* ---- What an error says -----------------------------------------------------------------------*/

/* What an error says, as text: its type and message, its notes, and its HRESULT. */

/* Write further lines of an error's text so that none can pose as a line of the report. */
static void put_further_lines(const ss_report *r, ss_redacted *rest, const char *color)
{
    while (!ss_redacted_is_done(rest) && !r->w->failed) {
        ss_writer_text(r->w, ss_redacted_line_is_done(rest) ? "|" : "| ");
        ss_color_begin(r, color);
        ss_redacted_line(rest, r->w, SS_ESCAPE_TABS);
        ss_color_end(r, color);
        ss_writer_text(r->w, "\n");
    }
}

static const char *exception_language(const ss_facts *facts)
{
    const char *language =
        facts->exception ? facts->exception->lpVtbl->GetLanguage(facts->exception) : NULL;

    return language ? language : facts->language;
}

/* The type of an exception; NULL if there is none, or only that of a value that was thrown. */
static const char *exception_type(const ss_facts *facts)
{
    const stacksplice_glue *known = facts->type ? ss_glue_of(exception_language(facts)) : NULL;

    return known && ss_glue_matches(facts->type, known->values) ? NULL : facts->type;
}

/* "ValueError: bad amount 'x'" */
static void put_title(const ss_report *r, const ss_facts *facts)
{
    const char *type = exception_type(facts);
    ss_writer *w = r->w;
    ss_redacted rest;
    bool any;

    ss_redacted_begin(&rest, ss_facts_message(facts), STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    any = !ss_redacted_is_done(&rest);
    if (type) {
        ss_color_begin(r, SS_COLOR_TYPE);
        ss_report_put(r, type, STACKSPLICE_TEXT_MESSAGE);
        ss_color_end(r, SS_COLOR_TYPE);
        ss_writer_text(w, any ? ": " : "");
    }
    ss_color_begin(r, SS_COLOR_PLACE);
    if (any)
        ss_redacted_line(&rest, w, SS_ESCAPE_TABS);
    else if (!type)
        ss_writer_text(w, "error");
    ss_color_end(r, SS_COLOR_PLACE);
    ss_writer_text(w, "\n");
    put_further_lines(r, &rest, SS_COLOR_PLACE);
    ss_redacted_end(&rest);
}

/* "note: while loading rates.csv" */
static int put_note(const char *text, size_t length, void *data)
{
    const ss_report *r = data;
    ss_redacted rest;

    ss_redacted_begin(&rest, (ss_text){text, NULL, length}, STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    ss_writer_text(r->w, "note: ");
    ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
    ss_writer_text(r->w, "\n");
    put_further_lines(r, &rest, SS_COLOR_NONE);
    ss_redacted_end(&rest);
    return r->w->failed;
}

/* ---- The HRESULT -----------------------------------------------------------------------------*/

/* Whether a type of ours carries the HRESULT that native code gave: stacksplice.HResultError. */
static bool is_carrier(const char *type)
{
    static const char own[] = "stacksplice";

    return !strncmp(type, own, sizeof own - 1) && strchr(".:", type[sizeof own - 1]);
}

/* Whether a value that was thrown has this HRESULT because it has none of its own. */
static bool is_default(HRESULT hr)
{
    return hr == E_FAIL || hr == E_OUTOFMEMORY || hr == E_UNEXPECTED ||
           (uint32_t)hr == 0x80020101u; /* SCRIPT_E_REPORTED */
}

/* Where the type of a script's exception determines the HRESULT, it tells a reader nothing. */
static bool is_told(const ss_report *r, const ss_facts *facts)
{
    if (r->all_frames || !facts->type)
        return true;
    return exception_type(facts) ? is_carrier(facts->type) : !is_default(facts->view.hresult);
}

/* "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect." */
static void ss_report_hresult(const ss_report *r, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (!is_told(r, facts))
        return;
    ss_writer_text(r->w, "HRESULT 0x");
    ss_writer_hex(r->w, (uint32_t)facts->view.hresult, 8);
    if (symbol) {
        ss_writer_text(r->w, " ");
        ss_writer_text(r->w, symbol);
    }
    if (ss_facts_has_own_message(facts)) {
        ss_writer_text(r->w, ": ");
        ss_redact(ss_facts_description(facts), STACKSPLICE_TEXT_MESSAGE, r->failfast != NULL, r->w,
                  SS_ESCAPE_LINE);
    }
    ss_writer_text(r->w, "\n");
}

/* Write type, message, notes and, if it says something, the HRESULT. */
static void ss_report_title(const ss_report *r, const ss_facts *facts)
{
    put_title(r, facts);
    ss_facts_each_note(facts, put_note, (void *)(uintptr_t)r);
    ss_report_hresult(r, facts);
}

/* ---- One error --------------------------------------------------------------------------------*/

/* In the order of scripts' tracebacks as these are, which have no header without a frame. */
static void put_stack(const ss_report *r, const ss_facts *facts)
{
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    const char *place = facts->document ? facts->document->place : NULL;
    uint32_t members, left_out;
    ss_locals locals;

    if (last ? !ss_report_stack_shows(r, ss_facts_stack(facts)) : !ss_facts_stack(facts).count)
        return;
    if (last && ss_facts_group(facts, &members, &left_out))
        ss_writer_text(r->w, "Exception Group ");
    ss_writer_text(r->w, last ? "Traceback" : "Stack of thread ");
    if (last && r->all_frames)
        ss_writer_text(r->w, " for thread ");
    if (!last || r->all_frames)
        ss_writer_decimal(r->w, facts->view.thread_id);
    if (place) {
        ss_writer_text(r->w, " ");
        ss_report_put(r, place, STACKSPLICE_TEXT_MESSAGE);
    }
    ss_writer_text(r->w, last ? " (most recent call last):\n" : " (most recent call first):\n");
    ss_report_stack(r, ss_report_stack_of(r, facts, &locals), last ? 2 : 4);
    ss_locals_end(&locals);
}

/* ---- Propagation -----------------------------------------------------------------------------*/

typedef struct nodes {
    const ss_report *r;
    uint64_t thread_id; /* of the error */
    uint32_t count;
} nodes;

/* Brief: one line, "1. received by NAME at convert (bridge.c:73)". */
static bool put_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    nodes *c = data;
    ss_writer *w = c->r->w;
    bool whole = c->r->all_frames;

    if (!c->count++)
        ss_writer_text(w, "Propagation:\n");
    ss_writer_text(w, "  ");
    ss_writer_decimal(w, c->count);
    ss_writer_text(w, ". received by ");
    ss_writer_utf8(w, receiver, strlen(receiver), SS_ESCAPE_LINE);
    if (!whole)
        ss_report_where(c->r, stack);
    if (whole || thread_id != c->thread_id) {
        ss_writer_text(w, " on thread ");
        ss_writer_decimal(w, thread_id);
    }
    ss_writer_text(w, whole && stack.count ? " at:\n" : "\n");
    if (whole)
        ss_report_stack(c->r, stack, 8);
    return !w->failed;
}

static void put_nodes(const ss_report *r, const ss_facts *facts)
{
    nodes c = {r, facts->view.thread_id, 0};

    ss_facts_each_node(facts, put_node, &c);
}

void ss_report_bare(const ss_report *r, const ss_facts *facts)
{
    ss_report bare = *r;
    ss_locals locals;

    bare.bare = true;
    ss_report_stack(&bare, ss_report_stack_of(r, facts, &locals), 2);
    ss_locals_end(&locals);
    put_nodes(r, facts);
    ss_report_hresult(r, facts);
}

/* ---- The error and its stack ------------------------------------------------------------------*/

/* Write lines that a caller has formatted. */
static void put_lines(const ss_report *r, stacksplice_document_text text)
{
    const ss_text all = {text.text ? text.text : "", NULL, text.text ? text.length : 0};
    ss_redacted rest;

    ss_redacted_begin(&rest, all, STACKSPLICE_TEXT_MESSAGE, r->failfast != NULL);
    while (!ss_redacted_is_done(&rest)) {
        ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
        ss_writer_text(r->w, "\n");
    }
    ss_redacted_end(&rest);
}

/* The same without causes and members. */
static void put_alone(const ss_report *r, const ss_facts *facts)
{
    const stacksplice_document *document = facts->document;
    bool last = r->order == STACKSPLICE_ORDER_NEWEST_LAST;

    if (document && document->text.text) {
        put_lines(r, document->text);
    } else {
        if (!last)
            ss_report_title(r, facts);
        put_stack(r, facts);
        put_nodes(r, facts);
        if (last)
            ss_report_title(r, facts);
    }
    if (document)
        put_lines(r, document->passed);
}

/* ---- An error with all that belongs to it -----------------------------------------------------*/

/*
 * The text report of an error, its causes, and the members of groups, which are set off by a
 * margin.
 */

typedef struct report_text {
    const ss_report *r;
    uint32_t depth; /* of the margin: number of enclosing groups */
    bool closed;    /* the last line closes a group */
    ss_seen seen;
} report_text;

static void put_error_and_causes(report_text *s, const ss_facts *facts);

static void put_rule(report_text *s, uint32_t number, bool is_rest)
{
    ss_writer *w = s->r->w;

    ss_writer_margin(w, 0, '|');
    put_spaces(w, 2 * s->depth);
    ss_writer_text(w, number == 1 ? "+-+---------------- " : "  +---------------- ");
    if (is_rest)
        ss_writer_text(w, "...");
    else
        ss_writer_decimal(w, number);
    ss_writer_text(w, " ----------------\n");
}

/* One line for what is not shown. */
static void put_rest(const report_text *s, uint32_t count)
{
    ss_writer_text(s->r->w, "and ");
    ss_writer_decimal(s->r->w, count);
    ss_writer_text(s->r->w, count == 1 ? " more error\n" : " more errors\n");
}

static void put_member(report_text *s, const ss_facts *group, uint32_t index)
{
    ss_subject member;
    ss_facts facts;

    if (!ss_facts_member(group, index, &member)) {
        ss_writer_text(s->r->w, "an unreadable error\n");
        return;
    }
    if (!ss_facts_of(member, &facts)) {
        ss_writer_text(s->r->w, "an error of another library\n");
    } else {
        if (ss_seen_has(&s->seen, &facts))
            ss_writer_text(s->r->w, s->r->order == STACKSPLICE_ORDER_NEWEST_LAST
                                        ? "an error of this report\n"
                                        : "an error above\n");
        else
            put_error_and_causes(s, &facts);
        ss_facts_release(&facts);
    }
    ss_subject_release(member);
}

/* Close a group, and with the same line every group of which it is the last member. */
static void put_end(report_text *s)
{
    if (s->closed)
        return;
    ss_writer_margin(s->r->w, 0, '|');
    put_spaces(s->r->w, 2 * s->depth + 2);
    ss_writer_text(s->r->w, "+------------------------------------\n");
    s->closed = true;
}

static void put_members(report_text *s, const ss_facts *group, uint32_t members, uint32_t left_out)
{
    uint32_t shown = members < SS_REPORT_MEMBERS_MAX ? members : SS_REPORT_MEMBERS_MAX;
    uint32_t rest = members - shown + left_out;
    ss_writer *w = s->r->w;

    if (s->depth > SS_REPORT_DEPTH_MAX || !ss_stack_suffices_for_error()) {
        put_rest(s, members + left_out);
        return;
    }
    for (uint32_t i = 0; i < shown + (rest != 0) && !w->failed; i++) {
        put_rule(s, i + 1, i == shown);
        s->depth++;
        s->closed = false;
        ss_writer_margin(w, s->depth, '|');
        if (i < shown)
            put_member(s, group, i);
        else
            put_rest(s, rest);
        s->depth--;
    }
    put_end(s);
    ss_writer_margin(w, s->depth, '|');
}

static void put_error(report_text *s, const ss_facts *facts)
{
    bool is_outermost = s->depth == 0;
    uint32_t members = 0, left_out = 0;

    s->closed = false;
    if (!ss_facts_group(facts, &members, &left_out) || members + left_out == 0) {
        put_alone(s->r, facts);
        return;
    }
    if (is_outermost) {
        s->depth = 1;
        ss_writer_margin(s->r->w, s->depth, '+');
    }
    put_alone(s->r, facts);
    put_members(s, facts, members, left_out);
    if (is_outermost) {
        s->depth = 0;
        ss_writer_margin(s->r->w, 0, '|');
    }
}

/* ---- Causes ----------------------------------------------------------------------------------*/

/* The errors that one was made from, latest first, each once. */
typedef struct chain {
    ss_subject errors[SS_REPORT_CAUSES_MAX];
    stacksplice_relation relations[SS_REPORT_CAUSES_MAX]; /* to the error before it */
    uint32_t count;
    const char *end;                   /* why there are no more; or NULL */
    stacksplice_relation end_relation; /* of what END is about */
} chain;

/* The error that was added last, and what is known of the next. */
typedef struct link {
    ss_subject later;
    stacksplice_relation relation;
    uint32_t left_out;
} link;

static bool end_chain(chain *c, stacksplice_relation relation, const char *end)
{
    c->end = end;
    c->end_relation = relation;
    return false;
}

static bool end_at(chain *c, const link *at)
{
    if (at->later.document && at->later.document->cause_above)
        return end_chain(c, at->relation, " an error above.\n");
    if (at->left_out)
        return end_chain(c, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    return false;
}

/* Add the next error; false after the last. */
static bool add_cause(report_text *s, chain *c, link *at)
{
    ss_subject next = ss_subject_previous(at->later);
    bool added = false;
    ss_facts cause;

    if (!ss_subject_is(next) || !ss_facts_of(next, &cause))
        return end_at(c, at);
    if (ss_seen_has(&s->seen, &cause)) {
        end_chain(c, at->relation, " an error above.\n");
    } else if (c->count == SS_REPORT_CAUSES_MAX || !ss_seen_add(&s->seen, &cause)) {
        end_chain(c, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    } else {
        c->errors[c->count] = next;
        c->relations[c->count++] = at->relation;
        added = true;
    }
    *at = (link){next, cause.view.relation, cause.view.causes_left_out};
    ss_facts_release(&cause);
    return added;
}

static void find_causes(report_text *s, const ss_facts *facts, chain *c)
{
    link at = {{facts->error, facts->document}, facts->view.relation, facts->view.causes_left_out};

    c->count = 0;
    c->end = NULL;
    while (ss_facts_has_chain(facts) && add_cause(s, c, &at)) {
    }
}

static void put_words(report_text *s, stacksplice_relation relation, const char *rest)
{
    s->closed = false;
    ss_writer_text(s->r->w, relation == STACKSPLICE_RELATION_CONTEXT ? "Raised while handling"
                                                                     : "Caused by");
    ss_writer_text(s->r->w, rest);
}

static void put_cause(report_text *s, ss_subject subject)
{
    ss_facts cause;

    if (!ss_facts_of(subject, &cause))
        return;
    put_error(s, &cause);
    ss_facts_release(&cause);
}

static void put_causes_below(report_text *s, const chain *c)
{
    for (uint32_t i = 0; i < c->count && !s->r->w->failed; i++) {
        s->closed = false;
        ss_writer_text(s->r->w, "\n");
        put_words(s, c->relations[i], ":\n");
        put_cause(s, c->errors[i]);
    }
    if (!c->end)
        return;
    s->closed = false;
    ss_writer_text(s->r->w, "\n");
    put_words(s, c->end_relation, c->end);
}

/* The oldest first, in the words of scripts' tracebacks. */
static void put_causes_above(report_text *s, const chain *c)
{
    if (c->end) {
        put_words(s, c->end_relation, c->end);
        ss_writer_text(s->r->w, "\n");
    }
    for (uint32_t i = c->count; i-- && !s->r->w->failed;) {
        put_cause(s, c->errors[i]);
        s->closed = false;
        ss_writer_text(s->r->w, c->relations[i] == STACKSPLICE_RELATION_CONTEXT
                                    ? "\nDuring handling of the above exception, another exception "
                                      "occurred:\n\n"
                                    : "\nThe above exception was the direct cause of the following "
                                      "exception:\n\n");
    }
}

static void put_error_and_causes(report_text *s, const ss_facts *facts)
{
    bool last = s->r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    chain c;

    (void)ss_seen_add(&s->seen, facts);
    if (last) {
        find_causes(s, facts, &c);
        put_causes_above(s, &c);
    }
    put_error(s, facts);
    if (!last) {
        find_causes(s, facts, &c);
        put_causes_below(s, &c);
    }
}

void ss_report_text(const ss_report *r, const ss_facts *facts)
{
    report_text s = {.r = r};

    if (r->alone)
        put_alone(r, facts);
    else
        put_error_and_causes(&s, facts);
}
