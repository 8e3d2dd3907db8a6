/*
 * Storms: stacksplice/dedup.h.
 *
 * An entry counts one fingerprint in one window.  Its state is one word, generation and count, so
 * that counting is one exchange that fails if the entry has become another's: nothing is counted for
 * the wrong fingerprint, and nothing twice.  What is rare (a new window, what a flush takes) is done
 * by whoever holds the table; whoever cannot have it treats its error as new and never waits.
 */
#include "report/report.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "base/utf.h"
#include "splice/unloaded.h"

#include <stacksplice/dedup.h>
#include <stdatomic.h>

enum {
    MESSAGE_SIZE = 256,
    TYPE_SIZE = 64,
    LINE_SIZE = 4096, /* each byte of a text takes six at most, as \u0000 */
    SHORTCUTS_EACH = 4,
    WAITS = 2000 /* of half a millisecond */
};

#define TIMED_OUT ((HRESULT)0x800705B4)

/* What is told of an entry; copied out before it is written. */
typedef struct counted {
    char fingerprint[33], loose[33], type[TYPE_SIZE];
    HRESULT hresult;
    int64_t first, last; /* 0: unknown */
    bool has_message;
    uint32_t length;
    char message[MESSAGE_SIZE];
} counted;

typedef struct entry {
    _Atomic uint64_t state; /* generation, odd while the entry is open, and count in the low half */
    _Atomic int64_t ends;   /* (LOCK) to write: the end of the window, by ss_now */
    int64_t opened;         /* (LOCK) when the error that was new was made */
    _Atomic uint32_t busy;  /* a thread writes the rest; nobody waits for it */
    counted is;             /* fingerprints, type and HRESULT: (LOCK); the rest: (BUSY) */
} entry;

/*
 * From the addresses of a stack to an entry and its generation.  The keys are stored with the
 * reference added to them: of two threads' writes that were mixed none is found.
 */
typedef struct shortcut {
    _Atomic uint64_t a, b, reference;
} shortcut;

struct stacksplice_dedup {
    _Atomic uint32_t forks;  /* what `forks` was when it was last cleared */
    _Atomic uint32_t holder; /* 0, or 1 + the `forks` of the process that holds it */
    uint32_t count, shortcut_count;
    int64_t window; /* in nanoseconds */
    entry *entries;
    shortcut *shortcuts;
};

_Static_assert(sizeof(struct stacksplice_dedup) <= 128, "dedup.h says so");
_Static_assert(sizeof(entry) + SHORTCUTS_EACH * sizeof(shortcut) <= 640, "dedup.h says so");

static _Atomic uint32_t forks;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static __attribute__((constructor)) void begin(void)
{
    static ss_fork_hook hook = {.child = count_fork};

    ss_fork_child(&hook);
}

HRESULT stacksplice_dedup_new(const stacksplice_dedup_options *options, stacksplice_dedup **out)
{
    stacksplice_dedup *made;
    uint32_t entries = 0, window = 0;

    if (!out)
        return E_POINTER;
    if (options) {
        if (options->size != sizeof *options || options->entries > STACKSPLICE_DEDUP_ENTRIES_MAX)
            return E_INVALIDARG;
        entries = options->entries;
        window = options->window;
    }
    entries = entries ? entries : STACKSPLICE_DEDUP_ENTRIES;
    made =
        ss_alloc(1, sizeof *made + entries * (sizeof(entry) + SHORTCUTS_EACH * sizeof(shortcut)));
    if (!made)
        return E_OUTOFMEMORY;
    made->count = entries;
    made->shortcut_count = entries * SHORTCUTS_EACH;
    made->window = (int64_t)(window ? window : STACKSPLICE_DEDUP_WINDOW) * 1000000;
    made->entries = (entry *)(void *)(made + 1);
    made->shortcuts = (shortcut *)(void *)(made->entries + entries);
    atomic_init(&made->forks, atomic_load(&forks));
    *out = made;
    return S_OK;
}

void stacksplice_dedup_free(stacksplice_dedup *dedup)
{
    ss_free(dedup);
}

/* ---- Who may change entries ------------------------------------------------------------------*/

/* A thread of the parent may have held it at the fork: such a holder is not here. */
static bool try_hold(stacksplice_dedup *dedup)
{
    uint32_t mine = atomic_load(&forks) + 1, holder = atomic_load(&dedup->holder);

    return holder != mine && atomic_compare_exchange_strong(&dedup->holder, &holder, mine);
}

static void let_go(stacksplice_dedup *dedup)
{
    atomic_store(&dedup->holder, 0);
}

/* What the parent counted is the parent's. */
static void forget_parent(stacksplice_dedup *dedup)
{
    uint32_t now = atomic_load(&forks);

    if (atomic_load(&dedup->forks) == now)
        return;
    for (uint32_t i = 0; i < dedup->count; i++) {
        entry *e = &dedup->entries[i];
        uint64_t generation = atomic_load(&e->state) >> 32;

        atomic_store(&e->state, ((generation + 1) & ~UINT64_C(1)) << 32);
        atomic_store(&e->busy, 0);
    }
    atomic_store(&dedup->forks, now);
}

static bool is_open(uint64_t state)
{
    return state >> 32 & 1;
}

static bool try_write(entry *e)
{
    return !atomic_exchange_explicit(&e->busy, 1, memory_order_acquire);
}

static void end_write(entry *e)
{
    atomic_store_explicit(&e->busy, 0, memory_order_release);
}

/* ---- The message -----------------------------------------------------------------------------*/

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Nothing of a word that was cut: it may be a secret that is known only as a whole. */
static uint32_t without_cut_word(const char *text, uint32_t length)
{
    while (length && !is_blank(text[length - 1]))
        length--;
    while (length && is_blank(text[length - 1]))
        length--;
    return length;
}

/* TEXT, with a NUL, behind what is kept. */
static SS_NOINLINE void keep_rest(counted *is, const WCHAR *text)
{
    size_t length = 0, at = 0;
    char one[4];

    while (length < MESSAGE_SIZE && text[length])
        length++;
    while (at < length) {
        size_t size = ss_utf8_put(ss_utf16_next(text, length, &at), one);

        if (is->length + size >= MESSAGE_SIZE) {
            is->length = without_cut_word(is->message, is->length);
            return;
        }
        memcpy(is->message + is->length, one, size);
        is->length += (uint32_t)size;
    }
}

static void keep_message(counted *is, const ss_error_view *view)
{
    size_t length = 0, at = 0;
    const char *utf8 =
        view->exception ? view->exception->lpVtbl->GetMessage(view->exception, &length) : NULL;

    is->length = 0;
    if (utf8) {
        is->length = (uint32_t)(length < MESSAGE_SIZE ? length : MESSAGE_SIZE - 1);
        memcpy(is->message, utf8, is->length);
        if (length >= MESSAGE_SIZE)
            is->length = without_cut_word(is->message, is->length);
    } else if (view->message) {
        for (; at < MESSAGE_SIZE - 1 && view->message[at] && view->message[at] < 0x80; at++)
            is->message[at] = (char)view->message[at];
        is->length = (uint32_t)at;
        if (view->message[at])
            keep_rest(is, view->message + at);
        while (is->length && is_blank(is->message[is->length - 1]))
            is->length--; /* as reports: the texts of HRESULTs end with a line */
    }
    is->has_message = true;
}

/* ---- Counting --------------------------------------------------------------------------------*/

static void note(entry *e, uint64_t generation, const ss_error_view *view)
{
    if (!try_write(e))
        return;
    if (atomic_load(&e->state) >> 32 == generation) {
        e->is.last = view->taken_at;
        if (!e->is.first)
            e->is.first = view->taken_at;
        keep_message(&e->is, view);
    }
    end_write(e);
}

static bool count_in(stacksplice_dedup *dedup, uint64_t reference, const ss_error_view *view,
                     int64_t now)
{
    entry *e = &dedup->entries[(uint32_t)reference];
    uint64_t generation = reference >> 32, state = atomic_load(&e->state);

    do {
        if (state >> 32 != generation || (uint32_t)state == UINT32_MAX ||
            now >= atomic_load_explicit(&e->ends, memory_order_relaxed))
            return false;
    } while (!atomic_compare_exchange_weak(&e->state, &state, state + 1));
    note(e, generation, view);
    return true;
}

/* Two hashes of all that decides the fingerprint within this process, and of the loaded code. */
typedef struct key {
    uint64_t a, b;
} key;

static key key_of(const ss_error_view *view, const char *type)
{
    const uintptr_t *frames = view->captured ? view->captured : view->frames;
    uint32_t count = view->captured ? view->captured_count : view->frame_count;
    key k = {ss_hash_word(SS_HASH_START, ss_code_epoch()), ~SS_HASH_START};

    for (uint32_t i = 0; i < count; i++) {
        k.a = ss_hash_word(k.a, frames[i]);
        k.b = k.b * UINT64_C(0xD6E8FEB86659FD93) + frames[i];
    }
    k.a = ss_hash_word(k.a, (uint32_t)view->hresult);
    k.b = ss_hash_word(k.b, (uint64_t)count << 32 | (uint32_t)view->hresult);
    if (type) {
        size_t length = strlen(type);

        k.a = ss_hash_bytes(k.a, type, length);
        k.b = ss_hash_bytes(k.b, type, length);
    }
    return k;
}

static void open_entry(stacksplice_dedup *dedup, entry *e, const counted *is,
                       const ss_error_view *view, int64_t now, uint64_t generation)
{
    e->is = *is;
    e->opened = view->taken_at;
    atomic_store(&e->ends, now + dedup->window);
    end_write(e);
    atomic_store(&e->state, generation << 32);
}

/* Make E nobody's, and let this thread write it; false if it has counts that no flush has taken. */
static bool take_over(entry *e, int64_t now)
{
    uint64_t state = atomic_load(&e->state);

    if (is_open(state)) {
        if (now < atomic_load(&e->ends) || (uint32_t)state ||
            !atomic_compare_exchange_strong(&e->state, &state, state + (UINT64_C(1) << 32)))
            return false;
    }
    return try_write(e);
}

/* Where the fingerprint in IS is counted: its entry and generation; 0: nowhere.  *IS_NEW: from now on. */
static uint64_t find_or_open(stacksplice_dedup *dedup, const counted *is, const ss_error_view *view,
                             int64_t now, bool *is_new)
{
    *is_new = false;
    for (uint32_t i = 0; i < dedup->count; i++) {
        entry *e = &dedup->entries[i];
        uint64_t state = atomic_load(&e->state);

        if (is_open(state) && now < atomic_load(&e->ends) &&
            !memcmp(e->is.fingerprint, is->fingerprint, sizeof is->fingerprint))
            return state >> 32 << 32 | i;
    }
    for (uint32_t i = 0; i < dedup->count; i++) {
        entry *e = &dedup->entries[i];

        if (take_over(e, now)) {
            uint64_t generation = (atomic_load(&e->state) >> 32) + 1;

            open_entry(dedup, e, is, view, now, generation & UINT32_MAX);
            *is_new = true;
            return generation << 32 | i;
        }
    }
    return 0;
}

/* By the fingerprint: true if it was counted. */
static SS_NOINLINE bool add_by_fingerprint(stacksplice_dedup *dedup, IUnknown *error, key k,
                                           int64_t now)
{
    const ss_report report = {.order = STACKSPLICE_ORDER_NEWEST_FIRST};
    shortcut *way = &dedup->shortcuts[k.a % dedup->shortcut_count];
    counted is = {.length = 0};
    ss_facts found, *facts = &found;
    uint64_t reference;
    bool is_new;

    if (!ss_facts_get(error, facts))
        return false;
    is.hresult = facts->view.hresult;
    ss_report_fingerprint(&report, facts, false, is.fingerprint);
    ss_report_fingerprint(&report, facts, true, is.loose);
    if (facts->type) {
        size_t length = strlen(facts->type);

        memcpy(is.type, facts->type, length < TYPE_SIZE ? length : TYPE_SIZE - 1);
    }
    ss_facts_release(facts);
    if (!try_hold(dedup))
        return false;
    forget_parent(dedup);
    reference = find_or_open(dedup, &is, &facts->view, now, &is_new);
    let_go(dedup);
    if (!reference)
        return false;
    atomic_store(&way->a, k.a + reference);
    atomic_store(&way->b, k.b + reference);
    atomic_store(&way->reference, reference);
    return !is_new && count_in(dedup, reference, &facts->view, now);
}

static bool add_by_addresses(stacksplice_dedup *dedup, const ss_error_view *view, key k,
                             int64_t now)
{
    shortcut *way = &dedup->shortcuts[k.a % dedup->shortcut_count];
    uint64_t reference = atomic_load(&way->reference);

    return reference && atomic_load(&way->a) == k.a + reference &&
           atomic_load(&way->b) == k.b + reference &&
           atomic_load(&dedup->forks) == atomic_load(&forks) &&
           count_in(dedup, reference, view, now);
}

HRESULT stacksplice_dedup_add(stacksplice_dedup *dedup, IUnknown *error)
{
    uint32_t members, left_out;
    const char *type = NULL;
    ss_error_view view;
    bool is_counted;
    int64_t now;
    key k;

    if (!dedup || !error)
        return E_POINTER;
    if (!ss_error_view_get(error, &view))
        return E_INVALIDARG;
    if (view.exception)
        type = view.exception->lpVtbl->GetTypeName(view.exception, 0);
    now = ss_now();
    k = key_of(&view, type);
    /* The addresses of a group do not tell its members. */
    is_counted = ((view.is_node || stacksplice_error_group(error, &members, &left_out) != S_OK) &&
                  add_by_addresses(dedup, &view, k, now)) ||
                 add_by_fingerprint(dedup, error, k, now);
    return is_counted ? S_FALSE : S_OK;
}

/* ---- Lines -----------------------------------------------------------------------------------*/

static void write_text(ss_writer *w, const char *name, const char *text, size_t length)
{
    ss_writer_text(w, ",\"");
    ss_writer_text(w, name);
    if (!text) {
        ss_writer_text(w, "\":null");
        return;
    }
    ss_writer_text(w, "\":\"");
    ss_redact((ss_text){text, NULL, length}, STACKSPLICE_TEXT_MESSAGE, false, w, SS_ESCAPE_JSON);
    ss_writer_text(w, "\"");
}

static void write_time(ss_writer *w, const char *name, int64_t time)
{
    ss_writer_text(w, name);
    ss_writer_decimal(w, time > 0 ? (uint64_t)time : 0);
}

static size_t line_of(const counted *is, uint32_t count, char *line, size_t size)
{
    ss_kept_text kept = {line, size, 0};
    ss_writer w;

    ss_writer_init(&w, ss_writer_keep, &kept);
    ss_writer_text(&w, "{\"schema\":\"stacksplice-repeats/1\",\"count\":");
    ss_writer_decimal(&w, count);
    ss_writer_text(&w, ",\"fingerprint\":\"");
    ss_writer_text(&w, is->fingerprint);
    ss_writer_text(&w, "\",\"loose_fingerprint\":\"");
    ss_writer_text(&w, is->loose);
    ss_writer_text(&w, "\",\"hresult\":\"0x");
    ss_writer_hex(&w, (uint32_t)is->hresult, 8);
    ss_writer_text(&w, "\"");
    write_text(&w, "type", *is->type ? is->type : NULL, strlen(is->type));
    write_time(&w, ",\"first_ns\":", is->first);
    write_time(&w, ",\"last_ns\":", is->last);
    write_text(&w, "message", is->has_message ? is->message : NULL, is->length);
    ss_writer_text(&w, "}\n");
    return ss_writer_finish(&w) ? kept.used : 0;
}

/* What E has counted since it was last asked, in IS; 0: nothing, or its window goes on and not ALL. */
static uint32_t take_counts(entry *e, bool all, counted *is)
{
    uint64_t state = atomic_load(&e->state);

    if (!all && ss_now() < atomic_load(&e->ends))
        return 0;
    do {
        if (!is_open(state) || !(uint32_t)state)
            return 0;
    } while (!atomic_compare_exchange_weak(&e->state, &state, state >> 32 << 32));
    if (try_write(e)) {
        *is = e->is;
        e->is.first = e->is.last = 0;
        e->is.has_message = false;
        end_write(e);
    } else { /* who counts now may not be one of these */
        memset(is, 0, sizeof *is);
        memcpy(is->fingerprint, e->is.fingerprint, sizeof is->fingerprint);
        memcpy(is->loose, e->is.loose, sizeof is->loose);
        memcpy(is->type, e->is.type, sizeof is->type);
        is->hresult = e->is.hresult;
    }
    if (!is->first)
        is->first = is->last = e->opened;
    return (uint32_t)state;
}

HRESULT stacksplice_dedup_flush(stacksplice_dedup *dedup, int all, stacksplice_write_callback write,
                                void *data)
{
    char line[LINE_SIZE];

    if (!dedup || !write)
        return E_POINTER;
    for (uint32_t i = 0; i < dedup->count; i++) {
        uint32_t count, waits = 0;
        counted is;
        size_t length;

        while (!try_hold(dedup)) {
            if (++waits > WAITS)
                return TIMED_OUT;
            ss_rest();
        }
        forget_parent(dedup);
        count = take_counts(&dedup->entries[i], all != 0, &is);
        let_go(dedup);
        if (!count)
            continue;
        length = line_of(&is, count, line, sizeof line);
        if (!length) { /* the marks for secrets, or what a hook made of them, are that long */
            is.has_message = false;
            is.type[0] = 0;
            length = line_of(&is, count, line, sizeof line);
        }
        if (write(line, length, data))
            return S_FALSE;
    }
    return S_OK;
}
