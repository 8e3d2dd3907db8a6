/* stacksplice.h, read.h: an error of C is made, wrapped, read and reported. */
#include <assert.h>
#include <inttypes.h>
#include <stacksplice/script.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(const char *text, size_t length, void *file)
{
    return fwrite(text, 1, length, file) != length;
}

/* Say in a log which library runs, and whether frames will have files and lines. */
static void say_version(void)
{
    const char *missing = stacksplice_lines_missing();

    printf("stacksplice %s (%s)\n", stacksplice_version(), stacksplice_build());
    if (missing)
        printf("no files and lines: %s\n", missing);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

static void *get(size_t bytes, void *count)
{
    ++*(size_t *)count;
    return malloc(bytes);
}

static void *resize(void *block, size_t bytes, void *count)
{
    (void)count;
    return realloc(block, bytes);
}

static void give_back(void *block, void *count)
{
    (void)count;
    free(block);
}

/* Count the allocations of the library; before any other call of it. */
static void count_allocations(size_t *count)
{
    stacksplice_allocator counting = {
        .size = sizeof counting, .alloc = get, .realloc = resize, .free = give_back, .data = count};

    if (stacksplice_set_allocator(&counting) == E_ILLEGAL_METHOD_CALL)
        puts("too late: the library has allocated already");
}

/* ---- Stacks ----------------------------------------------------------------------------------*/

static int print_name(const stacksplice_frame *frame, void *file)
{
    fprintf(file, "%s %s\n", frame->language, frame->function ? frame->function : "?");
    return 0; /* anything else stops the walk */
}

/* The frames of this thread: an element stands for several where functions were inlined. */
static void print_stack(void)
{
    uintptr_t frames[64];
    uint32_t count, hash;

    if (stacksplice_capture(0, 64, frames, &count, &hash) == S_FALSE)
        puts("the outermost frames are left out");
    for (uint32_t i = 0; i < count; i++)
        stacksplice_resolve(frames[i], print_name, stdout);
}

/* Reports count the frames of a library, and those of a folder, in one line each. */
static void hide_what_is_not_ours(void)
{
    stacksplice_hide("sqlalchemy", NULL);
    stacksplice_hide("our vendors", "/srv/shop/vendor/");
}

static int print_fold(uint32_t begin, uint32_t end, const char *name, void *data)
{
    (void)data;
    printf("%u frames of %s\n", end - begin, name);
    return 0;
}

/* Keep 2,000 frames of each error, for code that recurs deeply. */
static uint32_t keep_more_frames(void)
{
    uint32_t before = stacksplice_max_frames();

    stacksplice_set_max_frames(2000);
    return before;
}

/* A fiber's stack is known for as long as its memory is there. */
static void run_fiber(void (*run)(void *stack, size_t bytes), size_t bytes)
{
    char *stack = malloc(bytes);

    if (stack && stacksplice_add_stack(stack, stack + bytes) == S_OK) {
        run(stack, bytes);
        stacksplice_remove_stack(stack);
    }
    free(stack);
}

static void do_nothing(void *stack, size_t bytes)
{
    memset(stack, 0, bytes);
}

/* ---- Making errors ---------------------------------------------------------------------------*/

/* The error is made where it happens: the function returns its HRESULT, the thread has the rest. */
static HRESULT find_rate(const char *currency, double *rate)
{
    if (strcmp(currency, "EUR") != 0) {
        stacksplice_originate(E_BOUNDS, "no such rate", 12, NULL, NULL);
        return E_BOUNDS;
    }
    *rate = 1;
    return S_OK;
}

/* What runs while an error is on its way may fail: the error is put aside, and put back. */
static void roll_back(HRESULT (*undo)(const char *what, double *amount))
{
    stacksplice_saved_error saved;
    double amount;

    stacksplice_save_error(&saved);
    if (FAILED(undo("booking", &amount)))
        puts("undo failed");
    stacksplice_restore_error(&saved);
}

/* A border of one's own, between two parts of a program: the error says that it came through it. */
static HRESULT receive(HRESULT hr)
{
    if (FAILED(hr))
        stacksplice_propagate(hr, NULL);
    return hr;
}

/* Say what was going on; the error stays the thread's. */
static void add_order(const char *order)
{
    IRestrictedErrorInfo *error;

    if (stacksplice_peek_error(&error) == S_OK) {
        stacksplice_add_note((IUnknown *)error, order, strlen(order));
        error->lpVtbl->Release(error);
    }
}

/* ---- Reading errors --------------------------------------------------------------------------*/

static void report(IUnknown *error)
{
    stacksplice_format_options options = {.size = sizeof options, .shorten = 1};
    char fingerprint[33];

    stacksplice_format(error, STACKSPLICE_FORMAT_TEXT, &options, print, stdout);
    stacksplice_fingerprint(error, fingerprint);
    printf("the same error elsewhere: %s\n", fingerprint);
}

static int print_line(const stacksplice_frame *frame, void *file)
{
    stacksplice_format_frame(frame, print, file); /* as a report shows it */
    fputc('\n', file);
    return 0;
}

static void print_error_stack(IUnknown *error)
{
    uintptr_t frames[512];
    uint32_t count;

    if (FAILED(stacksplice_error_stack(error, 512, frames, &count)))
        return; /* an error object of another library */
    for (uint32_t i = 0; i < count; i++)
        stacksplice_resolve(frames[i], print_line, stdout);
    printf("%" PRIu32 " frames are left out\n", stacksplice_frames_left_out(frames, count));
}

/* What the error was made from, down to the root. */
static void print_causes(IUnknown *error)
{
    IRestrictedErrorInfo *cause;
    stacksplice_relation relation;

    while (stacksplice_error_cause(error, &cause, &relation) == S_OK) {
        puts(relation == STACKSPLICE_RELATION_CAUSE ? "made from:" : "while handling:");
        stacksplice_format((IUnknown *)cause, STACKSPLICE_FORMAT_STACK, NULL, print, stdout);
        error = (IUnknown *)cause;
        cause->lpVtbl->Release(cause); /* the first error keeps it */
    }
}

/* The members of a group, such as an ExceptionGroup of Python. */
static uint32_t print_members(IUnknown *error)
{
    uint32_t count, left_out;
    IRestrictedErrorInfo *member;

    if (stacksplice_error_group(error, &count, &left_out) != S_OK)
        return 0; /* no group */
    for (uint32_t i = 0; stacksplice_error_member(error, i, &member) == S_OK; i++) {
        report((IUnknown *)member);
        member->lpVtbl->Release(member);
    }
    return count + left_out;
}

static int print_note(const char *text, size_t length, void *file)
{
    return fprintf(file, "note: %.*s\n", (int)length, text) < 0;
}

static void print_notes(IUnknown *error)
{
    stacksplice_error_notes(error, print_note, stdout);
}

/* The languages that received the error, the newest first. */
static void print_receivers(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *node = NULL, *older;
    const char *language;
    void *info;

    if (FAILED(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &info)))
        return;
    older = info;
    older->lpVtbl->GetPropagationContextHead(older, &node);
    older->lpVtbl->Release(older);
    while (node) {
        stacksplice_node_language((IUnknown *)node, &language);
        printf("received by %s\n", language);
        older = NULL;
        node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        node->lpVtbl->Release(node);
        node = older;
    }
}

static void print_origin(IUnknown *error)
{
    const char *language;

    if (stacksplice_error_language(error, &language) == S_OK)
        printf("born in %s\n", language); /* "native", "python", "lua", ... */
}

/* ---- Errors that nobody handles --------------------------------------------------------------*/

static int log_unhandled(IRestrictedErrorInfo *error, void *file)
{
    stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, print, file);
    return 1; /* handled: the process goes on */
}

static void log_errors_of_threads(void)
{
    stacksplice_set_unhandled_handler(log_unhandled, stdout);
}

/* The end of a thread, which has nobody to return an error to. */
static void end_thread(void)
{
    IRestrictedErrorInfo *error;

    if (GetRestrictedErrorInfo(&error) == S_OK) {
        if (stacksplice_offer_unhandled(error) == S_FALSE)
            report((IUnknown *)error); /* the host has no handler */
        error->lpVtbl->Release(error);
    }
}

/* ---- Reports of one's own -------------------------------------------------------------------*/

/* A report of our own shows a line of source only where the library would. */
static void print_source(IUnknown *error, const char *file)
{
    const char *reason;

    if (stacksplice_error_source_reason(error, file, &reason) == S_OK && reason)
        printf("no lines of %s: %s\n", file, reason);
}

/* Show a saved report, the JSON of one error, and make of it an event for Sentry and a line for a log. */
static void show_saved(const char *json, size_t length)
{
    const stacksplice_document *document;
    stacksplice_document_problem problem;

    if (FAILED(stacksplice_document_read(json, length, &document, &problem))) {
        printf("byte %zu: %s\n", problem.position, problem.text);
        return;
    }
    stacksplice_format_document(document, NULL, print, stdout);
    stacksplice_document_folds(document, print_fold, NULL);
    stacksplice_format_document_for_sentry(document, NULL, print, stdout);
    stacksplice_format_document_as_brief_json(document, NULL, print, stdout);
    stacksplice_document_free(document);
}

typedef struct buffer {
    char text[65536];
    size_t used;
} buffer;

static int append(const char *text, size_t length, void *data)
{
    buffer *b = data;

    if (length > sizeof b->text - b->used)
        return 1;
    memcpy(b->text + b->used, text, length);
    b->used += length;
    return 0;
}

int main(void)
{
    static buffer json;
    size_t allocations = 0;
    double rate;
    IRestrictedErrorInfo *error;
    HRESULT hr;

    count_allocations(&allocations);
    say_version();
    print_stack();
    hide_what_is_not_ours();
    assert(keep_more_frames() == 512 && stacksplice_max_frames() == 2000);
    run_fiber(do_nothing, 65536);
    log_errors_of_threads();

    hr = find_rate("XXX", &rate);
    roll_back(find_rate);
    assert(receive(hr) == E_BOUNDS);
    RoTransformErrorW(hr, E_FAIL, 0, u"no price");
    add_order("order 17");
    assert(stacksplice_peek_error(&error) == S_OK && allocations > 0);
    receive(E_FAIL);
    report((IUnknown *)error);
    print_error_stack((IUnknown *)error);
    print_causes((IUnknown *)error);
    assert(print_members((IUnknown *)error) == 0);
    print_notes((IUnknown *)error);
    print_receivers(error);
    print_origin((IUnknown *)error);
    print_source((IUnknown *)error, "rates.lua");
    stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL, append, &json);
    show_saved(json.text, json.used);
    show_saved("{}", 2);
    end_thread();
    error->lpVtbl->Release(error);
    puts("\nok");
    return 0;
}
