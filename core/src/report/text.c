/*
 * The text of a report, as docs/reference/reports.md describes it.  First what a brief report leaves out, then
 * one frame, one stack, one error, and an error with its causes and members.
 */
#include "base/memo.h"
#include "report/report.h"
#include "splice/sink.h"
#include "splice/token.h"

#include <stacksplice/read.h>
#include <stacksplice/script.h>
#include <stdarg.h>
#include <string.h>

#define SS_COLOR_TYPE "\033[1;35m"
#define SS_COLOR_ASIDE "\033[2m"
#define SS_COLOR_MARK "\033[1m" /* of a language that has chosen none */

static bool is_last(const ss_report *r)
{
    return r->order == STACKSPLICE_ORDER_NEWEST_LAST;
}

#define COLOR_END "\033[0m"

static void put_color(const ss_report *r, const char *color)
{
    if (r->color)
        ss_writer_text(r->w, color);
}

/* Write FORMAT up to the next sign that stands for something; returns how much that is. */
static size_t put_plain(ss_writer *w, const char *format)
{
    size_t length = 0;

    while (format[length] && format[length] != '%' && format[length] != '{' &&
           format[length] != '}')
        length++;
    if (length)
        ss_writer_put(w, format, length);
    return length;
}

/*
 * Write FORMAT, in which these stand for an argument: %s a text as it is, %m one without secrets and
 * on one line, %p a path likewise, %u a uint64_t, %x one in hexadecimal, %i as many blanks as an
 * unsigned says, %c the colour of what follows.  '{' begins the colour of a place (file, line, function, message), '}' ends any.
 */
static void put(const ss_report *r, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    for (; *format; format += *format != 0) {
        format += put_plain(r->w, format);
        switch (*format == '%' ? *++format : *format) {
        case 's':
            ss_writer_text(r->w, va_arg(arguments, const char *));
            break;
        case 'm':
            ss_report_put(r, va_arg(arguments, const char *), STACKSPLICE_TEXT_MESSAGE);
            break;
        case 'p':
            ss_report_put(r, va_arg(arguments, const char *), STACKSPLICE_TEXT_PATH);
            break;
        case 'u':
            ss_writer_decimal(r->w, va_arg(arguments, uint64_t));
            break;
        case 'x':
            ss_writer_hex(r->w, va_arg(arguments, uint64_t), 1);
            break;
        case 'i':
            ss_writer_blanks(r->w, va_arg(arguments, unsigned));
            break;
        case 'c':
            put_color(r, va_arg(arguments, const char *));
            break;
        case '{':
            put_color(r, "\033[35m");
            break;
        case '}':
            put_color(r, COLOR_END);
            break;
        default:
            break;
        }
    }
    va_end(arguments);
}

/* ---- What a brief report leaves out -----------------------------------------------------------*/

bool ss_report_shows(const ss_report *r, const stacksplice_frame *frame, bool glue)
{
    const stacksplice_glue *known;

    if (r->all_frames)
        return true;
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        return !ss_gap_is_quiet(frame);
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        return !glue;
    known = frame->file ? ss_glue_of(frame->language) : NULL;
    return !known || !ss_glue_matches(frame->file, known->loaders);
}

/* ---- One element -----------------------------------------------------------------------------*/

void ss_element_begin(ss_element *e, const ss_report *r, const ss_shown_stack *stack, uint32_t at,
                      bool brief)
{
    const stacksplice_document_frame *saved = stack->frames;

    e->r = r;
    e->saved = NULL;
    e->begin = at;
    e->end = at + 1;
    if (saved) {
        while (e->begin && saved[e->begin - 1].frame.inlined)
            e->begin--;
        while (e->end < stack->count && saved[e->end - 1].frame.inlined)
            e->end++;
        e->saved = saved + e->begin;
        e->count = e->end - e->begin;
        return;
    }
    ss_frames_begin(&e->found, stack->elements[at], brief && !r->all_frames, r->failfast);
    e->count = e->found.count;
    e->locals = ss_locals_of(stack->locals, at);
}

ss_shown_frame ss_element_at(const ss_element *e, uint32_t index)
{
    const stacksplice_document_frame *saved = e->saved ? &e->saved[index] : NULL;
    const ss_frame *f = saved ? NULL : ss_frames_at(&e->found, index);

    if (saved)
        return (ss_shown_frame){&saved->frame, saved->glue != 0, saved, saved->locals, false, 0};
    return (ss_shown_frame){&f->frame,   f->frame.address != e->r->crashed_at && ss_glue_is(f),
                            NULL,        e->locals,
                            f->replaced, f->number};
}

void ss_element_end(ss_element *e)
{
    if (!e->saved)
        ss_frames_end(&e->found);
}

/* ---- Shells ----------------------------------------------------------------------------------*/

typedef struct shells {
    const ss_report *r;
    ss_folds *folds;
    uint64_t states[8]; /* of each language the last one that was seen, as a hash; 0: none */
    bool any;           /* a script frame of the user is further in */
    bool is_open;       /* the last fold may go on: nothing was shown since, */
    bool is_apart;      /* but a gap or a seam, so that another program begins a fold of its own, */
    const char *last;   /* the program of the last frame in it, */
    bool all;           /* with whatever is outside of it in its task and thread */
    uint32_t outer;     /* the fold outside of which is no script frame of the user, plus one */
} shells;

/* Add NAME to those of the last fold. */
static void add_name(ss_folds *folds, const char *name)
{
    ss_fold *fold = &folds->all[folds->count - 1];

    for (uint32_t i = 0; i < fold->count; i++)
        if (strcmp(folds->names[fold->first + i], name) == 0)
            return;
    if (fold->count == SS_FOLD_NAMES_MAX || folds->name_count == SS_FOLDS_NAMES_MAX) {
        fold->others = true;
        return;
    }
    folds->names[folds->name_count++] = name;
    fold->count++;
}

static void add_to_fold(shells *s, const ss_element *e, const stacksplice_shell *is)
{
    ss_folds *folds = s->folds;

    if (!s->is_open || (s->is_apart && !s->all && strcmp(s->last, is->name) != 0)) {
        if (folds->count == SS_FOLDS_MAX || folds->name_count == SS_FOLDS_NAMES_MAX)
            return;
        folds->all[folds->count++] =
            (ss_fold){.begin = e->begin, .first = (uint8_t)folds->name_count};
        s->is_open = true;
        s->all = false;
    }
    s->is_apart = false;
    s->last = is->name;
    /* What is outside of a program that runs everything is its own. */
    if (folds->all[folds->count - 1].count == 0 || (!s->all && !s->outer))
        add_name(folds, is->name);
    folds->all[folds->count - 1].end = e->end;
    if (is->function)
        s->all = true;
    if (is->function && !s->outer)
        s->outer = folds->count;
}

static void note_state(shells *s, const stacksplice_frame *frame)
{
    const char *name = frame->interpreter ? frame->interpreter : "";
    uint64_t state = ss_hash_bytes(SS_HASH_START, name, strlen(name)) | 1;
    uint32_t bit = ss_language_bit(frame->language);
    uint64_t *seen = &s->states[__builtin_ctz(bit)];

    if (*seen && *seen != state)
        s->folds->states |= bit;
    *seen = state;
}

static void find_shell_at(shells *s, const ss_element *e)
{
    const ss_shown_frame shown = ss_element_at(e, 0);
    const stacksplice_frame *frame = shown.frame;
    const stacksplice_shell *is =
        e->saved ? ss_shell_of(frame) : ss_frame_shell(ss_frames_at(&e->found, 0));
    bool glue = shown.glue || e->begin >= s->folds->start_up;
    bool is_gap = frame->kind == STACKSPLICE_FRAME_GAP;

    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        note_state(s, frame);
    if (is && !*is->name && s->is_open) { /* it belongs to what is inside of it */
        s->folds->all[s->folds->count - 1].end = e->end;
        return;
    }
    if (is && !*is->name)
        is = NULL;
    if (is && s->any) {
        add_to_fold(s, e, is);
    } else if (s->is_open && s->all && !(is_gap && frame->asynchronous)) {
        s->folds->all[s->folds->count - 1].end = e->end;
    } else if (is_gap) {
        s->is_apart = true;
        s->all = s->all && !frame->asynchronous; /* outside of it there may be more of the same */
    } else if (ss_report_shows(s->r, frame, glue)) {
        s->is_open = false;
        if (frame->kind == STACKSPLICE_FRAME_SCRIPT && (!is || is->function)) {
            s->any = true;
            s->outer = 0;
        }
    }
}

static SS_NOINLINE void find_shells(const ss_report *r, const ss_shown_stack *stack,
                                    ss_folds *folds)
{
    shells s = {.r = r, .folds = folds};
    ss_element e = {.end = 0};

    while (e.end < stack->count) {
        uint32_t at = e.end;

        if (!s.any && !stack->frames && !ss_token_is(stack->elements[at])) {
            e.end++; /* nothing is looked up in a binary for it */
            continue;
        }
        ss_element_begin(&e, r, stack, at, true);
        find_shell_at(&s, &e);
        ss_element_end(&e);
    }
    if (!s.outer)
        return;
    folds->count = s.outer;
    folds->all[s.outer - 1].end = stack->count;
}

/* Append BEFORE and TEXT to OUT, of SIZE bytes, if both fit. */
static bool append(char *out, size_t size, const char *before, const char *text)
{
    size_t used = strlen(out), first = strlen(before), second = strlen(text);

    if (used + first + second >= size)
        return false;
    memcpy(out + used, before, first);
    memcpy(out + used + first, text, second + 1);
    return true;
}

const char *ss_fold_text(const ss_folds *folds, const ss_fold *fold, char out[SS_FOLD_TEXT_MAX])
{
    static const char others[] = "others", final[] = " and ";
    const char *const *names = &folds->names[fold->first];
    bool are_others = fold->others;

    if (fold->count == 1 && !are_others)
        return names[0];
    out[0] = '\0';
    for (uint32_t i = 0; i < fold->count; i++) {
        bool is_end = i + 1 == fold->count && !are_others;
        const char *before = !*out ? "" : is_end ? final : ", ";

        are_others |= !append(out, SS_FOLD_TEXT_MAX - sizeof final - sizeof others, before,
                              names[fold->count - 1 - i]);
    }
    if (are_others)
        (void)append(out, SS_FOLD_TEXT_MAX, *out ? final : "", others);
    return out;
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
    ss_element_begin(&e, r, stack, at, true);
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
    ss_folds folds = {.start_up = stack.count};

    if (!r->all_frames) {
        find_start_up(r, &stack, &folds);
        find_shells(r, &stack, &folds);
    }
    return folds;
}

/* ---- Where a language received an error ------------------------------------------------------*/

static void put_name(const ss_report *r, const char *before, const stacksplice_frame *frame)
{
    put(r, "%s%m", before, frame->function ? frame->function : "???");
    if (frame->file)
        put(r, " (%p", ss_base_name(frame->file));
    else if (frame->module)
        put(r, " (%p+0x%x", ss_base_name(frame->module), frame->module_offset);
    if (frame->file && frame->line)
        put(r, ":%u", (uint64_t)frame->line);
    if (frame->file || frame->module)
        put(r, ")");
}

void ss_report_where(const ss_report *r, const char *before, ss_shown_stack stack)
{
    bool found = false;
    ss_element e = {.end = 0};

    while (e.end < stack.count && !found) {
        ss_element_begin(&e, r, &stack, e.end, true);
        for (uint32_t i = 0; i < e.count && !found; i++) {
            ss_shown_frame shown = ss_element_at(&e, i);

            found = shown.frame->kind != STACKSPLICE_FRAME_GAP &&
                    ss_report_shows(r, shown.frame, shown.glue);
            if (found)
                put_name(r, before, shown.frame);
        }
        ss_element_end(&e);
    }
}

/* ---- One frame --------------------------------------------------------------------------------*/

/* Whether FRAME is shown as the tracebacks of its language show it. */
static bool has_own_look(const ss_report *r, const stacksplice_frame *frame)
{
    const stacksplice_glue *known =
        is_last(r) && frame->file && !frame->interpreter ? ss_glue_of(frame->language) : NULL;

    return known && known->own_look;
}

/* Capitalize the name; show "native" as "C". */
static void put_language_name(const ss_report *r, const char *language)
{
    char first = *language >= 'a' && *language <= 'z' ? (char)(*language - 32) : *language;

    if (!strcmp(language, "native")) {
        ss_writer_put(r->w, "C", 1);
    } else if (first) {
        ss_writer_utf8(r->w, &first, 1, SS_ESCAPE_LINE);
        ss_writer_utf8(r->w, language + 1, strlen(language + 1), SS_ESCAPE_LINE);
    }
}

static void put_place(const ss_report *r, const stacksplice_frame *frame)
{
    if (!frame->file)
        return;
    put(r, "File {\"%p\"}", frame->file);
    if (frame->line)
        put(r, ", line {%u}", (uint64_t)frame->line);
    if (frame->function)
        put(r, ", in ");
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
        put(r, "{%m}", name);
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
    put(r, "{%m}", brief);
}

/* Whether FUNCTION is NAME, or NAME in a table or namespace. */
static bool is_called(const char *function, const char *name)
{
    size_t before = strlen(function) - strlen(name); /* where FUNCTION ends with NAME */

    return ss_ends_with(function, name) && (!before || strchr(".:", function[before - 1]));
}

/* " (Language: name)" where the CALLER, if not NULL, has another name for the function of FRAME. */
static void put_called(const ss_report *r, const stacksplice_frame *frame,
                       const stacksplice_frame *caller)
{
    if (!caller || !caller->calls || (frame->function && is_called(frame->function, caller->calls)))
        return;
    put(r, " (");
    put_language_name(r, caller->language);
    put(r, ": {%m})", caller->calls);
}

static void put_native(const ss_report *r, const stacksplice_frame *frame,
                       const stacksplice_frame *caller)
{
    bool is_named = frame->function || frame->file;

    put_place(r, frame);
    if (frame->function)
        put_function(r, frame->function);
    if (!frame->file && frame->function && frame->function_offset)
        put(r, "+0x%x", frame->function_offset);
    if (frame->inlined && is_named)
        put(r, " (inlined)");
    if (!is_named && frame->module)
        put(r, "??? (%p+0x%x)", ss_base_name(frame->module), frame->module_offset);
    else if (!is_named)
        put(r, "??? (0x%x)", (uint64_t)frame->address);
    put_called(r, frame, caller);
    if (is_named && frame->module)
        put(r, " (%p)", r->all_frames ? frame->module : ss_base_name(frame->module));
}

/* "g" of the qualified name "f.<locals>.g". */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && dot[1] ? dot + 1 : name;
}

/* Whether the file of FRAME, of a script, is a word in brackets: the language's own for what it is built of,
   which no file has. */
static bool is_built_in(const stacksplice_frame *frame)
{
    return frame->file && *frame->file == '[' && ss_ends_with(frame->file, "]") && !frame->line &&
           !frame->chunk && frame->function;
}

/* "[C]: in function 'error'".  What is no name stands for itself: "[C]: in ?". */
static void put_built_in(const ss_report *r, const stacksplice_frame *frame)
{
    const char *name = frame->function;

    put(r, "{%p}: in ", frame->file);
    put(r, strpbrk(name, " ?<") ? "{%m}" : "function '{%m}'", name);
}

static void put_script(const ss_report *r, const stacksplice_frame *frame)
{
    const char *name = frame->function;

    if (frame->interpreter)
        put(r, "[%m] ", frame->interpreter);
    if (is_built_in(frame)) {
        put_built_in(r, frame);
        return;
    }
    put_place(r, frame);
    if (name)
        put(r, "{%m}", has_own_look(r, frame) ? last_part(name) : name);
    if (!frame->file && !name)
        put(r, "???");
}

static void put_frame(const ss_report *r, const stacksplice_frame *frame,
                      const stacksplice_frame *caller)
{
    const stacksplice_glue *known = r->color ? ss_glue_of(frame->language) : NULL;

    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        put(r, "[%s: %m]", frame->asynchronous ? "async" : "gap",
            frame->reason ? frame->reason : "unknown");
        return;
    }
    if (!has_own_look(r, frame)) {
        put(r, "%c(", known && known->color ? known->color : SS_COLOR_MARK);
        put_language_name(r, frame->language);
        put(r, ")} ");
    }
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        put_native(r, frame, caller);
    else
        put_script(r, frame);
    if (frame->trust == STACKSPLICE_TRUST_INFERRED)
        put(r, " [inferred]");
    else if (frame->trust == STACKSPLICE_TRUST_TRACEBACK && r->all_frames)
        put(r, " [traceback]"); /* as right as the stack: a brief report does not mention it */
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

/* ---- What stands below a frame ----------------------------------------------------------------*/

/* Whether its line is in a file that may be read.  A compiler's relative path is relative to its own
   directory, not to ours. */
static bool has_source_file(const ss_report *r, const stacksplice_frame *frame)
{
    return r->source && !frame->source && frame->file && frame->line && !frame->chunk &&
           (frame->kind != STACKSPLICE_FRAME_NATIVE || *frame->file == '/');
}

static ss_code_times times_of(const ss_report *r, const stacksplice_frame *frame)
{
    return (ss_code_times){.built = ss_source_built_at(r->source, frame->module),
                           .met = ss_token_met_at((uintptr_t)frame->address)};
}

ss_text ss_report_source(const ss_report *r, const ss_shown_frame *shown,
                         char line[SS_SOURCE_LINE_MAX], uint32_t *column)
{
    const stacksplice_frame *frame = shown->frame;
    const stacksplice_glue *known = frame->chunk ? ss_glue_of(frame->language) : NULL;
    const stacksplice_document_text *saved = shown->saved ? &shown->saved->source : NULL;
    ss_text text = {line, NULL, 0};

    *column = 0;
    if (saved)
        return (ss_text){saved->text ? saved->text : "", NULL, saved->text ? saved->length : 0};
    if (frame->source && (r->source || r->failfast))
        return (ss_text){frame->source, NULL, strlen(frame->source)};
    if (r->source && known && frame->line && frame->function && *frame->file == '[' &&
        !r->source->why)
        r->source->why = known->unnamed;
    if (has_source_file(r, frame))
        text.length =
            ss_source_line(r->source, frame->file, frame->line, times_of(r, frame), line, column);
    return text;
}

static int refuse(const char *bytes, size_t length, void *data)
{
    (void)bytes, (void)length, (void)data;
    return 1;
}

/* The only place where NAME stands in LINE by itself; NULL if there are several, or none. */
static const char *only_word(const char *line, const char *name)
{
    static const char in_words[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *at = strstr(line, name), *found = NULL;
    size_t length = strlen(name);

    for (; at && *name; at = strstr(at + 1, name)) {
        bool begins = at == line || !strchr(in_words, *name) || !strchr(in_words, at[-1]);
        bool ends =
            !at[length] || !strchr(in_words, name[length - 1]) || !strchr(in_words, at[length]);

        if (begins && ends && found)
            return NULL;
        if (begins && ends)
            found = at;
    }
    return found;
}

/* Mark the function that the line SOURCE calls, or the word that was wrong there, if it is certain which
   part of the line that is.  Noinline, as a writer is large for a small stack. */
static SS_NOINLINE void put_mark(const ss_report *r, const stacksplice_frame *frame, ss_text source,
                                 unsigned indent)
{
    const char *word, *behind;
    ss_writer line;

    ss_writer_init(&line, refuse, NULL);
    ss_redact(source, STACKSPLICE_TEXT_SOURCE, r->failfast != NULL, &line, SS_ESCAPE_LINE);
    ss_writer_put(&line, "", 1);
    word = line.failed ? NULL : only_word(line.buffer, frame->calls);
    behind = word ? word + strlen(frame->calls) : NULL;
    if (!word || (frame->function && behind[strspn(behind, " ")] != '('))
        return;
    for (const char *at = line.buffer; at < word; at++)
        if (*at < ' ' || *at > '~') /* nobody knows how wide it is shown */
            return;
    put(r, "%i%c", indent + (unsigned)(word - line.buffer), "\033[1;31m");
    while (word++ < behind)
        put(r, "^");
    put(r, "}\n");
}

/* Whether there is a line; it has COLOR, or none if that is "". */
static bool put_source(const ss_report *r, const ss_shown_frame *shown, unsigned indent,
                       const char *color)
{
    const stacksplice_frame *frame = shown->frame;
    char line[SS_SOURCE_LINE_MAX];
    uint32_t column;
    ss_text text = ss_report_source(r, shown, line, &column);

    if (!text.length)
        return false;
    ss_writer_blanks(r->w, indent);
    ss_writer_text(r->w, color);
    ss_redact(text, STACKSPLICE_TEXT_SOURCE, r->failfast != NULL, r->w, SS_ESCAPE_LINE);
    ss_writer_text(r->w, *color ? COLOR_END "\n" : "\n");
    if (frame->calls && (r->color || !frame->function))
        put_mark(r, frame, text, indent);
    return true;
}

/* The frame and its source line; whether there is one.  In colour a library's lines are dim, so that the
   user's own are seen. */
static bool put_lines(const ss_report *r, const ss_shown_frame *shown,
                      const stacksplice_frame *caller, unsigned indent)
{
    const char *dim = r->color && stacksplice_frame_installed(shown->frame) ? "\033[2m" : "";
    ss_report painted = *r;

    painted.color = r->color && !*dim;
    ss_writer_blanks(r->w, indent);
    ss_writer_text(r->w, dim);
    put_frame(&painted, shown->frame, caller);
    ss_writer_text(r->w, *dim ? COLOR_END "\n" : "\n");
    return shown->frame->kind != STACKSPLICE_FRAME_GAP &&
           put_source(&painted, shown, is_last(r) ? indent + 2 : indent + 4, dim);
}

/* ---- What was written before ------------------------------------------------------------------*/

/* A frame, its options, the rules for secrets, and the state of its source file. */
enum { KEY = 8, FILE_STATE = 3 };

static ss_memo written;

/* Set what decides on the lines of SHOWN; false if there may be others next time. */
static bool key_of(const ss_report *r, const ss_shown_frame *shown, unsigned indent,
                   uint64_t key[KEY])
{
    const stacksplice_frame *frame = shown->frame;

    key[0] = shown->number;
    key[1] = (uint64_t)indent << 32 | ss_glue_added() << 8 | (uint64_t)is_last(r) << 4 |
             (uint64_t)(frame->interpreter != NULL) << 3 | (uint64_t)(r->source != NULL) << 2 |
             (uint64_t)r->all_frames << 1 | r->color;
    key[2] = ss_redaction_state();
    if (has_source_file(r, frame))
        return key[2] &&
               ss_source_state(r->source, frame->file, times_of(r, frame), key + FILE_STATE);
    memset(key + FILE_STATE, 0, (KEY - FILE_STATE) * sizeof *key);
    return key[2] && !frame->chunk; /* which may have to be told of */
}

/* The same as put_lines, which it calls where that was not done before. */
static void put_lines_again(const ss_report *r, const ss_shown_frame *shown,
                            const stacksplice_frame *caller, unsigned indent)
{
    ss_writer *w = r->w;
    uint64_t key[KEY];
    ss_memo_value value;
    uint32_t flushes;
    size_t begin;
    bool has_line;

    if (!shown->number || w->margin || (caller && caller->calls) ||
        !key_of(r, shown, indent, key)) {
        (void)put_lines(r, shown, caller, indent);
        return;
    }
    if (ss_memo_get(&written, key, KEY, &value)) {
        ss_writer_put(w, (const char *)value.text, value.length);
        return;
    }
    ss_writer_make_room(w);
    flushes = w->flushes;
    begin = w->used;
    has_line = put_lines(r, shown, caller, indent);
    /* A line that could not be read, of a file that can, may be there next time. */
    if ((has_line || !key[FILE_STATE]) && flushes == w->flushes && key[2] == ss_redaction_state())
        ss_memo_put(&written, key, KEY, 0, w->buffer + begin, w->used - begin);
}

/* Below the source line, where tracebacks of scripts have them if they show any. */
static void put_locals(const ss_report *r, const ss_shown_frame *shown, unsigned indent)
{
    for (uint32_t i = 0; i < shown->locals.count; i++) {
        const stacksplice_document_local *local = &shown->locals.all[i];

        put(r, "%i%m = ", indent, local->name);
        ss_redact_local(local->name, (ss_text){local->value.text, NULL, local->value.length},
                        r->failfast != NULL, r->w, SS_ESCAPE_LINE);
        put(r, "\n");
    }
}

/* Whether the file of SHOWN, of a living error, is no longer the one that ran. */
static bool is_refused(const ss_report *r, const ss_shown_frame *shown)
{
    return !shown->saved && !r->bare && r->source && shown->frame->file && !shown->frame->chunk &&
           ss_source_refuses(r->source, shown->frame->file,
                             ss_token_met_at((uintptr_t)shown->frame->address));
}

/* Whether the caller has written SHOWN in the look of its language. */
static bool put_own_look(const ss_report *r, const ss_shown_frame *shown)
{
    stacksplice_document_frame live;
    stacksplice_document_text text = {NULL, 0};

    if (!r->look || r->all_frames || shown->frame->kind != STACKSPLICE_FRAME_SCRIPT ||
        shown->frame->trust == STACKSPLICE_TRUST_INFERRED || !has_own_look(r, shown->frame) ||
        is_refused(r, shown))
        return false;
    live = (stacksplice_document_frame){.frame = *shown->frame, .glue = shown->glue};
    if (r->look(shown->saved ? shown->saved : &live, &text, r->look_data))
        return false;
    ss_writer_put(r->w, text.text, text.length);
    return true;
}

/*
 * Write one frame as one line of text, its source line where it can be read, and its variables.
 * CALLER is the next frame outward of a native one, or NULL: it may have another name for it.
 */
static void put_shown(const ss_report *r, const ss_shown_frame *shown,
                      const stacksplice_frame *caller, unsigned indent)
{
    unsigned below = is_last(r) ? indent + 2 : indent + 4;
    bool is_written = put_own_look(r, shown);

    if (!is_written)
        put_lines_again(r, shown, caller, indent);
    if (!is_written || !r->bare)
        put_locals(r, shown, below);
}

/* ---- One stack --------------------------------------------------------------------------------*/

/* An element of a stack, or a line about ROUNDS of elements that are left out. */
typedef struct part {
    uint32_t at;
    uint32_t frames; /* that are shown of it, or of one round */
    uint32_t rounds;
} part;

typedef struct printer {
    const ss_report *r;
    const ss_facts *facts; /* of the header, until that is written or there is none */
    ss_shown_stack stack;
    unsigned indent;
    uint64_t *unread; /* key_of_unread of the last one shown */
    bool lineless;    /* showed a native frame of a module without a file */
    bool replaced;    /* and its file is another one by now */
    ss_folds folds;

    /* Cycles: rounds of up to SS_REPORT_PERIOD_MAX elements. */
    uint32_t seen;                            /* elements that are shown or left out */
    uint64_t keys[SS_REPORT_PERIOD_MAX];      /* of the latest, number N at N % their count */
    uint32_t equal[SS_REPORT_PERIOD_MAX + 1]; /* how many in a row equal that of a period before */
    uint32_t period;                          /* of those that are left out now, or 0 */
    uint32_t left_out;                        /* how many are */
    part round[SS_REPORT_PERIOD_MAX];         /* the latest of them */

    /* Two ends of a stack. */
    uint32_t end_max; /* parts of either */
    uint32_t parts;
    uint32_t hidden; /* frames between them */
    part *last;      /* parts after the first end, number N at N % end_max */
} printer;

/* The first line, as scripts' tracebacks have it in their order. */
static void put_header(printer *p)
{
    const ss_facts *facts = p->facts;
    const ss_report *r = p->r;
    uint32_t members, left_out;

    p->facts = NULL;
    if (!facts)
        return;
    if (is_last(r) && ss_facts_group(facts, &members, &left_out))
        put(r, "Exception Group ");
    put(r, !is_last(r)     ? "Stack of thread "
           : r->all_frames ? "Traceback for thread "
                           : "Traceback");
    if (!is_last(r) || r->all_frames)
        put(r, "%u", facts->view.thread_id);
    if (facts->document && facts->document->place)
        put(r, " %m", facts->document->place);
    put(r, " (most recent call %s):\n", is_last(r) ? "last" : "first");
}

/* CALLER, the frame of a script outside of SHOWN, may have another name for it.
   Noinline, as what else has an element: it is large for a small stack. */
static SS_NOINLINE void print_called(const printer *p, uint32_t caller, const ss_shown_frame *shown)
{
    ss_element e;

    ss_element_begin(&e, p->r, &p->stack, caller, false);
    put_shown(p->r, shown, ss_element_at(&e, 0).frame, p->indent);
    ss_element_end(&e);
}

static bool is_shown(const printer *p, const ss_element *e, const ss_shown_frame *shown)
{
    return ss_report_shows(p->r, shown->frame, shown->glue || e->begin >= p->folds.start_up);
}

/* SHOWN is of the only state of its language here, whose number says nothing. */
static SS_NOINLINE void print_without_state(const printer *p, ss_shown_frame shown)
{
    stacksplice_frame frame = *shown.frame;

    frame.interpreter = NULL;
    shown.frame = &frame;
    put_shown(p->r, &shown, NULL, p->indent);
}

/* Of a gap at a native frame, which calls an interpreter that nobody reads; else 0. */
static uint64_t key_of_unread(const stacksplice_frame *frame)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    if (frame->kind != STACKSPLICE_FRAME_GAP || !frame->reason || ss_token_is(frame->address))
        return 0;
    for (const char *at = frame->reason; *at; at++)
        key = (key ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return key;
}

/* Several functions in a row may run the same interpreter: one line says that. */
static bool is_said(const printer *p, const stacksplice_frame *frame)
{
    uint64_t key = key_of_unread(frame), former = *p->unread;

    *p->unread = key;
    return key && key == former && !p->r->all_frames;
}

static void print_frames(const printer *p, const ss_element *e)
{
    const ss_shown_stack *stack = &p->stack;

    for (uint32_t i = 0; i < e->count; i++) {
        const ss_shown_frame shown = ss_element_at(e, is_last(p->r) ? e->count - 1 - i : i);

        if (!is_shown(p, e, &shown) || is_said(p, shown.frame))
            continue;
        if (shown.frame->kind == STACKSPLICE_FRAME_NATIVE && !shown.frame->inlined &&
            e->end < stack->count && (stack->frames || ss_token_is_script(stack->elements[e->end])))
            print_called(p, e->end, &shown);
        else if (shown.frame->interpreter && !p->r->all_frames &&
                 !(p->folds.states & ss_language_bit(shown.frame->language)))
            print_without_state(p, shown);
        else
            put_shown(p->r, &shown, NULL, p->indent);
    }
}

/* The shortest period in which an element with KEY goes on with rounds of which enough are shown, or 0. */
static uint32_t find_period(printer *p, uint64_t key)
{
    uint32_t known = p->seen < SS_REPORT_PERIOD_MAX ? p->seen : SS_REPORT_PERIOD_MAX, found = 0;

    for (uint32_t period = known; period; period--) {
        if (p->keys[(p->seen - period) % SS_REPORT_PERIOD_MAX] != key)
            p->equal[period] = 0;
        else if (++p->equal[period] > period * (SS_REPORT_ROUNDS_MAX - 1))
            found = period;
    }
    p->keys[p->seen++ % SS_REPORT_PERIOD_MAX] = key;
    return p->period && p->equal[p->period] ? p->period : found;
}

/* How many frames of E are shown. */
static uint32_t count_frames(const printer *p, const ss_element *e)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < e->count; i++) {
        const ss_shown_frame shown = ss_element_at(e, i);

        count += is_shown(p, e, &shown);
    }
    return count;
}

static SS_NOINLINE uint64_t count_fold(const printer *p, const ss_fold *fold)
{
    uint64_t count = 0;
    ss_element e = {.end = fold->begin};

    while (e.end < fold->end) {
        ss_element_begin(&e, p->r, &p->stack, e.end, true);
        if (ss_element_at(&e, 0).frame->kind != STACKSPLICE_FRAME_GAP)
            count += count_frames(p, &e);
        ss_element_end(&e);
    }
    return count;
}

static SS_NOINLINE void print_fold(const printer *p, const ss_fold *fold, uint64_t count)
{
    char text[SS_FOLD_TEXT_MAX];

    put(p->r, count == 1 ? "%i%c... %u frame of %s hidden}\n" : "%i%c... %u frames of %s hidden}\n",
        p->indent, SS_COLOR_ASIDE, count, ss_fold_text(&p->folds, fold, text));
}

static SS_NOINLINE void print_part(const printer *p, part one)
{
    const ss_fold *fold = one.rounds ? NULL : ss_fold_of(&p->folds, one.at);
    ss_element e;

    if (fold) {
        print_fold(p, fold, count_fold(p, fold));
        return;
    }
    if (!one.rounds) {
        ss_element_begin(&e, p->r, &p->stack, one.at, true);
        print_frames(p, &e);
        ss_element_end(&e);
        return;
    }
    put(p->r, one.frames == 1 ? "%i[Previous line" : "%i[Previous %u frames", p->indent,
        (uint64_t)one.frames);
    put(p->r, one.rounds == 1 ? " repeated %u more time]\n" : " repeated %u more times]\n",
        (uint64_t)one.rounds);
}

/* Write ONE, or keep it as long as it may be in the last end. */
static void add_part(printer *p, part one)
{
    if (p->parts < p->end_max) {
        print_part(p, one);
    } else {
        part *last = &p->last[p->parts % p->end_max];

        if (p->parts / p->end_max > 1)
            p->hidden += last->frames * (last->rounds ? last->rounds : 1);
        *last = one;
    }
    p->parts++;
}

/* Add how many rounds are left out, and what is left out of one that is not whole. */
static void end_cycle(printer *p)
{
    uint32_t whole = p->period ? p->left_out / p->period : 0;
    part rounds = {0, 0, whole};

    for (uint32_t i = 0; whole && i < p->period; i++)
        rounds.frames += p->round[i].frames;
    if (whole)
        add_part(p, rounds);
    for (uint32_t i = 0; i < p->left_out - whole * p->period; i++)
        add_part(p, p->round[i]);
    p->left_out = 0;
}

static void end_parts(printer *p)
{
    uint32_t last;

    end_cycle(p);
    if (p->hidden)
        put(p->r, "%i... %u more frames, left out on terminals\n", p->indent, (uint64_t)p->hidden);
    for (last = p->hidden ? p->parts - p->end_max : p->end_max; last < p->parts; last++)
        print_part(p, p->last[last % p->end_max]);
}

/* Equal for frames that tracebacks of their language take for a repetition, line by line. */
static uint64_t place_of(const stacksplice_frame *frame)
{
    const char *name = frame->function ? last_part(frame->function) : "";
    uint64_t hash = ss_hash_word(SS_HASH_START, frame->line);

    hash = ss_hash_bytes(hash, frame->file, strlen(frame->file));
    return ss_hash_bytes(hash, name, strlen(name));
}

/* Of a frame without an address, as brief reports have them: what they say of its place. */
static uint64_t told_place_of(const stacksplice_frame *frame)
{
    const char *const texts[] = {frame->language, frame->interpreter, frame->function,
                                 frame->file,     frame->module,      frame->reason};
    uint64_t hash = ss_hash_word(SS_HASH_START, frame->line);

    for (size_t i = 0; i < SS_COUNT_OF(texts); i++) {
        const char *text = texts[i] ? texts[i] : "";

        hash = ss_hash_bytes(hash, text, strlen(text) + 1);
    }
    return hash;
}

/* Note what is missing in the frames of E, and in COUNT how many are shown; returns what equal elements share. */
static uint64_t look_at(printer *p, const ss_element *e, uint32_t *count)
{
    uint64_t key = e->saved ? e->saved->frame.address : p->stack.elements[e->begin];

    for (uint32_t i = 0; i < e->count; i++) {
        const ss_shown_frame shown = ss_element_at(e, i);
        const stacksplice_frame *frame = shown.frame;
        bool is_seen = is_shown(p, e, &shown);

        if (frame->kind == STACKSPLICE_FRAME_SCRIPT && has_own_look(p->r, frame))
            key = place_of(frame);
        else if (!frame->address)
            key = ss_hash_word(key, told_place_of(frame));
        *count += is_seen;
        p->replaced |= !shown.glue && shown.replaced;
        p->lineless |= is_seen && !e->saved && !shown.glue &&
                       frame->kind == STACKSPLICE_FRAME_NATIVE && frame->module && !frame->file;
    }
    return key;
}

/* Find the cycle that the next part, of KEY, is in: *PERIOD.  Whether it is to be written at once. */
static bool is_next(printer *p, uint64_t key, uint32_t *period)
{
    put_header(p);
    *period = find_period(p, key);
    return !*period && !p->left_out && p->parts < p->end_max;
}

/*
 * Take the element that AT is in, which becomes the next one's.  It is written at once where nothing else
 * comes before it, as it is found already: then, and if none of it is shown, ONE has no frames.
 */
static SS_NOINLINE void take_element(printer *p, uint32_t *at, part *one, uint32_t *period)
{
    ss_element e;
    uint64_t key;

    ss_element_begin(&e, p->r, &p->stack, *at, true);
    *at = is_last(p->r) ? e.begin - 1 : e.end;
    *one = (part){.at = e.begin};
    key = look_at(p, &e, &one->frames);
    if (one->frames && is_next(p, key, period)) {
        print_frames(p, &e);
        p->parts++;
        one->frames = 0;
    }
    ss_element_end(&e);
}

static void take_fold(printer *p, const ss_fold *fold, uint32_t *at, part *one, uint32_t *period)
{
    *at = is_last(p->r) ? fold->begin - 1 : fold->end;
    *one = (part){fold->begin, 1, 0};
    (void)is_next(p, (uintptr_t)p->folds.names[fold->first] + fold->end - fold->begin, period);
}

/* Write or keep the element or the fold that AT is in; returns where the next one is. */
static uint32_t print_element(printer *p, uint32_t at)
{
    const ss_fold *fold = ss_fold_of(&p->folds, at);
    uint32_t period = 0;
    part one;

    if (fold)
        take_fold(p, fold, &at, &one, &period);
    else
        take_element(p, &at, &one, &period);
    if (!one.frames)
        return at;
    if (period != p->period)
        end_cycle(p);
    p->period = period;
    if (period)
        p->round[p->left_out++ % period] = one;
    else
        add_part(p, one);
    return at;
}

/* Say why something is missing; NULL: nothing is. */
static void put_missing(const printer *p, const char *what, const char *reason)
{
    if (reason)
        put(p->r, "%i... %s%s\n", p->indent, what, reason);
}

/* What is said once in a report: why files and lines are missing. */
static void put_refused(const printer *p)
{
    ss_source *source = p->r->source;
    const char *reason = source && !source->has_told ? source->why : NULL;

    if (p->replaced && !(source && source->has_told_of_binaries))
        put_missing(p, "no files and lines of C frames in binaries that were replaced on disk ",
                    "since they were loaded");
    put_missing(p, "", reason);
    if (!source)
        return;
    source->has_told_of_binaries |= p->replaced;
    source->has_told |= reason != NULL;
}

static void print_elements(printer *p)
{
    bool last = is_last(p->r);
    uint32_t count = p->stack.count;

    for (uint32_t at = last ? count - 1 : 0; at < count && !p->r->w->failed;)
        at = print_element(p, at);
    if (!p->facts)
        end_parts(p);
}

/* Noinline: the others need not its room on a small stack. */
static SS_NOINLINE void print_ends(printer *p)
{
    part last[SS_REPORT_END_MAX];

    p->last = last;
    p->end_max = is_last(p->r) ? SS_REPORT_END_MAX : SS_REPORT_END_MAX / 3;
    print_elements(p);
}

/* In the order of scripts' tracebacks only if a frame is shown, where HEADED. */
void ss_report_stack(const ss_report *r, const ss_facts *headed, ss_shown_stack stack,
                     unsigned indent)
{
    uint64_t unread = 0;
    printer p = {r,
                 headed,
                 stack,
                 indent,
                 .unread = &unread,
                 .folds = ss_report_folds(r, stack),
                 .end_max = UINT32_MAX};

    ss_report_dates(r, stack);
    if (!is_last(r))
        put_header(&p);
    if (r->shorten && !r->all_frames)
        print_ends(&p);
    else
        print_elements(&p);
    if (p.facts)
        return;
    if (r->all_frames && stack.hidden_left_out)
        put(r, "%i... %u more frames, which a brief report only counts\n", indent,
            (uint64_t)stack.hidden_left_out);
    if (p.lineless && !r->failfast) /* if the machine and not a binary is the reason */
        put_missing(&p, "no files and lines of C frames: ", stacksplice_lines_missing());
    put_refused(&p);
}

/* ---- What an error says -----------------------------------------------------------------------*/

/* Write further lines of an error's text so that none can pose as a line of the report. */
static void put_further_lines(const ss_report *r, ss_redacted *rest, const char *color)
{
    while (!ss_redacted_is_done(rest) && !r->w->failed) {
        put(r, ss_redacted_line_is_done(rest) ? "|%c" : "| %c", color);
        ss_redacted_line(rest, r->w, SS_ESCAPE_TABS);
        put(r, *color ? "}\n" : "\n");
    }
    ss_redacted_end(rest);
}

/* The type of an exception; NULL if there is none, or only that of a value that was thrown. */
static const char *exception_type(const ss_facts *facts)
{
    const stacksplice_glue *known = facts->type ? ss_glue_of(facts->language) : NULL;

    return known && ss_glue_matches(facts->type, known->values) ? NULL : facts->type;
}

/* "ValueError: bad amount 'x'" */
static void put_title(const ss_report *r, const ss_facts *facts)
{
    const char *type = exception_type(facts);
    ss_redacted rest;
    bool any;

    ss_redacted_begin(&rest, ss_facts_message(facts), STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    any = !ss_redacted_is_done(&rest);
    if (type)
        put(r, any ? "%c%m}: " : "%c%m}", SS_COLOR_TYPE, type);
    put(r, any || type ? "{" : "{error");
    if (any)
        ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
    put(r, "}\n");
    put_further_lines(r, &rest, "\033[35m");
}

/* "note: while loading rates.csv" */
static int put_note(const char *text, size_t length, void *data)
{
    const ss_report *r = data;
    ss_redacted rest;

    ss_redacted_begin(&rest, (ss_text){text, NULL, length}, STACKSPLICE_TEXT_MESSAGE,
                      r->failfast != NULL);
    put(r, "note: ");
    ss_redacted_line(&rest, r->w, SS_ESCAPE_TABS);
    put(r, "\n");
    put_further_lines(r, &rest, "");
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
static void put_hresult(const ss_report *r, const ss_facts *facts)
{
    const char *symbol = ss_hresult_symbol(facts->view.hresult);

    if (!is_told(r, facts))
        return;
    put(r, "HRESULT 0x");
    ss_writer_hex(r->w, (uint32_t)facts->view.hresult, 8);
    if (symbol)
        put(r, " %s", symbol);
    if (ss_facts_has_own_message(facts)) {
        put(r, ": ");
        ss_redact(ss_facts_description(facts), STACKSPLICE_TEXT_MESSAGE, r->failfast != NULL, r->w,
                  SS_ESCAPE_LINE);
    }
    put(r, "\n");
}

/* ---- Propagation -----------------------------------------------------------------------------*/

typedef struct nodes {
    const ss_report *r;
    uint64_t thread_id; /* of the error */
    uint32_t count;
} nodes;

/* Brief: one line, "1. NAME received it in convert (bridge.c:73)". */
static bool put_node(const char *receiver, uint64_t thread_id, ss_shown_stack stack, void *data)
{
    nodes *c = data;
    const ss_report *r = c->r;

    if (!c->count++)
        put(r, "Propagation:\n");
    put(r, "  %u. ", (uint64_t)c->count);
    put_language_name(r, receiver);
    put(r, " received it");
    if (!r->all_frames)
        ss_report_where(r, " in ", stack);
    if (r->all_frames || thread_id != c->thread_id)
        put(r, " on thread %u", thread_id);
    put(r, r->all_frames && stack.count ? " at:\n" : "\n");
    if (r->all_frames)
        ss_report_stack(r, NULL, stack, 8);
    return !r->w->failed;
}

static void put_nodes(const ss_report *r, const ss_facts *facts)
{
    nodes c = {r, facts->view.thread_id, 0};

    ss_facts_each_node(facts, put_node, &c);
}

/* ---- The error and its stack ------------------------------------------------------------------*/

void ss_report_bare(const ss_report *r, const ss_facts *facts)
{
    ss_locals locals;

    ss_report_stack(r, NULL, ss_report_stack_of(r, facts, &locals), 2);
    ss_locals_end(&locals);
    put_nodes(r, facts);
    put_hresult(r, facts);
}

static void put_title_and_notes(const ss_report *r, const ss_facts *facts)
{
    put_title(r, facts);
    ss_facts_each_note(facts, put_note, (void *)(uintptr_t)r);
    put_hresult(r, facts);
}

/* The error without causes and members. */
static void put_alone(const ss_report *r, const ss_facts *facts)
{
    ss_locals locals;

    if (!is_last(r))
        put_title_and_notes(r, facts);
    if (ss_facts_stack(facts).count || ss_facts_stack(facts).hidden_left_out) {
        ss_report_stack(r, facts, ss_report_stack_of(r, facts, &locals), is_last(r) ? 2 : 4);
        ss_locals_end(&locals);
    }
    put_nodes(r, facts);
    if (is_last(r))
        put_title_and_notes(r, facts);
}

/* ---- An error with all that belongs to it -----------------------------------------------------*/

typedef struct report_text {
    const ss_report *r;
    uint32_t depth; /* of the margin: number of enclosing groups */
    bool closed;    /* the last line closes a group */
    ss_seen seen;
} report_text;

static void put_error_and_causes(report_text *s, const ss_facts *facts);

/* Begin a line with the rules of a group, which stand left of the margin. */
static void begin_rule(const report_text *s)
{
    ss_writer_margin(s->r->w, 0, '|');
    put(s->r, "%i", 2 * s->depth);
}

/* One line for what is not shown. */
static void put_rest(const report_text *s, uint32_t count)
{
    put(s->r, "and %u more error%s\n", (uint64_t)count, count == 1 ? "" : "s");
}

static void put_member(report_text *s, const ss_facts *group, uint32_t index)
{
    ss_facts facts;

    if (!ss_facts_get_member(group, index, &facts))
        put(s->r, "an unreadable error\n");
    else if (ss_seen_has(&s->seen, &facts))
        put(s->r, is_last(s->r) ? "an error of this report\n" : "an error above\n");
    else
        put_error_and_causes(s, &facts);
    ss_facts_release(&facts);
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
        begin_rule(s);
        put(s->r, i ? "  +---------------- " : "+-+---------------- ");
        put(s->r, i < shown ? "%u ----------------\n" : "... ----------------\n", (uint64_t)i + 1);
        s->closed = false;
        ss_writer_margin(w, ++s->depth, '|');
        if (i < shown)
            put_member(s, group, i);
        else
            put_rest(s, rest);
        s->depth--;
    }
    if (!s->closed) { /* one line closes every group of which this is the last member */
        begin_rule(s);
        put(s->r, "  +------------------------------------\n");
    }
    s->closed = true;
    ss_writer_margin(w, s->depth, '|');
}

static void put_error(report_text *s, const ss_facts *facts)
{
    bool is_outermost = s->depth == 0;
    uint32_t members, left_out;

    s->closed = false;
    if (!ss_facts_group(facts, &members, &left_out) || members + left_out == 0) {
        put_alone(s->r, facts);
        return;
    }
    if (is_outermost)
        ss_writer_margin(s->r->w, ++s->depth, '+');
    put_alone(s->r, facts);
    put_members(s, facts, members, left_out);
    if (is_outermost)
        ss_writer_margin(s->r->w, --s->depth, '|');
}

/* ---- Causes ----------------------------------------------------------------------------------*/

/* The errors that one was made from, latest first, each once. */
typedef struct chain {
    ss_subject errors[SS_REPORT_CAUSES_MAX];
    stacksplice_relation relations[SS_REPORT_CAUSES_MAX + 1]; /* to the error before it */
    uint32_t count;
    const char *end; /* what follows them, with the last relation; or NULL */
} chain;

static const char above[] = " an error above.\n", more[] = " more errors that are not shown.\n";

static void end_chain(chain *c, const char *end)
{
    c->end = end;
    if (end == more)
        c->relations[c->count] = STACKSPLICE_RELATION_CAUSE;
}

static void find_causes(report_text *s, const ss_facts *facts, chain *c)
{
    ss_subject at = {facts->error, facts->document}, next = ss_facts_previous(facts);
    uint32_t left_out = facts->view.causes_left_out;
    ss_facts cause;

    c->count = 0;
    c->end = NULL;
    c->relations[0] = facts->view.relation;
    while (!c->end && ss_facts_of(next, &cause)) {
        if (ss_seen_has(&s->seen, &cause)) {
            end_chain(c, above);
        } else if (c->count == SS_REPORT_CAUSES_MAX || !ss_seen_add(&s->seen, &cause)) {
            end_chain(c, more);
        } else {
            at = c->errors[c->count++] = next;
            c->relations[c->count] = cause.view.relation;
            left_out = cause.view.causes_left_out;
            next = ss_facts_previous(&cause);
        }
        ss_facts_release(&cause);
    }
    if (!c->end && at.document && at.document->cause_above)
        end_chain(c, above);
    else if (!c->end && left_out && ss_facts_has_chain(facts))
        end_chain(c, more);
}

/* How the error at INDEX, or the end, relates to the one before. */
static const char *words_of(const chain *c, uint32_t index)
{
    return c->relations[index] == STACKSPLICE_RELATION_CONTEXT ? "Raised while handling"
                                                               : "Caused by";
}

static void put_cause(report_text *s, ss_subject subject)
{
    ss_facts cause;

    if (ss_facts_of(subject, &cause))
        put_error(s, &cause);
    ss_facts_release(&cause);
}

static void put_causes_below(report_text *s, const chain *c)
{
    for (uint32_t i = 0; i < c->count && !s->r->w->failed; i++) {
        put(s->r, "\n%s:\n", words_of(c, i));
        put_cause(s, c->errors[i]);
    }
    if (!c->end)
        return;
    s->closed = false;
    put(s->r, "\n%s%s", words_of(c, c->count), c->end);
}

/* The oldest first, in the words of scripts' tracebacks. */
static void put_causes_above(report_text *s, const chain *c)
{
    if (c->end)
        put(s->r, "%s%s\n", words_of(c, c->count), c->end);
    for (uint32_t i = c->count; i-- && !s->r->w->failed;) {
        put_cause(s, c->errors[i]);
        put(s->r,
            c->relations[i] == STACKSPLICE_RELATION_CONTEXT
                ? "\nDuring handling of the above exception, another exception occurred:\n\n"
                : "\nThe above exception was the direct cause of the following exception:\n\n");
    }
}

static void put_error_and_causes(report_text *s, const ss_facts *facts)
{
    chain c;

    (void)ss_seen_add(&s->seen, facts);
    if (is_last(s->r)) {
        find_causes(s, facts, &c);
        put_causes_above(s, &c);
    }
    put_error(s, facts);
    if (!is_last(s->r)) {
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
