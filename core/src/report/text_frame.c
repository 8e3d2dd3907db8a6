/* One frame as text, in pystack's grammar. */
#include "report/color.h"

#include "resolve/glue.h"
#include "splice/hash.h"

#include <stacksplice/read.h>

#include <string.h>

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

bool ss_report_has_own_look(const ss_report *r, const stacksplice_frame *frame)
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
            memcpy(brief + length, "<...>", 5);
            length += 5;
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

uint64_t ss_report_place(const stacksplice_frame *frame)
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
    const stacksplice_told_text *told = shown->told ? &shown->told->source : NULL;
    const char *text = told ? told->text : line;
    size_t length = told ? told->length : ss_report_source(r, shown->frame, line, &column);

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
    return !shown->told && !r->bare && r->source && shown->frame->file && !shown->frame->chunk &&
           ss_source_refuses(r->source, shown->frame->file);
}

/* Whether the caller has written SHOWN in the look of its language. */
static bool put_own_look(const ss_report *r, const ss_shown_frame *shown)
{
    const stacksplice_told_frame live = {.frame = *shown->frame, .glue = shown->glue};
    stacksplice_told_text text = {NULL, 0};

    if (!r->look || r->all_frames || shown->frame->kind != STACKSPLICE_FRAME_SCRIPT ||
        shown->frame->trust == STACKSPLICE_TRUST_INFERRED ||
        !ss_report_has_own_look(r, shown->frame) || is_refused(r, shown))
        return false;
    if (r->look(shown->told ? shown->told : &live, &text, r->look_data))
        return false;
    ss_writer_put(r->w, text.text, text.length);
    return true;
}

/* Below the source line, where tracebacks of scripts have them if they show any. */
static void put_locals(const ss_report *r, const ss_shown_frame *shown, unsigned indent)
{
    for (uint32_t i = 0; i < shown->locals.count; i++) {
        const stacksplice_told_local *local = &shown->locals.all[i];

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

void ss_report_frame(const ss_report *r, const ss_shown_frame *shown,
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
