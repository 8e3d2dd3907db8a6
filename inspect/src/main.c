/*
 * stacksplice-inspect: the stacks of all threads of another process, as JSON on standard output.
 *
 * A program of its own: what it reads may be damaged, and neither its own faults nor those of libdw
 * can then hurt anybody else.  `python -m stacksplice dump` runs it and writes what people read.
 */
#include "core/core.h"
#include "live/live.h"
#include "lua/lua.h"
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

/* The interpreters of a target, and what they run. */
typedef struct found {
    ssi_python pythons[SSI_MAX_PYTHONS];
    size_t python_count;
    ssi_luas luas;
    ssi_scripts scripts;
} found;

/* What binaries say; it takes time. */
static void find(const ssi_target *target, found *f)
{
    f->python_count = ssi_python_find(target, f->pythons);
    ssi_lua_find(target, &f->luas, &f->scripts);
}

static void read_frames(const ssi_target *target, found *f)
{
    for (size_t i = 0; i < f->python_count; i++)
        ssi_python_read(target, &f->pythons[i], &f->scripts);
    ssi_lua_read(target, &f->luas, &f->scripts);
}

/* Unwind and write all that was read; the exit status. */
static int report(const ssi_target *target, found *f)
{
    const char *why = NULL;
    ssi_native *native = ssi_native_new(target, &why);
    ssi_frames stack = {0};

    ssi_splice_assign(target, &f->scripts);
    ssi_scripts_note(&f->scripts, native ? ssi_native_missing(native) : why);
    ssi_write_begin(target, &f->scripts);
    for (size_t i = 0; i < target->thread_count; i++) {
        ssi_splice(target, native, why, &target->threads[i], &f->luas, &f->scripts, &stack);
        ssi_write_thread(&target->threads[i], &stack, i == 0);
    }
    free(stack.items);
    ssi_native_free(native);
    return ssi_write_end() ? DONE : refuse("standard output takes no more");
}

/* Stop the process, read all that changes, let it go. */
static int read_stopped(ssi_target *target, ssi_pages *pages, found *f)
{
    int error;

    ssi_pages_forget(pages);
    error = ssi_live_stop(target);
    if (error)
        return error;
    ssi_pages_take_stacks(pages, target);
    read_frames(target, f);
    ssi_live_release(target);
    ssi_pages_freeze(pages);
    return 0;
}

static int inspect_process(int process, found *f)
{
    ssi_target target = {.machine = ssi_machine_own(), .process = process, .is_live = true};
    ssi_pages *pages = ssi_pages_new(ssi_live_fetch, &target);
    int error = pages ? ssi_live_maps(&target) : 0, status;
    char message[512];

    if (!pages)
        return refuse("out of memory");
    target.memory = ssi_pages_memory(pages);
    if (!error) {
        find(&target, f);
        error = read_stopped(&target, pages, f);
    }
    if (error) {
        ssi_explain_refusal(process, error, message, sizeof message);
        status = refuse(message);
    } else {
        status = report(&target, f);
    }
    ssi_target_free(&target);
    ssi_pages_free(pages);
    return status;
}

static int inspect_core(const char *path, const char *executable, const char *root, found *f)
{
    ssi_target target = {0};
    const char *why;
    ssi_core *core;
    int status;

    if (strlen(root) >= sizeof target.root)
        return refuse("the path of --root is too long");
    strcpy(target.root, root);
    core = ssi_core_open(path, executable, &target, &f->scripts, &why);
    if (core) {
        find(&target, f);
        read_frames(&target, f);
        status = report(&target, f);
    } else {
        status = refuse(why);
    }
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
    found f = {0};
    int status = -1;

    (void)count;
    if (process > 0 && process <= INT_MAX && !*end)
        status = inspect_process((int)process, &f);
    else if (core)
        status = inspect_core(core, option(arguments, "--exe"), root ? root : "", &f);
    ssi_lua_free(&f.luas);
    ssi_scripts_free(&f.scripts);
    return status >= 0
               ? status
               : refuse("usage: stacksplice-inspect --pid PROCESS\n"
                        "       stacksplice-inspect --core FILE [--exe FILE] [--root FOLDER]");
}
