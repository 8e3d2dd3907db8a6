#include "redact/redact.h"

#include "base/alloc.h"

#include <string.h>

/* ---- Writing ---------------------------------------------------------------------------------*/

void ss_text_write(ss_text text, ss_writer *w, ss_escape escape)
{
    if (text.utf8 && escape == SS_ESCAPE_NOTHING)
        ss_writer_put(w, text.utf8, text.length); /* also what is not UTF-8 */
    else if (text.utf8)
        ss_writer_utf8(w, text.utf8, text.length, escape);
    else
        ss_writer_utf16(w, text.utf16, text.length, escape);
}

static ss_text part(const ss_text *text, size_t begin, size_t end)
{
    return (ss_text){text->utf8 ? text->utf8 + begin : NULL,
                     text->utf8 ? NULL : text->utf16 + begin, end - begin};
}

static void find_next(ss_redacted *r)
{
    if (!r->scan.rules || !ss_scan_next(&r->scan, &r->next))
        r->next = (ss_secret){r->scan.text.length, r->scan.text.length, NULL};
}

static void put_marker(ss_writer *w, const char *kind)
{
    ss_writer_text(w, "[redacted: ");
    ss_writer_text(w, kind);
    ss_writer_text(w, "]");
}

bool ss_redacted_is_done(const ss_redacted *r)
{
    return r->at >= r->scan.text.length;
}

bool ss_redacted_line_is_done(const ss_redacted *r)
{
    return ss_redacted_is_done(r) || (r->at < r->next.begin && ss_scan_at(&r->scan, r->at) == '\n');
}

/* Write up to END, which is not behind the next secret, or up to that and its marker. */
static void write_part(ss_redacted *r, size_t end, ss_writer *w, ss_escape escape)
{
    ss_text_write(part(&r->scan.text, r->at, end), w, escape);
    r->at = end;
    if (end != r->next.begin || !r->next.kind)
        return;
    put_marker(w, r->next.kind);
    r->at = r->next.end;
    find_next(r);
}

void ss_redacted_line(ss_redacted *r, ss_writer *w, ss_escape escape)
{
    while (!ss_redacted_line_is_done(r)) {
        size_t end = r->at;

        while (end < r->next.begin && ss_scan_at(&r->scan, end) != '\n')
            end++;
        write_part(r, end, w, escape);
    }
    r->at++;
}

static void write_rest(ss_redacted *r, ss_writer *w, ss_escape escape)
{
    while (!ss_redacted_is_done(r) && !w->failed)
        write_part(r, r->next.begin, w, escape);
}

/* ---- The hook --------------------------------------------------------------------------------*/

typedef struct buffer {
    char *bytes; /* owned */
    size_t length, capacity;
} buffer;

static int append(const char *bytes, size_t length, void *data)
{
    buffer *b = data;

    if (length > b->capacity - b->length) {
        size_t capacity = (b->length + length) * 2 + 64;
        char *grown = ss_realloc(b->bytes, capacity, 1);

        if (!grown)
            return 1;
        b->bytes = grown;
        b->capacity = capacity;
    }
    if (length)
        memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    return 0;
}

/* Have the hook write the text anew. */
static void call_hook(ss_redacted *r, const ss_rules *rules, stacksplice_text_kind kind)
{
    static const char failed[] = "[redacted: hook failed]";
    buffer left = {NULL, 0, 0}, made = {NULL, 0, 0};
    ss_writer w;
    bool is_made;

    ss_writer_init(&w, append, &left);
    write_rest(r, &w, SS_ESCAPE_NOTHING);
    is_made = ss_writer_finish(&w) && !rules->hook(left.bytes ? left.bytes : "", left.length, kind,
                                                   append, &made, rules->hook_data);
    ss_free(left.bytes);
    r->made = made.bytes;
    r->scan.rules = NULL;
    r->scan.text = is_made ? (ss_text){made.bytes ? made.bytes : "", NULL, made.length}
                           : (ss_text){failed, NULL, sizeof failed - 1};
    r->at = 0;
    find_next(r);
}

/* ---- A text ----------------------------------------------------------------------------------*/

void ss_redacted_begin(ss_redacted *r, ss_text text, stacksplice_text_kind kind, bool failfast)
{
    const ss_rules *rules = ss_rules_enter();

    *r = (ss_redacted){.scan = {.text = text,
                                .rules = rules->rules ? rules : NULL,
                                .is_source = kind == STACKSPLICE_TEXT_SOURCE}};
    find_next(r);
    if (rules->hook && !failfast && text.length)
        call_hook(r, rules, kind);
}

void ss_redacted_end(ss_redacted *r)
{
    ss_free(r->made);
    ss_rules_leave();
}

void ss_redact(ss_text text, stacksplice_text_kind kind, bool failfast, ss_writer *w,
               ss_escape escape)
{
    ss_redacted r;

    ss_redacted_begin(&r, text, kind, failfast);
    write_rest(&r, w, escape);
    ss_redacted_end(&r);
}

/* What a saved report has removed already stays. */
void ss_redact_local(const char *name, ss_text value, bool failfast, ss_writer *w, ss_escape escape)
{
    static const char removed[] = "[redacted: ";
    const char *secret = stacksplice_redact_name(name);

    if (!secret || (value.utf8 && value.length >= sizeof removed - 1 &&
                    !memcmp(value.utf8, removed, sizeof removed - 1)))
        ss_redact(value, STACKSPLICE_TEXT_LOCAL, failfast, w, escape);
    else
        put_marker(w, secret);
}

static stacksplice_hresult redact(const char *text, size_t length, stacksplice_text_kind kind,
                                  bool with_hook, stacksplice_write_callback write, void *data)
{
    ss_redacted r;
    ss_writer w;

    if (!text || !write)
        return E_POINTER;
    if (kind < STACKSPLICE_TEXT_MESSAGE || kind > STACKSPLICE_TEXT_LOCAL)
        return E_INVALIDARG;
    ss_redacted_begin(&r, (ss_text){text, NULL, length}, kind, !with_hook);
    ss_writer_init(&w, write, data);
    write_rest(&r, &w, SS_ESCAPE_NOTHING);
    ss_redacted_end(&r);
    return ss_writer_finish(&w) ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_redact(const char *text, size_t length, stacksplice_text_kind kind,
                                       stacksplice_write_callback write, void *data)
{
    return redact(text, length, kind, true, write, data);
}

stacksplice_hresult stacksplice_redact_by_rules(const char *text, size_t length,
                                                stacksplice_text_kind kind,
                                                stacksplice_write_callback write, void *data)
{
    return redact(text, length, kind, false, write, data);
}
