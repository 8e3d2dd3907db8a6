#include "report/report.h"

#include <inttypes.h>
#include <stdio.h>

static FILE *elsewhere; /* what is written now goes there; NULL: to standard output */

static FILE *out(void)
{
    return elsewhere ? elsewhere : stdout;
}

/* ---- Parts of JSON ----------------------------------------------------------------------------*/

/* The length of the UTF-8 character at TEXT, which ends in a NUL; 0 if it is damaged. */
static unsigned character(const unsigned char *text)
{
    unsigned length = text[0] < 0x80   ? 1
                      : text[0] < 0xC2 ? 0
                      : text[0] < 0xE0 ? 2
                      : text[0] < 0xF0 ? 3
                                       : 4;

    if (text[0] > 0xF4 || (text[0] == 0xE0 && text[1] < 0xA0) ||
        (text[0] == 0xED && text[1] > 0x9F) || (text[0] == 0xF0 && text[1] < 0x90) ||
        (text[0] == 0xF4 && text[1] > 0x8F))
        return 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

/* TEXT as a string; what is no UTF-8 becomes U+FFFD. */
static void put_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putc('"', out());
    while (*at) {
        unsigned length = character(at);

        if (*at == '"' || *at == '\\')
            fprintf(out(), "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F)
            fprintf(out(), "\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", out());
        else
            fwrite(at, 1, length, out());
        at += length ? length : 1;
    }
    putc('"', out());
}

void ssi_put_member(const char *name, const char *text)
{
    if (!text)
        return;
    fprintf(out(), ",\"%s\":", name);
    put_text(text);
}

static void put_number(const char *name, uint64_t number)
{
    if (number)
        fprintf(out(), ",\"%s\":%" PRIu64, name, number);
}

/*
 * A thread that waits for a GIL is in the kernel, which has the address that it waits at: inside of
 * the GIL's condition variables.  Their own address is what functions of the C library are given,
 * and does not count.
 */

enum { CONDITION = 32, SWITCH_CONDITION = 120, CONDITION_SIZE = 48 };

/* The member "pythons" of a process. */
static void put_pythons(const ssi_scripts *scripts)
{
    for (size_t i = 0; i < scripts->interpreter_count; i++) {
        const ssi_script_interpreter *of = &scripts->interpreters[i];

        fprintf(out(), "%s{\"interpreter\":%" PRId64, i ? "," : ",\"pythons\":[", of->number);
        ssi_put_member("version", of->version);
        ssi_put_member("file", of->path);
        fputs(of->collects ? ",\"collecting\":true}" : "}", out());
    }
    if (scripts->interpreter_count)
        fputs("]", out());
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

void ssi_put_attached(const ssi_scripts *scripts, const ssi_machine *machine,
                      const ssi_thread *thread)
{
    bool any = false;

    for (size_t i = 0; i < scripts->attached_count; i++) {
        const ssi_attached *of = &scripts->attached[i];

        if (of->thread != thread->own_id)
            continue;
        fprintf(out(), "%s{\"interpreter\":%" PRId64, any ? "," : ",\n\"python\":[",
                of->interpreter);
        ssi_put_member("name", of->name);
        ssi_put_member("gil", of->holds                          ? "held"
                              : waits(of->lock, machine, thread) ? "waiting"
                                                                 : NULL);
        fputs(of->collects ? ",\"collecting\":true}" : "}", out());
        any = true;
    }
    if (any)
        fputs("]", out());
}

/* What only debuggers ask for. */
static void put_for_debugger(const ssi_frame *frame)
{
    put_number("stack_address", frame->stack_address);
    ssi_put_member("text", frame->text);
    if (frame->glue)
        fputs(",\"glue\":true", out());
}

void ssi_write_frame(const ssi_frame *frame)
{
    static const char *const kinds[] = {"native", "script", "gap"};

    fprintf(out(), "{\"kind\":\"%s\",\"trust\":\"%s\"", kinds[frame->kind],
            frame->inferred    ? "inferred"
            : frame->traceback ? "traceback"
                               : "exact");
    ssi_put_member("language", frame->language ? frame->language : "native");
    ssi_put_member("function", frame->function);
    ssi_put_member("file", frame->file);
    put_number("function_offset", frame->function_offset);
    put_number("line", frame->line);
    put_number("end_line", frame->end_line);
    put_number("column", frame->column);
    put_number("end_column", frame->end_column);
    ssi_put_member("module", frame->module);
    put_number("module_offset", frame->module_offset);
    ssi_put_member("build_id", frame->build_id);
    ssi_put_member("interpreter", frame->interpreter);
    ssi_put_member("calls", frame->calls);
    ssi_put_member("reason", frame->reason);
    if (frame->asynchronous)
        fputs(",\"asynchronous\":true", out());
    if (frame->locals)
        fprintf(out(), ",\"locals\":%s", frame->locals);
    if (frame->kind == SSI_NATIVE)
        fprintf(out(), ",\"inlined\":%s", frame->inlined ? "true" : "false");
    if (frame->text)
        put_for_debugger(frame);
    fprintf(out(), ",\"address\":\"0x%" PRIx64 "\"}", frame->address);
}

void ssi_write_frames(const ssi_frame *frames, size_t count)
{
    fputs("[", out());
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n" : "", out());
        ssi_write_frame(&frames[i]);
    }
    fputs("]", out());
}

/* For the reader of source lines, who takes it out. */
static void put_user(const ssi_user *user)
{
    if (!user->is_known)
        return;
    fprintf(out(), ",\"user\":{\"id\":%u", user->id);
    ssi_put_member("groups", user->groups);
    if (user->enters_all)
        fputs(",\"enters_all\":true", out());
    if (user->reads_all)
        fputs(",\"reads_all\":true", out());
    fputs("}", out());
}

void ssi_write_begin(const ssi_target *target, const ssi_scripts *scripts)
{
    fprintf(out(), "{\"schema\":\"stacksplice-dump/1\",\"process\":{\"id\":%d", target->process);
    ssi_put_member("executable", target->executable);
    if (target->is_live)
        fprintf(out(), ",\"stopped_microseconds\":%" PRIu64, (target->stopped_ns + 999) / 1000);
    put_number("signal", (uint64_t)target->signal);
    if (target->has_fault)
        fprintf(out(), ",\"fault_address\":\"0x%" PRIx64 "\"", target->fault);
    if (target->has_sender)
        fprintf(out(), ",\"sender\":{\"process\":%d,\"user\":%d}", target->sender,
                target->sender_user);
    ssi_put_member("command_line", target->command);
    put_pythons(scripts);
    put_user(&target->user);
    fputs("},\"notes\":[", out());
    for (size_t i = 0; i < scripts->note_count; i++) {
        fputs(i ? "," : "", out());
        put_text(scripts->notes[i]);
    }
    fputs("],\"threads\":[", out());
}

void ssi_write_thread(const ssi_thread *thread, const ssi_frames *stack, bool is_first)
{
    fprintf(out(), "%s\n{\"thread_id\":%d", is_first ? "" : ",", thread->id);
    if (thread->name[0])
        ssi_put_member("name", thread->name);
    ssi_put_member("state", thread->state);
    fputs(",\"stack\":", out());
    ssi_write_frames(stack->items, stack->count);
}

static void put_exception(const ssi_scripts *scripts, const ssi_exception *e)
{
    fputs("{\"language\":", out());
    put_text(e->language);
    ssi_put_member("state", e->state);
    ssi_put_member("relation", e->relation);
    ssi_put_member("type", e->type);
    fprintf(out(), ",\"arguments\":%s,\"stack\":", e->arguments ? e->arguments : "null");
    ssi_write_frames(scripts->frames.items + e->first, e->count);
    fputs("}", out());
}

void ssi_put_exceptions(const ssi_scripts *scripts, int thread)
{
    bool any = false;

    for (size_t i = 0; i < scripts->exception_count; i++) {
        if (scripts->exceptions[i].thread != thread)
            continue;
        fputs(any ? ",\n" : ",\n\"exceptions\":[", out());
        put_exception(scripts, &scripts->exceptions[i]);
        any = true;
    }
    if (any)
        fputs("]", out());
}

static void put_errors(const char *name, const ssi_errors *errors, size_t first);

static void put_text_or_null(const char *name, const char *text)
{
    if (text)
        ssi_put_member(name, text);
    else
        fprintf(out(), ",\"%s\":null", name);
}

static void put_stack(const ssi_errors *errors, const ssi_error_stack *stack)
{
    fputs(",\"stack\":", out());
    ssi_write_frames(errors->frames.items + stack->frames.first, stack->frames.count);
    fprintf(out(), ",\"frames_left_out\":%" PRIu32, (uint32_t)stack->left_out);
}

static void put_notes(const ssi_errors *errors, const ssi_part *part)
{
    fputs(",\"notes\":[", out());
    for (size_t i = 0; i < part->count; i++) {
        fputs(i ? "," : "", out());
        put_text(errors->notes[part->first + i]);
    }
    fputs("]", out());
}

static void put_nodes(const ssi_errors *errors, const ssi_part *part)
{
    fputs(",\"propagation\":[", out());
    for (size_t i = 0; i < part->count; i++) {
        const ssi_node *node = &errors->nodes[part->first + i];

        fprintf(out(), "%s{\"thread_id\":%" PRIu64, i ? ",\n" : "", node->thread_id);
        ssi_put_member("language", node->language ? node->language : "native");
        put_stack(errors, &node->stack);
        fputs("}", out());
    }
    fputs("]", out());
}

static void put_error(const ssi_errors *errors, const ssi_error *error)
{
    fprintf(out(), "{\"hresult\":\"0x%08" PRIx32 "\",\"hresult_signed\":%" PRId32,
            (uint32_t)error->hresult, error->hresult);
    ssi_put_member("relation", error->relation);
    ssi_put_member("message", error->message ? error->message : "");
    put_text_or_null("type", error->type);
    ssi_put_member("language", error->language);
    put_notes(errors, &error->notes);
    fprintf(out(), ",\"thread_id\":%" PRIu64, error->thread_id);
    put_text_or_null("reference", error->reference);
    put_stack(errors, &error->stack);
    put_nodes(errors, &error->nodes);
    if (error->group)
        put_errors("exceptions", errors, error->members);
    else
        fputs(",\"exceptions\":null", out());
    fprintf(out(), ",\"exceptions_left_out\":%" PRIu32, error->members_left_out);
    if (!error->relation) {
        put_errors("transformed", errors, error->causes);
        fprintf(out(), ",\"transformed_left_out\":%" PRIu32, error->causes_left_out);
        put_text_or_null("transformed_above", error->above);
    }
    fputs("}", out());
}

/* The list that begins with the error FIRST. */
static void put_errors(const char *name, const ssi_errors *errors, size_t first)
{
    fprintf(out(), ",\"%s\":[", name);
    for (size_t i = first; i; i = errors->items[i].next) {
        fputs(i != first ? ",\n" : "", out());
        put_error(errors, &errors->items[i]);
    }
    fputs("]", out());
}

void ssi_write_error(FILE *file, const ssi_errors *errors, const ssi_error *error)
{
    elsewhere = file;
    put_error(errors, error);
    elsewhere = NULL;
}

void ssi_put_error(const char *name, const ssi_errors *errors, const ssi_error *error)
{
    if (!error)
        return;
    fprintf(out(), ",\n\"%s\":", name);
    put_error(errors, error);
}

void ssi_put_interpreters(const ssi_errors *errors)
{
    for (size_t i = 0; i < errors->interpreter_count; i++) {
        const ssi_interpreter *known = &errors->interpreters[i];

        fputs(i ? ",\n{\"language\":" : ",\n\"interpreters\":[{\"language\":", out());
        put_text(known->language);
        ssi_put_member("version", known->version);
        fprintf(out(), ",\"address\":\"0x%" PRIx64 "\"}", known->address);
    }
    if (errors->interpreter_count)
        fputs("]", out());
}
