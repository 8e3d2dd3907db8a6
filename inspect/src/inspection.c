#include "inspection.h"

#include "errors/errors.h"
#include "native/native.h"
#include "splice/splice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ssi_inspection_find(ssi_inspection *i, const ssi_target *target)
{
    for (size_t at = 0; at < target->mapping_count; at++) {
        const ssi_mapping *first = &target->mappings[at];
        uint64_t end = ssi_target_binary_end(target, at);
        ssi_binary binary;

        if (!end || !ssi_binary_open(target, first, &binary))
            continue;
        ssi_pythons_add(&i->pythons, &binary, first, &i->scripts);
        if (!ssi_lua_add(&i->luas, &binary, first, end, &i->scripts))
            ssi_binary_close(&binary);
    }
    ssi_blocks_find(target, &i->blocks, &i->scripts);
    /* The last: the names of threads should be new when the process is stopped. */
    ssi_pythons_learn(&i->pythons);
}

bool ssi_inspection_wants_stacks(const ssi_inspection *i)
{
    return !i->served.scripts || i->pythons.count || i->luas.copy_count;
}

void ssi_inspection_read(ssi_inspection *i, const ssi_target *target)
{
    ssi_budget_renew();
    ssi_pythons_read(&i->pythons, &i->scripts);
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

/* ---- Parts of the document, schema stacksplice-dump/1 ------------------------------------------*/

/*
 * A thread that waits for a GIL is in the kernel, which has the address that it waits at: inside of
 * the GIL's condition variables.  Their own address is what functions of the C library are given,
 * and does not count.
 */

enum { CONDITION = 32, SWITCH_CONDITION = 120, CONDITION_SIZE = 48 };

/* The member "pythons" of a process. */
static void write_pythons(ssi_written *to, const ssi_scripts *scripts)
{
    for (size_t i = 0; i < scripts->interpreter_count; i++) {
        const ssi_script_interpreter *of = &scripts->interpreters[i];

        ssi_write_format(to, "%s{\"interpreter\":%" PRId64, i ? "," : ",\"pythons\":[", of->number);
        ssi_write_member(to, "version", of->version);
        ssi_write_member(to, "file", of->path);
        ssi_write(to, of->collects ? ",\"collecting\":true}" : "}");
    }
    if (scripts->interpreter_count)
        ssi_write(to, "]");
}

static bool is_inside(uint64_t place, uint64_t condition)
{
    return place > condition && place < condition + CONDITION_SIZE;
}

static bool waits(uint64_t lock, const ssi_machine *machine, const ssi_thread *thread)
{
    uint64_t place = thread->registers[machine->argument];

    return lock && thread->has_registers &&
           (is_inside(place, lock + CONDITION) || is_inside(place, lock + SWITCH_CONDITION));
}

static void write_attached(ssi_written *to, const ssi_scripts *scripts, const ssi_machine *machine,
                           const ssi_thread *thread)
{
    const ssi_task *task = ssi_task_of(scripts, thread->own_id);
    bool any = false;

    for (size_t i = 0; i < scripts->attached_count; i++) {
        const ssi_attached *of = &scripts->attached[i];

        if (of->thread != thread->own_id)
            continue;
        ssi_write_format(to, "%s{\"interpreter\":%" PRId64, any ? "," : ",\n\"python\":[",
                         of->interpreter);
        ssi_write_member(to, "name", of->name);
        if (task && task->interpreter == of->interpreter)
            ssi_write_member(to, "task", task->name ? task->name : "");
        ssi_write_member(to, "gil",
                         of->holds                          ? "held"
                         : waits(of->lock, machine, thread) ? "waiting"
                                                            : NULL);
        ssi_write(to, of->collects ? ",\"collecting\":true}" : "}");
        any = true;
    }
    if (any)
        ssi_write(to, "]");
}

/* For the reader of source lines, who takes it out. */
static void write_user(ssi_written *to, const ssi_user *user)
{
    if (!user->is_known)
        return;
    ssi_write_format(to, ",\"user\":{\"id\":%u", user->id);
    ssi_write_member(to, "groups", user->groups);
    if (user->enters_all)
        ssi_write(to, ",\"enters_all\":true");
    if (user->reads_all)
        ssi_write(to, ",\"reads_all\":true");
    ssi_write(to, "}");
}

static void write_begin(ssi_written *to, const ssi_target *target, const ssi_scripts *scripts)
{
    ssi_write_format(to, "{\"schema\":\"stacksplice-dump/1\",\"process\":{\"id\":%d",
                     target->process);
    ssi_write_member(to, "executable", target->executable);
    if (target->is_live)
        ssi_write_format(to, ",\"stopped_microseconds\":%" PRIu64,
                         (target->stopped_ns + 999) / 1000);
    ssi_write_number(to, "signal", (uint64_t)target->signal);
    if (target->has_fault)
        ssi_write_format(to, ",\"fault_address\":\"0x%" PRIx64 "\"", target->fault);
    if (target->has_sender)
        ssi_write_format(to, ",\"sender\":{\"process\":%d,\"user\":%d}", target->sender,
                         target->sender_user);
    ssi_write_member(to, "command_line", target->command);
    write_pythons(to, scripts);
    write_user(to, &target->user);
    ssi_write(to, "},\"notes\":[");
    for (size_t i = 0; i < scripts->note_count; i++) {
        ssi_write(to, i ? "," : "");
        ssi_write_text(to, scripts->notes[i], strlen(scripts->notes[i]));
    }
    ssi_write(to, "],\"threads\":[");
}

static void write_thread(ssi_written *to, const ssi_thread *thread, const ssi_frames *stack,
                         bool is_first)
{
    ssi_write_format(to, "%s\n{\"thread_id\":%d", is_first ? "" : ",", thread->id);
    if (thread->name[0])
        ssi_write_member(to, "name", thread->name);
    ssi_write_member(to, "state", thread->state);
    ssi_write(to, ",\"stack\":");
    ssi_write_frames(to, stack->items, stack->count);
}

static void write_exception(ssi_written *to, const ssi_scripts *scripts, const ssi_exception *e)
{
    ssi_write_format(to, "{\"language\":\"%s\"", e->language);
    ssi_write_member(to, "state", e->state);
    ssi_write_member(to, "relation", e->relation);
    ssi_write_member(to, "type", e->type);
    ssi_write(to, ",\"arguments\":");
    ssi_write(to, e->arguments ? e->arguments : "null");
    ssi_write(to, ",\"stack\":");
    ssi_write_frames(to, scripts->frames.items + e->first, e->count);
    ssi_write(to, "}");
}

static void write_exceptions(ssi_written *to, const ssi_scripts *scripts, int thread)
{
    bool any = false;

    for (size_t i = 0; i < scripts->exception_count; i++) {
        if (scripts->exceptions[i].thread != thread)
            continue;
        ssi_write(to, any ? ",\n" : ",\n\"exceptions\":[");
        write_exception(to, scripts, &scripts->exceptions[i]);
        any = true;
    }
    if (any)
        ssi_write(to, "]");
}

/* The thread is named as elsewhere in the document. */
static void write_task(ssi_written *to, const ssi_target *target, const ssi_scripts *scripts,
                       const ssi_task *task)
{
    ssi_write_format(to, "{\"address\":\"0x%" PRIx64 "\",\"interpreter\":%" PRId64, task->address,
                     task->interpreter);
    ssi_write_member(to, "name", task->name);
    for (size_t i = 0; task->running && i < target->thread_count; i++)
        if (target->threads[i].own_id == (int)(uint32_t)task->running)
            ssi_write_number(to, "thread_id", (uint64_t)target->threads[i].id);
    if (task->is_ready)
        ssi_write(to, ",\"ready\":true");
    ssi_write_member(to, "awaits", task->awaits);
    ssi_write(to, ",\"awaited_by\":[");
    for (size_t i = 0; i < task->awaited_by_count; i++)
        ssi_write_format(to, "%s\"0x%" PRIx64 "\"", i ? "," : "",
                         scripts->tasks[scripts->awaiting[task->awaited_by + i]].address);
    ssi_write(to, "]}");
}

/* The member "tasks": those with equal stacks together. */
static void write_tasks(ssi_written *to, const ssi_target *target, const ssi_scripts *scripts)
{
    for (size_t i = 0; i < scripts->task_count; i++) {
        const ssi_task *first = &scripts->tasks[i];

        if (!i)
            ssi_write(to, ",\n\"tasks\":[");
        if (first->group != i)
            continue;
        ssi_write(to, i ? ",\n{\"stack\":" : "{\"stack\":");
        ssi_write_frames(to, scripts->frames.items + first->first, first->count);
        ssi_write(to, ",\"members\":[");
        for (size_t at = i; at < scripts->task_count; at++) {
            if (scripts->tasks[at].group != i)
                continue;
            ssi_write(to, at > i ? "," : "");
            write_task(to, target, scripts, &scripts->tasks[at]);
        }
        ssi_write(to, "]}");
    }
    if (scripts->task_count)
        ssi_write(to, "]");
}

static void write_interpreters(ssi_written *to, const ssi_errors *errors)
{
    for (size_t i = 0; i < errors->interpreter_count; i++) {
        const ssi_interpreter *known = &errors->interpreters[i];

        ssi_write(to, i ? ",\n{\"language\":" : ",\n\"interpreters\":[{\"language\":");
        ssi_write_text(to, known->language, strlen(known->language));
        ssi_write_member(to, "version", known->version);
        ssi_write_format(to, ",\"address\":\"0x%" PRIx64 "\"}", known->address);
    }
    if (errors->interpreter_count)
        ssi_write(to, "]");
}

/* ---- All of it --------------------------------------------------------------------------------*/

/* What describes frames that are only addresses. */
typedef struct naming {
    const ssi_served *served;
    ssi_native *native; /* or NULL */
} naming;

static void describe(void *data, ssi_frames *stack)
{
    const naming *n = data;

    for (size_t i = 0; n->native && i < stack->count; i++) {
        ssi_frame *frame = &stack->items[i];

        if (frame->known.kind == STACKSPLICE_FRAME_NATIVE && !frame->known.module)
            *frame = ssi_native_describe(n->native,
                                         &(ssi_native_frame){.address = frame->known.address});
    }
    ssi_served_describe(n->served, stack);
}

static void write_token(const ssi_inspection *i, const ssi_target *target, ssi_written *to)
{
    const char *why = NULL;
    naming names = {&i->served, i->named.known.kind == STACKSPLICE_FRAME_NATIVE
                                    ? ssi_native_new(target, &why)
                                    : NULL};
    ssi_frames frames = {0};

    if (ssi_frames_add(&frames, &i->named))
        describe(&names, &frames);
    if (i->served.target)
        ssi_write_frames(to, frames.items, frames.count);
    else if (frames.count)
        ssi_write_frame(to, frames.items);
    free(frames.items);
    ssi_native_free(names.native);
}

/* The error of THREAD, or of the fail fast: 0.  A debugger also gets its text, as "error_text". */
static void write_error(const ssi_inspection *i, const char *name, int thread, naming *names,
                        ssi_written *to)
{
    const ssi_describer describer = {describe, names};
    ssi_written error = {.length = 0};
    char *text = NULL, text_name[16];

    if (ssi_errors_write(&i->errors, thread, &describer, &error) && !error.failed) {
        if (i->served.target)
            text = ssi_served_text_of(error.bytes, error.length);
        snprintf(text_name, sizeof text_name, "%s_text", name);
        ssi_write_member(to, text_name, text);
        ssi_write_format(to, ",\n\"%s\":", name);
        ssi_write_bytes(to, error.bytes, error.length);
    }
    free(text);
    free(error.bytes);
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
static void write_threads(ssi_inspection *i, const ssi_target *target, ssi_written *to)
{
    const char *why = NULL;
    ssi_native *native = ssi_inspection_wants_stacks(i) ? ssi_native_new(target, &why) : NULL;
    naming names = {&i->served, native};
    ssi_frames stack = {0};
    bool is_first = true;

    ssi_splice_assign(target, &i->scripts);
    ssi_scripts_note(&i->scripts, native ? ssi_native_missing(native) : why);
    write_begin(to, target, &i->scripts);
    for (size_t at = 0; at < target->thread_count; at++) {
        const ssi_thread *thread = &target->threads[at];

        if (i->served.thread && i->served.thread != thread->id)
            continue;
        stack.count = 0;
        if (wants_stack(i, thread))
            ssi_splice(target, native, why, thread, &i->luas, &i->scripts, &stack);
        ssi_tasks_put_awaiting(&i->scripts, thread->own_id, &stack);
        ssi_served_describe(&i->served, &stack);
        write_thread(to, thread, &stack, is_first);
        ssi_served_write_folds(&i->served, &stack, to);
        write_error(i, "error", thread->own_id, &names, to);
        write_exceptions(to, &i->scripts, thread->own_id);
        write_attached(to, &i->scripts, target->machine, thread);
        ssi_write(to, "}");
        ssi_write_out(to);
        is_first = false;
    }
    ssi_write(to, "]");
    write_tasks(to, target, &i->scripts);
    write_interpreters(to, &i->errors);
    write_error(i, "failed", 0, &names, to);
    ssi_write(to, "}");
    free(stack.items);
    ssi_native_free(native);
}

bool ssi_inspection_write(ssi_inspection *i, const ssi_target *target)
{
    ssi_written to = {.length = 0};

    ssi_budget_renew();
    if (i->has_token)
        write_token(i, target, &to);
    else
        write_threads(i, target, &to);
    ssi_write(&to, "\n");
    ssi_write_out(&to);
    free(to.bytes);
    return !to.failed && !fflush(stdout) && !ferror(stdout);
}

void ssi_inspection_free(ssi_inspection *i)
{
    ssi_pythons_free(&i->pythons);
    ssi_lua_free(&i->luas);
    ssi_errors_free(&i->errors);
    ssi_scripts_free(&i->scripts);
}
