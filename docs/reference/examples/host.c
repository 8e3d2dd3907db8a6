/* crash.h, deadline.h, dedup.h, redact.h, debugger.h: what a host switches on, and what a debugger reads. */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stacksplice/crash.h>
#include <stacksplice/deadline.h>
#include <stacksplice/debugger.h>
#include <stacksplice/dedup.h>
#include <stacksplice/redact.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print(const char *text, size_t length, void *file)
{
    return fwrite(text, 1, length, file) != length;
}

/* ---- Crashes ---------------------------------------------------------------------------------*/

/* Reports of crashes go to stderr and to a file in DIRECTORY. */
static void report_crashes(const char *directory)
{
    stacksplice_crash_options options = {.size = sizeof options, .directory = directory};

    if (FAILED(stacksplice_install_crash_handler(&options)))
        puts("crashes will not be reported");
}

static void report_no_crashes(void)
{
    stacksplice_remove_crash_handler();
}

/* A thread whose stack overflow is to be reported, too, says so at its beginning. */
static void *work(void *unused)
{
    stacksplice_crash_thread();
    return unused;
}

/* ---- Deadlines -------------------------------------------------------------------------------*/

/* Report the stacks of all threads, to stderr and no file, if the work takes more than a second. */
static int done_in_time(void (*run)(void))
{
    stacksplice_deadline_options options = {
        .size = sizeof options, .name = "prices", .flags = STACKSPLICE_DEADLINE_NO_FILE};
    stacksplice_deadline deadline;

    if (FAILED(stacksplice_deadline_begin(1000, &options, &deadline)))
        return 0;
    run();
    return stacksplice_deadline_end(deadline) == S_OK;
}

static void do_nothing(void)
{
}

/* kill -USR1 PID shows the stacks of all threads. */
static int report_when_asked(void)
{
    return stacksplice_report_on_signal(SIGUSR1) == S_OK;
}

/* A log that names the work as the report does. */
static void log_name(const char *name)
{
    printf("%.*s\n", (int)stacksplice_deadline_name_length(name), name);
}

/* ---- Secrets ---------------------------------------------------------------------------------*/

/* Addresses are secrets here, and so is what a variable called pin or user_pin holds. */
static void hide_more(void)
{
    static const char *const names[] = {"pin"};
    stacksplice_redaction redaction = {.size = sizeof redaction,
                                       .rules =
                                           STACKSPLICE_REDACT_DEFAULT | STACKSPLICE_REDACT_EMAILS,
                                       .names = names,
                                       .name_count = 1};

    stacksplice_set_redaction(&redaction);
}

/* A text of the program's own, as reports would show it. */
static void print_redacted(const char *text)
{
    stacksplice_redact(text, strlen(text), STACKSPLICE_TEXT_MESSAGE, print, stdout);
}

/* In a signal handler: the rules alone, without the host's hook. */
static void print_in_handler(const char *text)
{
    stacksplice_redact_by_rules(text, strlen(text), STACKSPLICE_TEXT_MESSAGE, print, stdout);
}

static void print_variable(const char *name, const char *value)
{
    const char *secret = stacksplice_redact_name(name);

    printf("%s = %s\n", name, secret ? "[hidden]" : value);
}

/* ---- For debuggers ---------------------------------------------------------------------------*/

/* Memory of the process that is looked at; here it is this one. */
static HRESULT read_memory(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    (void)context;
    memcpy(buffer, (const void *)address, length);
    return S_OK;
}

/* The stack of the error of the thread whose anchor is at ANCHOR. */
static UINT32 frames_of_thread(UINT_PTR anchor)
{
    UINT_PTR error, frames;
    UINT32 count = 0;

    if (RoInspectThreadErrorInfo(anchor, IMAGE_FILE_MACHINE_AMD64, read_memory, NULL, &error) ==
        S_OK)
        RoInspectCapturedStackBackTrace(error, IMAGE_FILE_MACHINE_AMD64, read_memory, NULL, &count,
                                        &frames);
    return count;
}

static UINT32 frames_of_this_thread(void)
{
    return frames_of_thread((UINT_PTR)stacksplice_thread_anchor());
}

static int print_place(const stacksplice_frame *frame, void *file)
{
    fprintf(file, "%s %s:%" PRIu32 "\n", frame->function ? frame->function : "?",
            frame->file ? frame->file : "?", frame->line);
    return 0;
}

/* The names of a frame of another process or machine, from its module, build-id and offset. */
static void print_symbols(const char *path, const char *build_id, uint64_t offset)
{
    stacksplice_hresult hr = stacksplice_resolve_file(path, build_id, offset, print_place, stdout);

    if (FAILED(hr))
        printf("%08" PRIx32 "\n", (uint32_t)hr); /* such as another build-id */
    /* Faster, without lines. */
    (void)stacksplice_resolve_symbol(path, build_id, offset, print_place, stdout);
}

/* ---- Storms ----------------------------------------------------------------------------------*/

/* The thread's error, a hundred times: one whole report and a line that says "count":99. */
static void report_a_storm(void)
{
    const stacksplice_dedup_options options = {.size = sizeof options, .window = 10000};
    stacksplice_dedup *dedup;
    IRestrictedErrorInfo *error;

    if (FAILED(stacksplice_dedup_new(&options, &dedup)))
        return;
    if (GetRestrictedErrorInfo(&error) == S_OK) {
        for (int i = 0; i < 100; i++)
            if (stacksplice_dedup_add(dedup, (IUnknown *)error) != S_FALSE)
                stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_BRIEF_JSON, NULL, print,
                                   stdout);
        error->lpVtbl->Release(error);
    }
    stacksplice_dedup_flush(dedup, 1, print, stdout);
    stacksplice_dedup_free(dedup);
}

int main(int count, char **arguments)
{
    pthread_t thread;

    (void)count;
    report_crashes("/tmp");
    assert(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
    report_no_crashes();
    assert(done_in_time(do_nothing));
    assert(report_when_asked());
    log_name("prices");
    hide_more();
    print_redacted("password=hunter2 for joe@example.org\n");
    print_in_handler("password=hunter2\n");
    print_variable("user_pin", "4711");
    RoOriginateErrorW(E_BOUNDS, 0, u"no rate");
    assert(frames_of_this_thread() > 0);
    print_symbols(arguments[0], NULL, 16);
    report_a_storm();
    puts("\nok");
    return 0;
}
