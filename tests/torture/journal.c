/* The journal of a thread's calls against a captured stack. */
#include "torture.h"

#include "older_c_library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char __start_torture_nodes[], __stop_torture_nodes[];

/* One frame that the journal should know. */
typedef struct found {
    uintptr_t function, sp, next_sp;
    const char *language; /* NULL: C; "gap" */
    uint32_t line;
    const char *text;
} found;

/* What a token is, kept: tokens never change. */
typedef struct meaning {
    _Atomic uintptr_t token; /* 0: free */
    bool known;
    const char *language; /* NULL: of no interest */
    uint32_t line;
    char text[100];
} meaning;

enum { MEANINGS = 1 << 12 };

static _Thread_local meaning *meanings;
static const char *falsification;
static atomic_flag falsified = ATOMIC_FLAG_INIT;

void stop(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    flockfile(stderr);
    (void)fprintf(stderr, "torture: thread %u: ", self ? self->number : 0);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    (void)fflush(stderr);
    _exit(1);
}

/* The native frames, with what only they tell: stack pointers and functions. */
static void copy_walk(stacksplice_walk *walk, void *data)
{
    worker *w = self;

    if (!w)
        return;
    w->frames = walk->frame_count < MAX_FRAMES ? walk->frame_count : MAX_FRAMES;
    for (uint32_t i = 0; i < w->frames; i++) {
        w->ip[i] = walk->frames[i].ip;
        w->sp[i] = walk->frames[i].sp;
        w->function[i] = walk->frames[i].function;
    }
}

void journal_begin(const char *what)
{
    static const char identity;
    /* It needs to see each walk.  So captures are repeated only where each is also made in full, to
       be compared. */
    const stacksplice_source source = {.size = sizeof source,
                                       .version = STACKSPLICE_SOURCE_VERSION,
                                       .language = "torture",
                                       .identity = &identity,
                                       .collect = copy_walk,
                                       .reports = getenv("STACKSPLICE_VERIFY_PLANS") != NULL};

    falsification = what;
    if (stacksplice_add_source(&source) < 0)
        stop("no source could be added");
}

void journal_end(void)
{
    free(meanings);
    meanings = NULL;
}

static void note(worker *w, call c)
{
    if (w->depth == MAX_DEPTH)
        stop("the journal is full");
    w->journal[w->depth++] = c;
    w->calls++;
}

void journal_c(worker *w, uintptr_t function, const void *local)
{
    note(w, (call){.function = function, .local = (uintptr_t)local});
}

void journal_script(worker *w, const char *language, uint32_t line)
{
    note(w, (call){.language = language, .line = line});
}

void journal_tail_call(worker *w)
{
    note(w, (call){.language = "gap"});
}

static bool is_script(const call *c)
{
    return c->language && strcmp(c->language, "gap") != 0;
}

/* ---- Reading a stack --------------------------------------------------------------------------*/

static int understand(const stacksplice_frame *frame, void *data)
{
    meaning *m = data;
    const char *file = frame->file ? frame->file : "";

    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        m->language = "gap";
        (void)snprintf(m->text, sizeof m->text, "%s", frame->reason ? frame->reason : "?");
    } else if (strcmp(file, "[C]") != 0) {
        m->language = strcmp(frame->language, "lua") == 0 ? "lua" : "python";
        m->line = frame->line;
        (void)snprintf(m->text, sizeof m->text, "%s in %s", frame->function ? frame->function : "?",
                       file);
    }
    return 0;
}

/* The row of TOKEN.  Others' rows stay as they are, since the stack that is looked at points to
 * them.
 */
static meaning *row_of(uintptr_t token)
{
    for (size_t i = 0; i < MEANINGS; i++) {
        meaning *m = &meanings[(token / 16 + i) % MEANINGS];
        uintptr_t taken = 0;

        /* A handler may take it meanwhile. */
        if (atomic_compare_exchange_strong(&m->token, &taken, token) || taken == token)
            return m;
    }
    stop("too many tokens");
}

/* A handler that comes while a row is filled fills it, too, with the same. */
static const meaning *meaning_of(uintptr_t token)
{
    meaning *m;

    if (!meanings)
        meanings = calloc(MEANINGS, sizeof *meanings);
    if (!meanings)
        stop("no memory");
    m = row_of(token);
    if (!m->known)
        (void)stacksplice_resolve(token, understand, m);
    m->known = true;
    return m;
}

static bool is_node(const worker *w, uintptr_t ip, uintptr_t function)
{
    if (ip > (uintptr_t)__start_torture_nodes && ip <= (uintptr_t)__stop_torture_nodes)
        return true;
    for (unsigned i = 0; i < w->depth; i++)
        if (w->journal[i].function == function && function)
            return true; /* of a library */
    return false;
}

/* The frames of interest among FRAMES; their number.  The walk tells more about native ones. */
static uint32_t read_stack(const worker *w, const uintptr_t *frames, uint32_t count, found *out,
                           uint32_t room)
{
    uint32_t n = 0, at = 0;

    for (uint32_t i = 0; i < count && n < room; i++) {
        if (frames[i] >> 48 == 0x5353) {
            const meaning *m = meaning_of(frames[i]);

            if (m->language)
                out[n++] = (found){.language = m->language, .line = m->line, .text = m->text};
            continue;
        }
        while (at < w->frames && w->ip[at] != frames[i])
            at++;
        if (at == w->frames)
            stop("wrong stack: frame %u, %#lx, is not in the walk, or in another order", i,
                 (unsigned long)frames[i]);
        if (is_node(w, frames[i], w->function[at]))
            out[n++] = (found){.function = w->function[at],
                               .sp = w->sp[at],
                               .next_sp = at + 1 < w->frames ? w->sp[at + 1] : UINTPTR_MAX};
        at++;
    }
    return n;
}

/* ---- Comparing --------------------------------------------------------------------------------*/

static bool same(const call *c, const found *f)
{
    if (c->language && !is_script(c))
        return f->language && strcmp(f->language, "gap") == 0 &&
               strncmp(f->text, "Lua tail calls", 14) == 0;
    if (c->language || f->language)
        return c->language && f->language && strcmp(c->language, f->language) == 0 &&
               c->line == f->line;
    return c->function == f->function &&
           (!c->local || (c->local >= f->sp && c->local < f->next_sp));
}

static void explain(const worker *w, const found *list, uint32_t count, uint32_t bad)
{
    flockfile(stderr);
    (void)fprintf(stderr, "torture: thread %u: wrong stack\nthe journal, innermost first:\n",
                  w->number);
    for (unsigned i = w->depth; i-- > 0;)
        (void)fprintf(stderr, "  %s %#lx line %u%s\n",
                      w->journal[i].language ? w->journal[i].language : "C",
                      (unsigned long)w->journal[i].function, w->journal[i].line,
                      i == w->base ? "  (the base)" : "");
    (void)fprintf(stderr, "the stack:\n");
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(stderr, "  %s %#lx line %u %s%s\n", list[i].language ? list[i].language : "C",
                      (unsigned long)list[i].function, list[i].line,
                      list[i].text ? list[i].text : "", i == bad ? "  (the first wrong one)" : "");
    if (bad == count)
        (void)fprintf(stderr, "  (one is missing)\n");
    (void)fflush(stderr);
    _exit(1);
}

/* Whether a gap says that a coroutine of Lua was called on another stack as well as on this one. */
static bool is_rest_elsewhere(const found *f)
{
    return strstr(f->text, "were called from elsewhere") != NULL;
}

/*
 * Every call since the base, in order and nothing else; out of memory some may be missing.  What
 * another stack below the base holds may follow, behind a gap: it is in order, too.
 */
static void compare(const worker *w, const found *list, uint32_t count, bool may_miss, bool unasked)
{
    unsigned at = w->depth;
    bool beyond = false;

    for (uint32_t i = 0; i < count; i++) {
        const found *f = &list[i];

        if (unasked && !f->language && !f->function)
            continue; /* its module could not be asked for more than the address */
        beyond = beyond || at <= w->base;
        if (f->language && strcmp(f->language, "gap") == 0 &&
            (may_miss || (w->base && (beyond || is_rest_elsewhere(f)))))
            continue;
        if (may_miss || beyond)
            while (at > 0 && !same(&w->journal[at - 1], f))
                at--;
        if (at == 0 || !same(&w->journal[at - 1], f))
            explain(w, list, count, i);
        at--;
    }
    if (at > w->base && !may_miss)
        explain(w, list, count, count);
}

/* What the test of this test does to a stack of which nothing may be missing. */
static uint32_t falsify(found *list, uint32_t count, bool may_miss)
{
    found first = list[0];

    if (!falsification || may_miss || count < 3 ||
        same(&(call){first.function, first.sp, first.language, first.line}, &list[1]) ||
        atomic_flag_test_and_set(&falsified))
        return count;
    if (strcmp(falsification, "drop") == 0)
        memmove(list, list + 1, --count * sizeof *list);
    else if (strcmp(falsification, "swap") == 0)
        list[0] = list[1], list[1] = first;
    else
        list[0].line++, list[0].function++;
    return count;
}

/* Whether a gap says that the loader could not be asked, and it was busy since SINCE. */
static bool says_unasked(const found *list, uint32_t count, unsigned since)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].text && strstr(list[i].text, "another thread was forking"))
            return loader_was_busy(since);
    return false;
}

void journal_check(worker *w)
{
    found list[MAX_DEPTH + 100];
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0, n;
    unsigned since = loader_watch();
    stacksplice_hresult hr;
    bool may_miss, unasked;

    w->failing = draw(w, 20) == 0;
    /* Several times, so that the core repeats some. */
    for (unsigned times = draw(w, 8);; times--) {
        hr = stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL);
        if (!times || hr != 0 || w->failing)
            break;
    }
    if (hr == (stacksplice_hresult)0x8007000E && w->failing) {
        w->failing = false;
        w->out_of_memory++;
        return;
    }
    if (hr != 0)
        stop("the capture failed: %#x", (unsigned)hr);
    n = read_stack(w, frames, count, list, MAX_DEPTH + 100);
    unasked = says_unasked(list, n, since);
    may_miss = w->failing || w->unknown || unasked;
    n = falsify(list, n, may_miss);
    compare(w, list, n, may_miss, unasked);
    w->failing = false;
    w->checks++;
}

/*
 * What ended before the error was caught is innermost, then the journal's scripts follow.  Of a
 * long stack the outer part may be left out.
 */
void journal_check_error(worker *w, const char *language, uint32_t innermost, bool whole)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0, raised = 0;
    unsigned at = w->depth;
    IRestrictedErrorInfo *error = NULL;

    if (stacksplice_peek_error(&error) != 0 ||
        stacksplice_error_stack((IUnknown *)error, MAX_FRAMES, frames, &count) < 0)
        stop("the thread has no error");
    for (uint32_t i = 0; i < count; i++) {
        const meaning *m = frames[i] >> 48 == 0x5353 ? meaning_of(frames[i]) : NULL;

        if (m && strstr(m->text, "another thread was forking") && older_c_library)
            whole = false;
        if (!m || !m->language || strcmp(m->language, "gap") == 0)
            continue;
        if (strcmp(m->language, language) == 0 && m->line == innermost && at == w->depth) {
            raised++;
            continue;
        }
        while (at > 0 && !is_script(&w->journal[at - 1]))
            at--;
        if (at == 0 || strcmp(w->journal[at - 1].language, m->language) != 0 ||
            w->journal[at - 1].line != m->line)
            stop("wrong stack of an error: frame %u is %s line %u %s", i, m->language, m->line,
                 m->text);
        at--;
    }
    while (at > 0 && !is_script(&w->journal[at - 1]))
        at--;
    if (!raised || (whole && at > w->base))
        stop("wrong stack of an error: %u frames of it, %u calls are missing", raised, at);
    error->lpVtbl->Release(error);
    RoClearError();
    w->errors++;
}
