/*
 * stacksplice-inspect: the stacks of all threads of another process, as JSON on standard output.
 *
 * A program of its own: what it reads may be damaged, and neither its own faults nor those of libdw
 * can then hurt anybody else.  `python -m stacksplice dump` runs it and writes what people read.
 */
#include "core/core.h"
#include "live/live.h"
#include "native/native.h"
#include "python/python.h"
#include "report/write.h"
#include "splice/splice.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, REFUSED = 2 };

static int refuse(const char *message)
{
    fprintf(stderr, "%s\n", message);
    return REFUSED;
}

/* Unwind and write all that was read; the exit status. */
static int report(const ssi_target *target, ssi_scripts *scripts)
{
    const char *why = NULL;
    ssi_native *native = ssi_native_new(target, &why);
    ssi_frames stack = {0};

    ssi_splice_assign(target, scripts);
    ssi_scripts_note(scripts, native ? ssi_native_missing(native) : why);
    ssi_write_begin(target, scripts);
    for (size_t i = 0; i < target->thread_count; i++) {
        ssi_splice(native, why, &target->threads[i], scripts, &stack);
        ssi_write_thread(&target->threads[i], &stack, i == 0);
    }
    free(stack.items);
    ssi_native_free(native);
    return ssi_write_end() ? DONE : refuse("standard output takes no more");
}

/* Stop the process, read all that changes, let it go. */
static int read_stopped(ssi_target *target, ssi_pages *pages, const ssi_python *pythons,
                        size_t count, ssi_scripts *scripts)
{
    int error = ssi_live_stop(target);

    if (error)
        return error;
    ssi_live_take_stacks(target, pages);
    for (size_t i = 0; i < count; i++)
        ssi_python_read(target, &pythons[i], scripts);
    ssi_live_release(target);
    ssi_pages_freeze(pages);
    return 0;
}

static int inspect_process(int process)
{
    ssi_target target = {.process = process, .is_live = true};
    ssi_scripts scripts = {0};
    ssi_python pythons[SSI_MAX_PYTHONS];
    ssi_pages *pages = ssi_pages_new(process);
    int error = pages ? ssi_live_maps(&target) : 0, status;
    char message[512];

    if (!pages)
        return refuse("out of memory");
    target.memory = ssi_pages_memory(pages);
    if (!error)
        error = read_stopped(&target, pages, pythons, ssi_python_find(&target, pythons), &scripts);
    if (error) {
        ssi_explain_refusal(process, error, message, sizeof message);
        status = refuse(message);
    } else {
        status = report(&target, &scripts);
    }
    ssi_scripts_free(&scripts);
    ssi_target_free(&target);
    ssi_pages_free(pages);
    return status;
}

static int inspect_core(const char *path, const char *executable, const char *root)
{
    ssi_target target = {0};
    ssi_scripts scripts = {0};
    ssi_python pythons[SSI_MAX_PYTHONS];
    const char *why;
    ssi_core *core;
    size_t count;
    int status;

    if (strlen(root) >= sizeof target.root)
        return refuse("the path of --root is too long");
    strcpy(target.root, root);
    core = ssi_core_open(path, executable, &target, &scripts, &why);
    if (!core)
        return refuse(why);
    count = ssi_python_find(&target, pythons);
    for (size_t i = 0; i < count; i++)
        ssi_python_read(&target, &pythons[i], &scripts);
    status = report(&target, &scripts);
    ssi_scripts_free(&scripts);
    ssi_core_free(core);
    ssi_target_free(&target);
    return status;
}

/* The value behind the option NAME, or NULL. */
static const char *option(char **arguments, const char *name)
{
    for (; arguments[0]; arguments++)
        if (!strcmp(arguments[0], name))
            return arguments[1];
    return NULL;
}

int main(int count, char **arguments)
{
    const char *pid = option(arguments, "--pid"), *core = option(arguments, "--core");
    const char *root = option(arguments, "--root");
    char *end = NULL;
    long process = pid ? strtol(pid, &end, 10) : 0;

    (void)count;
    if (process > 0 && process <= INT_MAX && !*end)
        return inspect_process((int)process);
    if (core)
        return inspect_core(core, option(arguments, "--exe"), root ? root : "");
    return refuse("usage: stacksplice-inspect --pid PROCESS\n"
                  "       stacksplice-inspect --core FILE [--exe FILE] [--root FOLDER]");
}
