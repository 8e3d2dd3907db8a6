#include "inspection.h"

#include "errors/errors.h"
#include "native/native.h"
#include "report/report.h"
#include "splice/splice.h"

#include <stdio.h>
#include <stdlib.h>

void ssi_inspection_find(ssi_inspection *i, const ssi_target *target)
{
    for (size_t at = 0; at < target->mapping_count; at++) {
        const ssi_mapping *first = &target->mappings[at];
        uint64_t end = ssi_target_binary_end(target, at);
        ssi_binary binary;

        if (!end || !ssi_binary_open(target, first, &binary))
            continue;
        i->python_count = ssi_python_add(i->pythons, i->python_count, &binary, first);
        if (!ssi_lua_add(&i->luas, &binary, first, end, &i->scripts))
            ssi_binary_close(&binary);
    }
    ssi_blocks_find(target, &i->blocks, &i->scripts);
    /* The last: the names of threads should be new when the process is stopped. */
    for (size_t at = 0; at < i->python_count; at++)
        ssi_python_learn(&i->pythons[at]);
}

bool ssi_inspection_wants_stacks(const ssi_inspection *i)
{
    return !i->served.scripts || i->python_count || i->luas.copy_count;
}

void ssi_inspection_read(ssi_inspection *i, const ssi_target *target)
{
    ssi_budget_renew();
    for (size_t at = 0; at < i->python_count; at++)
        ssi_python_read(&i->pythons[at], &i->scripts);
    ssi_lua_read(target, &i->luas, &i->scripts);
    if (!i->served.scripts)
        ssi_errors_read(&i->blocks, &i->errors, &i->scripts);
    if (i->has_token)
        i->named = ssi_token_look_up(&i->blocks, i->token);
    if (ssi_budget_is_spent() || i->scripts.frames.count == SSI_MAX_FRAMES ||
        i->scripts.run_count == SSI_MAX_RUNS)
        ssi_scripts_note(&i->scripts,
                         "the process has more than can be read, or is damaged: frames "
                         "of scripts or errors are left out");
}

static void write_token(ssi_inspection *i, const ssi_target *target)
{
    const char *why = NULL;
    ssi_frames frames = {0};
    bool wants_module = i->named.kind == SSI_NATIVE && !i->named.module;
    ssi_native *native = wants_module ? ssi_native_new(target, &why) : NULL;

    if (native)
        i->named = ssi_native_describe(native, &(ssi_native_frame){.address = i->token});
    if (i->served.target && ssi_frames_add(&frames, &i->named)) {
        ssi_served_describe(&i->served, &frames);
        ssi_write_frames(frames.items, frames.count);
        free(frames.items);
    } else {
        ssi_write_frame(&i->named);
    }
    ssi_native_free(native);
}

/* The text of ERROR for a debugger, which the caller frees; or NULL. */
static char *text_of(ssi_inspection *i, const ssi_error *error)
{
    char *json = NULL, *text;
    size_t size;
    FILE *file = error && i->served.target ? open_memstream(&json, &size) : NULL;

    if (!file)
        return NULL;
    ssi_served_describe_error(&i->served, &i->errors, error);
    ssi_write_error(file, &i->errors, error);
    fclose(file);
    text = json ? ssi_served_text_of(json, size) : NULL;
    free(json);
    return text;
}

/* The error of THREAD, or of the fail fast: 0.  A debugger gets its text, as "error_text". */
static void write_error(ssi_inspection *i, const char *name, int thread)
{
    const ssi_error *error = ssi_errors_of(&i->errors, thread);
    char *text = text_of(i, error);
    char text_name[16];

    snprintf(text_name, sizeof text_name, "%s_text", name);
    ssi_put_member(text_name, text);
    ssi_put_error(name, &i->errors, error);
    free(text);
}

/* Whether the stack of THREAD is to be unwound, which also says where functions of Lua ran. */
static bool wants_stack(const ssi_inspection *i, const ssi_thread *thread)
{
    if (!i->served.scripts)
        return !i->served.errors;
    if (i->luas.state_count)
        return true;
    for (size_t at = 0; at < i->scripts.run_count; at++)
        if (i->scripts.runs[at].thread == thread->id)
            return true;
    return false;
}

/* Unwind and write all that was read. */
static void write_threads(ssi_inspection *i, const ssi_target *target)
{
    const char *why = NULL;
    ssi_native *native = ssi_inspection_wants_stacks(i) ? ssi_native_new(target, &why) : NULL;
    ssi_frames stack = {0};
    bool is_first = true;

    ssi_splice_assign(target, &i->scripts);
    ssi_scripts_note(&i->scripts, native ? ssi_native_missing(native) : why);
    ssi_errors_describe(&i->errors, native);
    ssi_write_begin(target, &i->scripts);
    for (size_t at = 0; at < target->thread_count; at++) {
        const ssi_thread *thread = &target->threads[at];

        if (i->served.thread && i->served.thread != thread->id)
            continue;
        stack.count = 0;
        if (wants_stack(i, thread))
            ssi_splice(target, native, why, thread, &i->luas, &i->scripts, &stack);
        ssi_served_describe(&i->served, &stack);
        ssi_write_thread(thread, &stack, is_first);
        write_error(i, "error", thread->own_id);
        ssi_put_exceptions(&i->scripts, thread->own_id);
        ssi_put_attached(&i->scripts, target->machine, thread);
        putchar('}');
        is_first = false;
    }
    putchar(']');
    ssi_put_interpreters(&i->errors);
    write_error(i, "failed", 0);
    free(stack.items);
    ssi_native_free(native);
    putchar('}');
}

bool ssi_inspection_write(ssi_inspection *i, const ssi_target *target)
{
    ssi_budget_renew();
    if (i->has_token)
        write_token(i, target);
    else
        write_threads(i, target);
    putchar('\n');
    return !fflush(stdout) && !ferror(stdout);
}

void ssi_inspection_free(ssi_inspection *i)
{
    for (size_t at = 0; at < i->python_count; at++)
        ssi_python_free(&i->pythons[at]);
    ssi_lua_free(&i->luas);
    ssi_errors_free(&i->errors);
    ssi_scripts_free(&i->scripts);
}
