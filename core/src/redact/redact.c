/*
 * Texts without their secrets, and which rules are in force.  One pass, in time proportional to the
 * length: scan.h.
 */
#include "redact/scan.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>

/* ---- The rules of this process ----------------------------------------------------------------*/

static const ss_rules usual = {.rules = STACKSPLICE_REDACT_DEFAULT};

/* Rules that were replaced while somebody read them. */
typedef struct replaced {
    ss_rules rules; /* first: what CURRENT points to */
    struct replaced *next;
} replaced;

SS_LOCK(lock);
static replaced *old;                     /* (LOCK lock) */
static _Atomic(const ss_rules *) current; /* NULL: the usual ones */
static atomic_uint readers;
static atomic_uint numbers;       /* (ATOMIC) of rules that were set */
static _Atomic uint64_t turn = 2; /* (ATOMIC) odd while they are being replaced */

/* For readers of the rules: they stay as they are in between.  Never waits.  Signal safe. */
static const ss_rules *rules_enter(void)
{
    const ss_rules *rules;

    atomic_fetch_add(&readers, 1);
    rules = atomic_load(&current);
    return rules ? rules : &usual;
}

static void rules_leave(void)
{
    atomic_fetch_sub(&readers, 1);
}

uint64_t ss_redaction_state(void)
{
    uint64_t now = atomic_load(&turn);
    bool is_known = now % 2 == 0 && !rules_enter()->hook;

    if (now % 2 == 0)
        rules_leave();
    return is_known ? now : 0;
}

/* Copy NAME in lower case without '_' and '-'; false if it is none. */
static bool copy_name(const char *name, char to[STACKSPLICE_REDACT_NAME_MAX + 1])
{
    size_t length = 0;

    for (; name && *name; name++) {
        uint32_t c = ss_lower((unsigned char)*name);

        if (c == '_' || c == '-')
            continue;
        if (!ss_is_alnum(c) || length == STACKSPLICE_REDACT_NAME_MAX)
            return false;
        to[length++] = (char)c;
    }
    to[length] = 0;
    return length != 0;
}

static bool copy(const stacksplice_redaction *from, ss_rules *to)
{
    const uint32_t all = STACKSPLICE_REDACT_DEFAULT | STACKSPLICE_REDACT_EMAILS;

    if (from->size != sizeof *from || from->rules & ~all ||
        from->name_count > STACKSPLICE_REDACT_NAMES_MAX || (from->name_count && !from->names))
        return false;
    to->rules = from->rules;
    to->number = atomic_fetch_add(&numbers, 1) + 1; /* 0: of the usual ones */
    to->hook = from->hook;
    to->hook_data = from->hook_data;
    for (; to->name_count < from->name_count; to->name_count++) {
        if (!copy_name(from->names[to->name_count], to->names[to->name_count]))
            return false;
    }
    return true;
}

/* Make NEXT, or NULL for the usual ones, the rules; free what nobody reads any more. */
static bool replace(replaced *next)
{
    replaced *before, *unused = NULL;

    if (!ss_lock_take(&lock))
        return false;
    atomic_fetch_add(&turn, 1);
    before = (replaced *)(uintptr_t)atomic_exchange(&current, next ? &next->rules : NULL);
    atomic_fetch_add(&turn, 1);
    if (before) {
        before->next = old;
        old = before;
    }
    if (!atomic_load(&readers)) { /* whoever comes later reads the new ones */
        unused = old;
        old = NULL;
    }
    ss_lock_drop(&lock);
    while (unused) {
        before = unused->next;
        ss_free(unused);
        unused = before;
    }
    return true;
}

stacksplice_hresult stacksplice_set_redaction(const stacksplice_redaction *redaction)
{
    replaced *made = NULL;

    if (redaction) {
        made = ss_alloc(1, sizeof *made);
        if (!made)
            return E_OUTOFMEMORY;
        if (!copy(redaction, &made->rules)) {
            ss_free(made);
            return E_INVALIDARG;
        }
    }
    if (replace(made))
        return S_OK;
    ss_free(made);
    return E_UNEXPECTED;
}

const char *stacksplice_redact_name(const char *name)
{
    ss_text text = {name ? name : "", NULL, name ? strlen(name) : 0};
    const ss_rules *rules = rules_enter();
    const ss_secret_name *found = rules->rules & STACKSPLICE_REDACT_NAMED
                                      ? ss_secret_name_of(rules, &text, 0, text.length)
                                      : NULL;

    rules_leave();
    return found && !found->of_text ? found->kind : NULL;
}

/* ---- From one secret to the next --------------------------------------------------------------*/

/* Note where commands end and, in source, where literals begin and end. */
static void pass(ss_scan *s, uint32_t c)
{
    s->at++;
    if (c == '\n') {
        s->command = NULL;
        s->in_quote = 0;
    }
    if (!s->is_source)
        return;
    if (s->in_quote && c == '\\')
        s->at++;
    else if (s->in_quote)
        s->in_quote = c == s->in_quote ? 0 : s->in_quote;
    else if (ss_is_quote(c))
        s->in_quote = c;
}

/* Whether a secret begins at the current place, or, an e-mail address, is around it. */
static bool find(ss_scan *s, uint32_t c, ss_secret *secret)
{
    uint32_t rules = s->rules->rules, before = s->at > s->done ? ss_scan_at(s, s->at - 1) : 0;

    if (c == ':')
        return (rules & STACKSPLICE_REDACT_URLS && ss_scan_url(s, s->at, secret)) ||
               (rules & STACKSPLICE_REDACT_TOKENS && ss_scan_bot(s, s->at, secret));
    if (c == '@')
        return (rules & STACKSPLICE_REDACT_URLS && ss_scan_source_name(s, s->at, secret)) ||
               (rules & STACKSPLICE_REDACT_EMAILS && ss_scan_email(s, s->at, secret));
    if (c == '$' && rules & STACKSPLICE_REDACT_TOKENS && !ss_is_alnum(before))
        return ss_scan_token(s, s->at, secret);
    if (c == '-' && rules & STACKSPLICE_REDACT_TOKENS && ss_scan_private_key(s, s->at, secret))
        return true;
    if (!ss_is_of_name(c))
        return false;
    if (rules & STACKSPLICE_REDACT_TOKENS && !ss_is_alnum(before) && c != '-' && c != '_' &&
        ss_scan_token(s, s->at, secret))
        return true;
    if (!(rules & STACKSPLICE_REDACT_NAMED) || ss_is_of_name(before))
        return false;
    ss_note_command(s, s->at);
    return (c == '-' && s->command && ss_scan_option(s, s->at, secret)) ||
           ss_scan_named(s, s->at, secret);
}

/* Past the rest of a word, in which nothing begins. */
static void pass_word(ss_scan *s)
{
    while (ss_is_alnum(ss_scan_at(s, s->at)))
        s->at++;
}

/* There is none from here on. */
static void end_of_secrets(ss_redacted *r)
{
    r->next = (ss_secret){r->scan.text.length, r->scan.text.length, NULL, 0};
}

/* Find the next secret, or the end, and no kind. */
static void find_next(ss_redacted *r)
{
    ss_scan *s = &r->scan;

    while (s->rules && s->at < s->text.length) {
        uint32_t c = ss_scan_at(s, s->at);

        r->next.quote = s->in_quote;
        if (find(s, c, &r->next)) {
            s->at = s->done = r->next.end;
            s->in_quote = s->is_source ? r->next.quote : 0;
            return;
        }
        pass(s, c);
        if (ss_is_alnum(c))
            pass_word(s);
    }
    end_of_secrets(r);
}

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
    const ss_rules *rules = rules_enter();
    bool is_plain;

    *r = (ss_redacted){.scan = {.text = text,
                                .rules = rules->rules ? rules : NULL,
                                .is_source = kind == STACKSPLICE_TEXT_SOURCE}};
    if (!failfast && ss_clean_has(r->scan.rules, &text, kind, &is_plain)) {
        end_of_secrets(r);
    } else {
        find_next(r);
        if (!failfast && !r->next.kind)
            ss_clean_add(r->scan.rules, &text, kind);
    }
    if (rules->hook && !failfast && text.length)
        call_hook(r, rules, kind);
}

void ss_redacted_end(ss_redacted *r)
{
    ss_free(r->made);
    rules_leave();
}

/* Most texts of a report: they were in one before. */
static bool is_written_plain(ss_text text, stacksplice_text_kind kind, ss_writer *w,
                             ss_escape escape)
{
    const ss_rules *rules = rules_enter();
    bool is_plain = false;

    if (!rules->hook && escape != SS_ESCAPE_JSON && ss_clean_has(rules, &text, kind, &is_plain) &&
        is_plain)
        ss_writer_put(w, text.utf8, text.length);
    rules_leave();
    return is_plain;
}

void ss_redact(ss_text text, stacksplice_text_kind kind, bool failfast, ss_writer *w,
               ss_escape escape)
{
    ss_redacted r;

    if (!failfast && is_written_plain(text, kind, w, escape))
        return;
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
    ss_writer_init(&w, write, data);
    if (is_written_plain((ss_text){text, NULL, length}, kind, &w, SS_ESCAPE_NOTHING))
        return ss_writer_finish(&w) ? S_OK : S_FALSE;
    ss_redacted_begin(&r, (ss_text){text, NULL, length}, kind, !with_hook);
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
