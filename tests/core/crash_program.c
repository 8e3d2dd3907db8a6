/*
 * Ends in the way its first argument names; crash_test.py looks at what is left.  A handler of
 * SIGABRT prints the stowed records, as a crash reporter in the process would read them.
 */
#include "calls.h"
#include "instruments.h"
#include "report_fixture.h"

#include <stacksplice/stowed.h>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* dprintf would allocate, which a handler may not. */
__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
    char text[300];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0 && write(STDOUT_FILENO, text, (size_t)length) != length)
        _exit(1);
}

static void print_stowed(int number)
{
    for (uint32_t i = 0; i < stacksplice_stowed_exception_count; i++) {
        const STOWED_EXCEPTION_INFORMATION_V2 *s = stacksplice_stowed_exceptions[i];

        print("%u %08x %u %08x %u %u %lx %lx %s\n", s->Header.Size, s->Header.Signature,
              (unsigned)s->ExceptionForm, (unsigned)s->ResultCode, s->StackTraceWordSize,
              s->StackTraceWords, s->StackTraceWords ? *(unsigned long *)s->StackTrace : 0,
              (unsigned long)(uintptr_t)s->ExceptionAddress,
              s->NestedExceptionType == STOWED_EXCEPTION_NESTED_TYPE_LEO ? "LEO1" : "none");
    }
}

/* A crash reporter that forks, and whose child fails too. */
static void fail_in_child(int number)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        signal(number, print_stowed);
        alarm(60);
        RoFailFastWithErrorContext(E_BOUNDS);
    }
    waitpid(child, &status, 0);
    print("child %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* ---- Damage ----------------------------------------------------------------------------------*/

/* As crash handlers do.  The second fault in one thread comes here again. */
static void fail_fast(int number)
{
    RoFailFastWithErrorContext(E_INVALIDARG);
}

/* The object alone, or all that came to lie behind it. */
static void damage(IRestrictedErrorInfo *error, size_t bytes)
{
    void *volatile block = (void *)error; /* nobody knows that it is an object */

    if (SANITIZED && bytes > 64)
        exit(77);               /* the sanitizer would say it first */
    memset(block, 0xA0, bytes); /* aligned, and no address of this machine */
}

static void cause_fault(void)
{
    int *volatile nowhere = (int *)8;

    *nowhere = 1;
}

/* What glibc's constant SIGSTKSZ is. */
#if defined(__aarch64__)
enum { ALTERNATE_SIZE = 16384 };
#else
enum { ALTERNATE_SIZE = 8192 };
#endif

/* An alternate stack behind a page that ends the process. */
static void use_alternate_stack(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page + ALTERNATE_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + page, .ss_size = ALTERNATE_SIZE};

    mprotect(memory, page, PROT_NONE);
    sigaltstack(&stack, NULL);
}

static NOINLINE int overflow(int depth)
{
    volatile char room[400];

    room[0] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + room[0];
}

static void overflow_small(void)
{
    const struct sigaction action = {.sa_handler = fail_fast, .sa_flags = SA_ONSTACK};

    if (SANITIZED)
        exit(77); /* such code takes several times the stack */
    use_alternate_stack();
    sigaction(SIGSEGV, &action, NULL);
    overflow(0);
}

/* The ways that begin with damage, or none of them. */
static void end_damaged(const char *how, IRestrictedErrorInfo *error)
{
    if (SANITIZED && !strcmp(how, "damaged-alone"))
        exit(77); /* the sanitizer has a handler */
    if (strcmp(how, "damaged-alone"))
        signal(SIGSEGV, fail_fast);
    if (!strcmp(how, "damaged-error") || !strcmp(how, "damaged-alone"))
        damage(error, 64);
    if (!strcmp(how, "damaged-heap"))
        damage(error, 4000);
    if (!strcmp(how, "damaged-fault")) {
        damage(error, 64);
        cause_fault();
    }
    if (!strcmp(how, "damaged-abort")) {
        signal(SIGABRT, fail_fast);
        damage(error, 64);
    }
    RoFailFastWithErrorContext(E_INVALIDARG);
}

/* ---- Other ways ------------------------------------------------------------------------------*/

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

/* The error that most ways end with: a chain of two, and a cause. */
static IRestrictedErrorInfo *full_error(void)
{
    static uintptr_t frames[2], first[1], second[1], third[1];
    static fixture_error cause, contents;
    IRestrictedErrorInfo *error;

    frames[0] = fixture_script("python", "f", "x.py", 17);
    frames[1] = (uintptr_t)print_stowed + 1;
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
    error = fixture_originate(&contents);
    fixture_propagate(error, "lua", first, 1);
    fixture_propagate(error, "python", second, 1);
    return error;
}

static void *fail_in_thread(void *data)
{
    (void)SetRestrictedErrorInfo(data);
    RoFailFastWithErrorContext(E_INVALIDARG);
}

static int handle(IRestrictedErrorInfo *error, void *data)
{
    print("handler %s\n", (const char *)data);
    return !strcmp(data, "yes");
}

/* A sanitizer's own allocations would end the process first: then there is nothing to test. */
static void exhaust_address_space(void)
{
    const struct rlimit none = {1, 1};
    size_t bytes = 1 << 20;

    if (SANITIZED)
        exit(77);
    setrlimit(RLIMIT_AS, &none);
    while (bytes >= 16) {
        void *volatile block = malloc(bytes);

        if (!block)
            bytes /= 2;
    }
}

static void fail_in_two_threads(IRestrictedErrorInfo *error)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, fail_in_thread, error);
    pthread_join(threads[0], NULL);
}

static int put(const char *text, size_t length, void *data)
{
    return write(STDOUT_FILENO, text, length) != (ssize_t)length;
}

/* The report of a process that goes on, with debug information that finds no memory. */
static void format_without_memory(IRestrictedErrorInfo *error)
{
    HRESULT hr;

    exhaust_address_space();
    hr = stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, put, NULL);
    _exit(hr == S_OK ? 0 : 1);
}

static void end(const char *how)
{
    IRestrictedErrorInfo *error = full_error();
    pthread_t thread;

    if (!strcmp(how, "child"))
        signal(SIGABRT, fail_in_child);
    if (!strcmp(how, "none"))
        RoFailFastWithErrorContext(E_BOUNDS);
    if (!strcmp(how, "thread")) {
        pthread_create(&thread, NULL, fail_in_thread, error);
        pthread_join(thread, NULL);
    }
    if (!strcmp(how, "two"))
        fail_in_two_threads(error);
    (void)SetRestrictedErrorInfo(error);
    if (!strcmp(how, "other"))
        RoFailFastWithErrorContext(E_NOTIMPL);
    if (!strcmp(how, "success"))
        RoFailFastWithErrorContext(S_OK);
    if (!strncmp(how, "damaged-", 8))
        end_damaged(how, error);
    if (!strcmp(how, "overflow-small"))
        overflow_small();
    if (!strcmp(how, "abort-again"))
        signal(SIGABRT, fail_fast);
    if (!strcmp(how, "allocator"))
        allocator_fails = 1;
    if (!strcmp(how, "space"))
        exhaust_address_space();
    if (!strcmp(how, "format-space"))
        format_without_memory(error);
    if (!strcmp(how, "format-space-warm")) {
        (void)fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
        format_without_memory(error);
    }
    if (!strcmp(how, "space-none")) {
        (void)RoClearError();
        exhaust_address_space();
        RoFailFastWithErrorContext(E_OUTOFMEMORY);
    }
    if (!strcmp(how, "unhandled"))
        printf("returned %d\n", RoReportUnhandledError(error));
    if (!strcmp(how, "delegate"))
        printf("returned %d\n", RoReportFailedDelegate(NULL, error));
    if (!strncmp(how, "handler-", 8)) {
        stacksplice_set_unhandled_handler(handle, (void *)(uintptr_t)(how + 8));
        printf("returned %d\n", RoReportUnhandledError(error));
        printf("returned %d\n", RoReportFailedDelegate((IUnknown *)error, error));
        printf("refused %d\n", RoReportUnhandledError(NULL) == E_INVALIDARG);
        stacksplice_set_unhandled_handler(NULL, NULL);
        fflush(stdout);
        (void)RoReportUnhandledError(error);
    }
    if (!strncmp(how, "offer-", 6)) {
        printf("asked %d\n", stacksplice_offer_unhandled(NULL));
        printf("offered %d\n", stacksplice_offer_unhandled(error));
        stacksplice_set_unhandled_handler(handle, (void *)(uintptr_t)(how + 6));
        printf("asked %d\n", stacksplice_offer_unhandled(NULL));
        printf("offered %d\n", stacksplice_offer_unhandled(error));
        exit(0);
    }
    if (!strcmp(how, "context")) {
        (void)RoCaptureErrorContext(E_INVALIDARG);
    }
    RoFailFastWithErrorContext(E_INVALIDARG);
}

int main(int count, char **arguments)
{
    const stacksplice_allocator allocator = {sizeof allocator, failing_alloc, failing_realloc,
                                             plain_free, NULL};
    void *frame;

    if (count != 2)
        return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (stacksplice_set_allocator(&allocator) != S_OK)
        return 3;
    signal(SIGABRT, print_stowed);
    if (!strncmp(arguments[1], "damaged-", 8))
        (void)RtlCaptureStackBackTrace(0, 1, &frame, NULL); /* its memory lies before the damage */
    end(arguments[1]);
    return 4;
}
