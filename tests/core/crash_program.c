/*
 * crash_program WAY: ends in that way; crash_test.py looks at what is left.  A handler of SIGABRT
 * prints the error that a reader of a core file would find.
 */
#include "fault_ways.h"
#include "instruments.h"
#include "report_fixture.h"

#include <stacksplice/debugger.h>
#include <stacksplice/redact.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static IRestrictedErrorInfo *error; /* that most ways end with: a chain of two, and a cause */
static const char *detail;          /* what follows the last "-" of the way */

/* dprintf would allocate, which a handler may not. */
static void print_failed(int number)
{
    /* The program's block is a copy. */
    const stacksplice_inspection_block *block = (void *)(uintptr_t)stacksplice_inspection.self;
    const stacksplice_record *failed = (void *)(uintptr_t)block->failed;
    char text[100];

    (void)snprintf(text, sizeof text, "failed %08x %u %d\n", (unsigned)failed->hresult,
                   failed->frame_count, failed->thread_id == (uint64_t)gettid());
    put(text);
}

static IRestrictedErrorInfo *full_error(void)
{
    static uintptr_t frames[2], first[1], second[1], third[1];
    static fixture_error cause, contents;
    IRestrictedErrorInfo *full;

    frames[0] = fixture_script("python", "f", "x.py", 17);
    frames[1] = (uintptr_t)print_failed + 1;
    first[0] = fixture_script("lua", "one", "a.lua", 1);
    second[0] = fixture_script("python", "two", "b.py", 2);
    third[0] = fixture_script("lua", "cause", "c.lua", 3);
    cause = (fixture_error){.hr = E_FAIL,
                            .type = "table",
                            .message = "first",
                            .message_length = 5,
                            .frames = third,
                            .frame_count = 1};
    contents = (fixture_error){.hr = E_INVALIDARG,
                               .type = "ValueError",
                               .message = "bad \"amount\"\n\0\x01\xff",
                               .message_length = 16,
                               .frames = frames,
                               .frame_count = 2,
                               .cause = fixture_originate(&cause)};
    full = fixture_originate(&contents);
    fixture_propagate(full, "lua", first, 1);
    fixture_propagate(full, "python", second, 1);
    return full;
}

/* ---- Other handlers, threads and memory ------------------------------------------------------*/

/* As crash handlers do.  The second fault in one thread comes here again. */
static void fail_fast(int number)
{
    RoFailFastWithErrorContext(E_INVALIDARG);
}

static void fail_again(void)
{
    (void)signal(SIGABRT, fail_fast);
}

/* A crash reporter that forks, and whose child fails too. */
static void fail_in_child(int number)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)signal(number, print_failed);
        (void)alarm(60);
        RoFailFastWithErrorContext(E_BOUNDS);
    }
    (void)waitpid(child, &status, 0);
    put(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "child aborted\n" : "child went on\n");
}

static void have_reporter_fork(void)
{
    (void)signal(SIGABRT, fail_in_child);
}

static void *fail_in_thread(void *unused)
{
    (void)SetRestrictedErrorInfo(error);
    fail_fast(0);
    return unused;
}

static void fail_in_threads(void)
{
    pthread_t threads[2];

    for (int i = 0; i < (strcmp(detail, "two") ? 1 : 2); i++)
        (void)pthread_create(&threads[i], NULL, fail_in_thread, NULL);
    (void)pthread_join(threads[0], NULL);
}

static int allocator_fails;

static void *failing_alloc(size_t bytes, void *data)
{
    return allocator_fails ? NULL : malloc(bytes);
}

static void *failing_realloc(void *block, size_t bytes, void *data)
{
    return allocator_fails ? NULL : realloc(block, bytes);
}

static void plain_free(void *block, void *data)
{
    free(block);
}

static void let_allocator_fail(void)
{
    allocator_fails = 1;
}

static void clear(void)
{
    RoClearError();
}

static void clear_and_exhaust(void)
{
    RoClearError();
    exhaust_memory();
}

static int write_text(const char *text, size_t length, void *data)
{
    return write(STDOUT_FILENO, text, length) != (ssize_t)length;
}

/* The report of a process that goes on, with debug information that finds no memory. */
static void format_without_memory(void)
{
    HRESULT hr;

    if (!strcmp(detail, "warm"))
        (void)fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    exhaust_memory();
    hr = stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, write_text, NULL);
    _exit(hr == S_OK ? 0 : 1);
}

/* What glibc's constant SIGSTKSZ is. */
#if defined(__aarch64__)
enum { ALTERNATE_SIZE = 16384 };
#else
enum { ALTERNATE_SIZE = 8192 };
#endif

/* The alternate stack lies behind a page that ends the process. */
static void overflow_with_small_stack(void)
{
    const struct sigaction action = {.sa_handler = fail_fast, .sa_flags = SA_ONSTACK};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page + ALTERNATE_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + page, .ss_size = ALTERNATE_SIZE};

    (void)mprotect(memory, page, PROT_NONE);
    (void)sigaltstack(&stack, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    crash("overflow");
}

/* ---- Damage ----------------------------------------------------------------------------------*/

/* The object alone, or all that came to lie behind it. */
static void damage(void)
{
    void *volatile block = (void *)error; /* nobody knows that it is an object */
    bool is_heap = !strcmp(detail, "heap"), is_alone = !strcmp(detail, "alone");

    if (is_heap || is_alone)
        needs_plain_build(); /* a sanitizer would say it first, and has a handler */
    if (!is_alone)
        (void)signal(SIGSEGV, fail_fast);
    if (!strcmp(detail, "abort"))
        fail_again();
    memset(block, 0xA0, is_heap ? 4000 : 64); /* aligned, and no address of this machine */
    if (!strcmp(detail, "fault"))
        cause_fault();
}

/* ---- The handler of errors that nobody handles -----------------------------------------------*/

static int handle(IRestrictedErrorInfo *unhandled, void *data)
{
    printf("handler %s\n", (const char *)data);
    return !strcmp(data, "yes");
}

static void report_unhandled(void)
{
    printf("returned %d\n", RoReportUnhandledError(error));
}

static void report_delegate(void)
{
    printf("returned %d\n", RoReportFailedDelegate(NULL, error));
}

static void report_to_handler(void)
{
    (void)stacksplice_set_unhandled_handler(handle, (void *)(uintptr_t)detail);
    printf("returned %d\n", RoReportUnhandledError(error));
    printf("returned %d\n", RoReportFailedDelegate((IUnknown *)error, error));
    printf("refused %d\n", RoReportUnhandledError(NULL) == E_INVALIDARG);
    (void)stacksplice_set_unhandled_handler(NULL, NULL);
    (void)RoReportUnhandledError(error);
}

static void offer(void)
{
    for (int i = 0; i < 2; i++) {
        printf("asked %d\n", stacksplice_offer_unhandled(NULL));
        printf("offered %d\n", stacksplice_offer_unhandled(error));
        (void)stacksplice_set_unhandled_handler(handle, (void *)(uintptr_t)detail);
    }
    exit(0);
}

static void capture_context(void)
{
    (void)RoCaptureErrorContext(E_INVALIDARG);
}

/* A process that fails fast may call no hook. */
static int hook_of_the_host(const char *text, size_t length, stacksplice_text_kind kind,
                            stacksplice_write_callback write, void *write_data, void *data)
{
    return write("[hook]", 6, write_data);
}

static void have_secrets(void)
{
    static const char message[] = "bad password: hunter2", note[] = "token=hunter2";
    const stacksplice_redaction redaction = {
        .size = sizeof redaction, .rules = STACKSPLICE_REDACT_DEFAULT, .hook = hook_of_the_host};
    uintptr_t frame = fixture_script("python", "secret='hunter2'", "password=hunter2.py", 1);
    const fixture_error contents = {.hr = E_INVALIDARG,
                                    .type = "ValueError",
                                    .message = message,
                                    .message_length = sizeof message - 1,
                                    .frames = &frame,
                                    .frame_count = 1,
                                    .cause = error};
    IRestrictedErrorInfo *secret = fixture_originate(&contents);

    (void)stacksplice_add_note((IUnknown *)secret, note, sizeof note - 1);
    (void)stacksplice_set_redaction(&redaction);
    (void)SetRestrictedErrorInfo(secret);
}

/* What is done with the full error in the slot, and the code that then ends the process. */
static const struct {
    const char *way;
    void (*prepare)(void);
    HRESULT code;
} ways[] = {
    {"full", NULL, E_INVALIDARG},
    {"none", clear, E_BOUNDS},
    {"other", NULL, E_NOTIMPL},
    {"success", NULL, S_OK},
    {"thread", fail_in_threads, 0},
    {"two", fail_in_threads, 0},
    {"context", capture_context, E_INVALIDARG},
    {"child", have_reporter_fork, E_INVALIDARG},
    {"secrets", have_secrets, E_INVALIDARG},
    {"abort-again", fail_again, E_INVALIDARG},
    {"allocator", let_allocator_fail, E_INVALIDARG},
    {"space", exhaust_memory, E_INVALIDARG},
    {"space-none", clear_and_exhaust, E_OUTOFMEMORY},
    {"format-space", format_without_memory, 0},
    {"format-space-warm", format_without_memory, 0},
    {"overflow-small", overflow_with_small_stack, 0},
    {"damaged-error", damage, E_INVALIDARG},
    {"damaged-heap", damage, E_INVALIDARG},
    {"damaged-fault", damage, 0},
    {"damaged-abort", damage, E_INVALIDARG},
    {"damaged-alone", damage, E_INVALIDARG},
    {"unhandled", report_unhandled, 0},
    {"delegate", report_delegate, 0},
    {"handler-yes", report_to_handler, 0},
    {"handler-no", report_to_handler, 0},
    {"offer-yes", offer, 0},
    {"offer-no", offer, 0},
};

int main(int count, char **arguments)
{
    const stacksplice_allocator allocator = {sizeof allocator, failing_alloc, failing_realloc,
                                             plain_free, NULL};
    const char *way = count == 2 ? arguments[1] : "";
    void *frame;

    setvbuf(stdout, NULL, _IONBF, 0);
    if (stacksplice_set_allocator(&allocator) != S_OK)
        return 3;
    (void)signal(SIGABRT, print_failed);
    if (!strncmp(way, "damaged-", 8))
        (void)RtlCaptureStackBackTrace(0, 1, &frame, NULL); /* its memory lies before the damage */
    error = full_error();
    (void)SetRestrictedErrorInfo(error);
    detail = strrchr(way, '-') ? strrchr(way, '-') + 1 : way;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].way, way))
            continue;
        if (ways[i].prepare)
            ways[i].prepare();
        RoFailFastWithErrorContext(ways[i].code);
    }
    return 4;
}
