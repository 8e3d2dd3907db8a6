#include "report/write.h"

#include "report/json.h"
#include "report/python.h"

#include <inttypes.h>
#include <stdio.h>

/* What only debuggers ask for. */
static void put_for_debugger(const ssi_frame *frame)
{
    ssi_put_number("stack_address", frame->stack_address);
    ssi_put_member("text", frame->text);
    if (frame->glue)
        fputs(",\"glue\":true", stdout);
}

void ssi_write_frame(const ssi_frame *frame)
{
    static const char *const kinds[] = {"native", "script", "gap"};

    printf("{\"kind\":\"%s\",\"trust\":\"%s\"", kinds[frame->kind],
           frame->inferred    ? "inferred"
           : frame->traceback ? "traceback"
                              : "exact");
    ssi_put_member("language", frame->language);
    ssi_put_member("function", frame->function);
    ssi_put_member("file", frame->file);
    ssi_put_number("line", frame->line);
    ssi_put_number("end_line", frame->end_line);
    ssi_put_number("column", frame->column);
    ssi_put_number("end_column", frame->end_column);
    ssi_put_member("module", frame->module);
    ssi_put_number("module_offset", frame->module_offset);
    ssi_put_member("build_id", frame->build_id);
    ssi_put_member("interpreter", frame->interpreter);
    ssi_put_member("calls", frame->calls);
    ssi_put_member("reason", frame->reason);
    if (frame->asynchronous)
        fputs(",\"asynchronous\":true", stdout);
    if (frame->locals)
        printf(",\"locals\":%s", frame->locals);
    if (frame->kind == SSI_NATIVE)
        printf(",\"inlined\":%s", frame->inlined ? "true" : "false");
    if (frame->text)
        put_for_debugger(frame);
    printf(",\"address\":\"0x%" PRIx64 "\"}", frame->address);
}

void ssi_write_frames(const ssi_frame *frames, size_t count)
{
    fputs("[", stdout);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n" : "", stdout);
        ssi_write_frame(&frames[i]);
    }
    fputs("]", stdout);
}

/* For the reader of source lines, who takes it out. */
static void put_user(const ssi_user *user)
{
    if (!user->is_known)
        return;
    printf(",\"user\":{\"id\":%u", user->id);
    ssi_put_member("groups", user->groups);
    if (user->enters_all)
        fputs(",\"enters_all\":true", stdout);
    if (user->reads_all)
        fputs(",\"reads_all\":true", stdout);
    fputs("}", stdout);
}

void ssi_write_begin(const ssi_target *target, const ssi_scripts *scripts)
{
    printf("{\"schema\":\"stacksplice-dump/1\",\"process\":{\"id\":%d", target->process);
    ssi_put_member("executable", target->executable);
    if (target->is_live)
        printf(",\"stopped_microseconds\":%" PRIu64, (target->stopped_ns + 999) / 1000);
    ssi_put_number("signal", (uint64_t)target->signal);
    if (target->has_fault)
        printf(",\"fault_address\":\"0x%" PRIx64 "\"", target->fault);
    if (target->has_sender)
        printf(",\"sender\":{\"process\":%d,\"user\":%d}", target->sender, target->sender_user);
    ssi_put_member("command_line", target->command);
    ssi_put_pythons(scripts);
    put_user(&target->user);
    fputs("},\"notes\":[", stdout);
    for (size_t i = 0; i < scripts->note_count; i++) {
        fputs(i ? "," : "", stdout);
        ssi_put_text(scripts->notes[i]);
    }
    fputs("],\"threads\":[", stdout);
}

void ssi_write_thread(const ssi_thread *thread, const ssi_frames *stack, bool is_first)
{
    printf("%s\n{\"thread_id\":%d", is_first ? "" : ",", thread->id);
    if (thread->name[0])
        ssi_put_member("name", thread->name);
    ssi_put_member("state", thread->state);
    fputs(",\"stack\":", stdout);
    ssi_write_frames(stack->items, stack->count);
}

void ssi_write_thread_end(void)
{
    fputs("}", stdout);
}

void ssi_write_threads_end(void)
{
    fputs("]", stdout);
}

void ssi_write_end(void)
{
    putchar('}');
}
