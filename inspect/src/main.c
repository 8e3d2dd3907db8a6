/*
 * stacksplice-inspect: the stacks of all threads of another process, as JSON on standard output.
 *
 * A program of its own: what it reads may be damaged, and neither its own faults nor those of libdw
 * can then hurt anybody else.  `python -m stacksplice dump` runs it and writes what people read.
 */
#include "core/core.h"
#include "errors/errors.h"
#include "errors/token.h"
#include "live/live.h"
#include "lua/lua.h"
#include "native/native.h"
#include "python/python.h"
#include "report/error.h"
#include "report/exception.h"
#include "report/json.h"
#include "report/write.h"
#include "served/served.h"
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
    ssi_blocks blocks;
    ssi_errors errors;
    uint64_t token; /* only this element of a stack is asked for; or 0 */
    ssi_frame named;
    const ssi_served *served; /* by a debugger; or NULL */
} found;

/* What binaries say; it takes time. */
static void find(const ssi_target *target, found *f)
{
    f->python_count = ssi_python_find(target, f->pythons);
    ssi_lua_find(target, &f->luas, &f->scripts);
    ssi_blocks_find(target, &f->blocks, &f->scripts);
}

static void read_frames(const ssi_target *target, found *f)
{
    for (size_t i = 0; i < f->python_count; i++)
        ssi_python_read(target, &f->pythons[i], &f->scripts);
    ssi_lua_read(target, &f->luas, &f->scripts);
    ssi_errors_read(target, &f->blocks, &f->errors, &f->scripts);
    if (f->token)
        f->named = ssi_token_look_up(target, &f->blocks, f->token);
}

/* Write what the token stands for; the exit status. */
static int report_token(const ssi_target *target, found *f)
{
    const char *why = NULL;
    ssi_frames frames = {0};
    ssi_native *native = f->named.kind == SSI_NATIVE ? ssi_native_new(target, &why) : NULL;

    if (native)
        f->named = ssi_native_describe(native, &(ssi_native_frame){.address = f->token});
    if (f->served && ssi_frames_add(&frames, &f->named)) {
        ssi_served_describe(f->served, &frames);
        ssi_write_frames(frames.items, frames.count);
        free(frames.items);
    } else {
        ssi_write_frame(&f->named);
    }
    ssi_native_free(native);
    return putchar('\n') < 0 || fflush(stdout) ? refuse("standard output takes no more") : DONE;
}

/* The error of THREAD, or of the fail fast: 0.  A debugger gets its text, as "error_text". */
static void put_error(const char *name, const found *f, int thread)
{
    const ssi_error *error = ssi_errors_of(&f->errors, thread);
    char *text = f->served ? ssi_served_error_text(f->served, &f->errors, error) : NULL;
    char text_name[16];

    snprintf(text_name, sizeof text_name, "%s_text", name);
    ssi_put_member(text_name, text);
    ssi_put_error(name, &f->errors, error);
    free(text);
}

/* Unwind and write all that was read; the exit status. */
static int report(const ssi_target *target, found *f)
{
    const char *why = NULL;
    ssi_native *native = ssi_native_new(target, &why);
    ssi_frames stack = {0};
    bool is_first = true;

    ssi_splice_assign(target, &f->scripts);
    ssi_scripts_note(&f->scripts, native ? ssi_native_missing(native) : why);
    ssi_errors_describe(&f->errors, native);
    ssi_write_begin(target, &f->scripts);
    for (size_t i = 0; i < target->thread_count; i++) {
        if (f->served && !ssi_served_shows(f->served, target->threads[i].id))
            continue;
        if (!f->served || !f->served->errors)
            ssi_splice(target, native, why, &target->threads[i], &f->luas, &f->scripts, &stack);
        if (f->served)
            ssi_served_describe(f->served, &stack);
        ssi_write_thread(&target->threads[i], &stack, is_first);
        put_error("error", f, target->threads[i].own_id);
        ssi_put_exceptions(&f->scripts, target->threads[i].own_id);
        ssi_write_thread_end();
        is_first = false;
    }
    ssi_write_threads_end();
    ssi_put_interpreters(&f->errors);
    put_error("failed", f, 0);
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
        status = f->token ? report_token(&target, f) : report(&target, f);
    }
    ssi_target_free(&target);
    ssi_pages_free(pages);
    return status;
}

/* What is read stays as it is, unlike a running process. */
static int inspect_resting(const ssi_target *target, found *f)
{
    find(target, f);
    read_frames(target, f);
    return f->token ? report_token(target, f) : report(target, f);
}

static int inspect_core(ssi_target *target, const char *path, const char *executable, found *f)
{
    const char *why;
    ssi_core *core = ssi_core_open(path, executable, target, &f->scripts, &why);
    int status = core ? inspect_resting(target, f) : refuse(why);

    ssi_core_free(core);
    return status;
}

static int inspect_file(const char *path, const char *executable, const char *root, found *f)
{
    ssi_target target = {0};
    int status;

    if (strlen(root) >= sizeof target.root)
        return refuse("the path of --root is too long");
    strcpy(target.root, root);
    status = inspect_core(&target, path, executable, f);
    ssi_target_free(&target);
    return status;
}

static int inspect_memory(ssi_target *target, found *f)
{
    ssi_pages *pages = ssi_pages_new(ssi_served_fetch, NULL);
    int status;

    if (!pages)
        return refuse("out of memory");
    target->memory = ssi_pages_memory(pages);
    ssi_pages_take_stacks(pages, target);
    status = inspect_resting(target, f);
    ssi_pages_free(pages);
    return status;
}

static int inspect_served(found *f)
{
    ssi_target target = {.machine = ssi_machine_own()};
    ssi_served served = {0};
    const char *why = ssi_served_read(&served, &target);
    int status;

    f->served = &served;
    f->token = served.token;
    if (why)
        status = refuse(why);
    else if (served.core)
        status = inspect_core(&target, served.core, served.executable, f);
    else
        status = inspect_memory(&target, f);
    ssi_served_free(&served);
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

static bool has_option(char **arguments, const char *name)
{
    while (*arguments && strcmp(*arguments, name) != 0)
        arguments++;
    return *arguments != NULL;
}

int main(int count, char **arguments)
{
    const char *pid = option(arguments, "--pid"), *core = option(arguments, "--core");
    const char *root = option(arguments, "--root"), *token = option(arguments, "--token");
    char *end = NULL;
    long process = pid ? strtol(pid, &end, 10) : 0;
    found f = {.scripts.with_locals = has_option(arguments, "--locals")};
    int status = -1;

    f.token = token ? strtoull(token, NULL, 0) : 0;
    if (process > 0 && process <= INT_MAX && !*end)
        status = inspect_process((int)process, &f);
    else if (core)
        status = inspect_file(core, option(arguments, "--exe"), root ? root : "", &f);
    else if (count == 2 && !strcmp(arguments[1], "--served"))
        status = inspect_served(&f);
    ssi_lua_free(&f.luas);
    ssi_errors_free(&f.errors);
    ssi_scripts_free(&f.scripts);
    return status >= 0
               ? status
               : refuse("usage: stacksplice-inspect --pid PROCESS [--locals]\n"
                        "       stacksplice-inspect --core FILE [--exe FILE] [--root FOLDER] "
                        "[--locals]\n"
                        "       --token ELEMENT writes only what that element of a stack is\n"
                        "       stacksplice-inspect --served (for debuggers)");
}
