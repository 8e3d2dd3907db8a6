/*
 * stacksplice-inspect: the stacks of all threads of another process, as JSON on standard output.
 *
 * A program of its own: what it reads may be damaged, and neither its own faults nor those of libdw
 * can then hurt anybody else.  `stacksplice dump` runs it and writes what people read.
 */
#include "core/core.h"
#include "inspection.h"
#include "live/live.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DONE = 0, REFUSED = 2, MAX_STOPPED_SECONDS = 20 };

static int refuse(const char *message)
{
    fprintf(stderr, "%s\n", message);
    return REFUSED;
}

/* The exit status. */
static int report(const ssi_target *target, ssi_inspection *i)
{
    return ssi_inspection_write(i, target) ? DONE : refuse("standard output takes no more");
}

typedef struct stopping {
    ssi_target *target;
    ssi_pages *pages;
    ssi_inspection *i;
    int error;
} stopping;

/* Code that no file has and that never changes: what unwinds through it is read when the process
   runs again. */
static void take_kernels_code(ssi_pages *pages, const ssi_target *target)
{
    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (m->path && !strcmp(m->path, "[vdso]"))
            ssi_pages_take(pages, m->start, m->end);
    }
}

/* Stop the process, read all that changes, let it go. */
static void *read_stopped(void *data)
{
    stopping *s = data;

    ssi_pages_forget(s->pages);
    take_kernels_code(s->pages, s->target);
    s->error = ssi_live_stop(s->target);
    if (s->error)
        return NULL;
    ssi_pages_take_stacks(s->pages, s->target);
    ssi_inspection_read(s->i, s->target);
    ssi_live_read_user(s->target, s->target->living);
    ssi_live_release(s->target);
    ssi_pages_freeze(s->pages);
    return NULL;
}

/* The process may itself be who brings the memory that is read, by userfaultfd or FUSE. */
static void give_up(int signal)
{
    static const char why[] = "the memory of the process cannot be read in time: it goes on\n";

    (void)signal;
    if (write(STDERR_FILENO, why, sizeof why - 1) < 0)
        _exit(REFUSED);
    _exit(REFUSED);
}

/* A thread that could not be stopped would still stop for its tracer later, and wait for it.  So
   the tracer is a thread of its own: when it ends, the kernel lets go all that it traced. */
static int read_by_tracer(ssi_target *target, ssi_pages *pages, ssi_inspection *i)
{
    stopping s = {target, pages, i, 0};
    pthread_t tracer;
    int error;

    signal(SIGALRM, give_up);
    alarm(MAX_STOPPED_SECONDS);
    error = pthread_create(&tracer, NULL, read_stopped, &s);
    if (error)
        return error;
    pthread_join(tracer, NULL);
    alarm(0);
    return s.error || ssi_live_is_same(target) ? s.error : ESTALE;
}

static int inspect_process(int process, ssi_inspection *i)
{
    ssi_target target = {.machine = ssi_machine_own(), .process = process, .is_live = true};
    ssi_pages *pages = ssi_pages_new(ssi_live_fetch, &target);
    int error = pages ? ssi_live_maps(&target) : 0, status;
    char message[512];

    if (!pages)
        return refuse("out of memory");
    if (!error) {
        ssi_inspection_find(i, &target);
        error = read_by_tracer(&target, pages, i);
    }
    if (error) {
        ssi_explain_refusal(process, error, message, sizeof message);
        status = refuse(message);
    } else {
        status = report(&target, i);
    }
    ssi_target_free(&target);
    ssi_pages_free(pages);
    return status;
}

/* What is read stays as it is, unlike a running process. */
static int inspect_core(ssi_target *target, const char *path, const char *executable,
                        ssi_inspection *i)
{
    const char *why;
    ssi_core *core = ssi_core_open(path, executable, target, &i->scripts, &why);
    int status;

    if (!core)
        return refuse(why);
    ssi_inspection_find(i, target);
    ssi_inspection_read(i, target);
    status = report(target, i);
    ssi_core_free(core);
    return status;
}

static int inspect_memory(ssi_target *target, const char *executable, ssi_inspection *i)
{
    ssi_pages *pages = ssi_pages_new(ssi_served_fetch, NULL);
    int status;

    target->executable = executable ? strdup(executable) : NULL;
    if (!pages)
        return refuse("out of memory");
    if (ssi_target_number_here(target))
        ssi_live_read_user(target, ssi_target_number_here(target));
    ssi_inspection_find(i, target);
    if (ssi_inspection_wants_stacks(i))
        ssi_pages_take_stacks(pages, target);
    ssi_inspection_read(i, target);
    status = report(target, i);
    ssi_pages_free(pages);
    return status;
}

/* The command line: the words behind options, and which options without one are there. */
enum { CORE = 1, EXECUTABLE, MACHINE, PROCESS, ROOT, THREAD, TOKEN, WORDS };
typedef struct command {
    const char *words[WORDS];
    unsigned long long numbers[WORDS];
    int errors, help, is_served, scripts, version, with_locals, with_tasks;
} command;

/* A core file, or what a debugger serves. */
static int inspect_resting(const command *c, ssi_inspection *i)
{
    const ssi_machine *machine = ssi_machine_find((unsigned)c->numbers[MACHINE]);
    ssi_target target = {.process = (int)c->numbers[PROCESS],
                         .machine = machine ? machine : ssi_machine_own()};
    const char *root = c->words[ROOT] ? c->words[ROOT] : "";
    const char *why = strlen(root) < sizeof target.root ? NULL : "the path of --root is too long";
    int status;

    if (!why)
        memcpy(target.root, root, strlen(root));
    if (!why && c->is_served)
        why = ssi_served_read(&i->served, &target);
    if (!why && c->is_served)
        why = ssi_served_load();
    if (why)
        status = refuse(why);
    else if (c->words[CORE])
        status = inspect_core(&target, c->words[CORE], c->words[EXECUTABLE], i);
    else
        status = inspect_memory(&target, c->words[EXECUTABLE], i);
    ssi_target_free(&target);
    return status;
}

/* Each binary of the process stays open, and some have more than the usual limit. */
static void allow_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* In the shape of the Python command's own, which the manual pages are made from. */
static const char help[] =
    "usage: stacksplice-inspect --pid PROCESS [--locals] [--tasks]\n"
    "       stacksplice-inspect --core FILE [--exe FILE] [--root DIR] [--locals]\n"
    "                           [--tasks]\n"
    "       stacksplice-inspect --served [option ...]\n"
    "\n"
    "Write the stacks of all threads of another process, or of a core file, as JSON\n"
    "on standard output. The commands dump and core of stacksplice run this program\n"
    "and print what people read.\n"
    "\n"
    "options:\n"
    "  -h, --help        show this help message and exit\n"
    "  --version         show the version and exit\n"
    "  --pid PROCESS     read this process, which is paused for a moment\n"
    "  --core FILE       read this core file\n"
    "  --exe FILE        the program, if it is not where it was\n"
    "  --root DIR        where the files of the core's machine are here\n"
    "  --locals          also write local variables of script frames\n"
    "  --tasks           also write the tasks of asyncio\n"
    "  --token ELEMENT   write only what that element of a stack is\n"
    "  --served          read what a debugger says on standard input instead\n"
    "  --machine NUMBER  with --served: the machine, by its number in ELF files\n"
    "  --thread NUMBER   with --served: write this thread alone\n"
    "  --scripts         with --served: only threads that may run scripts\n"
    "  --errors          with --served: write the errors, and no stacks of threads\n"
    "\n"
    "exit status:\n"
    "  0     the stacks were written\n"
    "  2     they cannot be read or written, or the command line is wrong\n";

static int printed(int count)
{
    return count < 0 || fflush(stdout) ? refuse("standard output takes no more") : DONE;
}

/* False after a line of getopt_long's about what is wrong. */
static bool take_options(command *c, int count, char **arguments)
{
    const struct option options[] = {
        {"help", no_argument, &c->help, true},
        {"version", no_argument, &c->version, true},
        {"pid", required_argument, NULL, PROCESS},
        {"core", required_argument, NULL, CORE},
        {"exe", required_argument, NULL, EXECUTABLE},
        {"root", required_argument, NULL, ROOT},
        {"locals", no_argument, &c->with_locals, true},
        {"tasks", no_argument, &c->with_tasks, true},
        {"token", required_argument, NULL, TOKEN},
        {"served", no_argument, &c->is_served, true},
        {"machine", required_argument, NULL, MACHINE},
        {"thread", required_argument, NULL, THREAD},
        {"scripts", no_argument, &c->scripts, true},
        {"errors", no_argument, &c->errors, true},
        {NULL, 0, NULL, 0},
    };
    int found;

    optind = 0; /* from the start, also when a fuzzer calls again */
    while ((found = getopt_long(count, arguments, "h", options, NULL)) != -1) {
        if (found == 'h')
            c->help = true;
        else if (found > 0 && found < WORDS)
            c->words[found] = optarg;
        else if (found)
            return false;
    }
    return true;
}

/* Whether the word behind that option, if there is one, is a number of at most LIMIT. */
static bool take_number(command *c, int which, unsigned long long limit)
{
    const char *word = c->words[which] ? c->words[which] : "0";
    char *end = NULL;

    errno = 0;
    c->numbers[which] = strtoull(word, &end, 0);
    return *word >= '0' && *word <= '9' && !*end && !errno && c->numbers[which] <= limit;
}

/* What is wrong with options that each are right, or NULL. */
static const char *mismatch(const command *c)
{
    if (c->is_served)
        return NULL;
    if (c->words[MACHINE] || c->words[THREAD] || c->scripts || c->errors)
        return "--machine, --thread, --scripts and --errors go with --served";
    if (!c->words[PROCESS] == !c->words[CORE])
        return "say --pid PROCESS or --core FILE; stacksplice-inspect --help says more";
    if (!c->words[CORE] && (c->words[EXECUTABLE] || c->words[ROOT]))
        return "--exe and --root go with --core";
    return NULL;
}

int main(int count, char **arguments)
{
    ssi_inspection i = {0};
    command c = {.help = false};
    const char *why;
    int status;

    if (!take_options(&c, count, arguments))
        return REFUSED;
    if (c.help)
        return printed(printf("%s", help));
    if (c.version)
        return printed(printf("stacksplice-inspect %s\n", SSI_VERSION));
    if (optind < count)
        return refuse("only options are understood; stacksplice-inspect --help lists them");
    if (!take_number(&c, PROCESS, INT_MAX) ||
        (c.words[PROCESS] && !c.is_served && !c.numbers[PROCESS]))
        return refuse("--pid needs the number of a process");
    if (!take_number(&c, MACHINE, UINT16_MAX) || !take_number(&c, THREAD, INT_MAX) ||
        !take_number(&c, TOKEN, UINT64_MAX))
        return refuse("--machine, --thread and --token need numbers");
    if ((why = mismatch(&c)))
        return refuse(why);
    i.scripts.with_locals = c.with_locals;
    i.scripts.with_tasks = c.with_tasks;
    i.scripts.shows_secrets = c.is_served;
    i.has_token = c.words[TOKEN] != NULL;
    i.token = c.numbers[TOKEN];
    i.served.thread = (int)c.numbers[THREAD];
    i.served.errors = c.errors;
    i.served.scripts = c.scripts;
    allow_files();
    status = c.words[PROCESS] && !c.is_served ? inspect_process((int)c.numbers[PROCESS], &i)
                                              : inspect_resting(&c, &i);
    ssi_inspection_free(&i);
    return status;
}
