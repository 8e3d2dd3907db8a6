#include "report/write.h"

#include <inttypes.h>
#include <stdio.h>

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

static void put_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putchar('"');
    while (*at) {
        unsigned length = character(at);

        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F)
            printf("\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", stdout);
        else
            fwrite(at, 1, length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

static void put_member(const char *name, const char *text)
{
    if (!text)
        return;
    printf(",\"%s\":", name);
    put_text(text);
}

static void put_number(const char *name, uint64_t number)
{
    if (number)
        printf(",\"%s\":%" PRIu64, name, number);
}

static void put_frame(const ssi_frame *frame)
{
    static const char *const kinds[] = {"native", "script", "gap"};

    printf("{\"kind\":\"%s\",\"trust\":\"%s\"", kinds[frame->kind],
           frame->inferred ? "inferred" : "exact");
    put_member("language", frame->language);
    put_member("function", frame->function);
    put_member("file", frame->file);
    put_number("line", frame->line);
    put_number("end_line", frame->end_line);
    put_number("column", frame->column);
    put_number("end_column", frame->end_column);
    put_member("module", frame->module);
    put_number("module_offset", frame->module_offset);
    put_member("build_id", frame->build_id);
    put_member("interpreter", frame->interpreter);
    put_member("reason", frame->reason);
    if (frame->kind == SSI_NATIVE)
        fputs(",\"inlined\":false", stdout);
    printf(",\"address\":\"0x%" PRIx64 "\"}", frame->address);
}

void ssi_write_begin(const ssi_target *target, const ssi_scripts *scripts)
{
    printf("{\"schema\":\"stacksplice-dump/1\",\"process\":{\"id\":%d", target->process);
    put_member("executable", target->executable);
    if (target->is_live)
        printf(",\"stopped_microseconds\":%" PRIu64, (target->stopped_ns + 999) / 1000);
    put_number("signal", (uint64_t)target->signal);
    fputs("},\"notes\":[", stdout);
    for (size_t i = 0; i < scripts->note_count; i++) {
        fputs(i ? "," : "", stdout);
        put_text(scripts->notes[i]);
    }
    fputs("],\"threads\":[", stdout);
}

void ssi_write_thread(const ssi_thread *thread, const ssi_frames *stack, bool is_first)
{
    printf("%s\n{\"thread_id\":%d", is_first ? "" : ",", thread->id);
    if (thread->name[0])
        put_member("name", thread->name);
    fputs(",\"stack\":[", stdout);
    for (size_t i = 0; i < stack->count; i++) {
        fputs(i ? ",\n" : "", stdout);
        put_frame(&stack->items[i]);
    }
    fputs("]}", stdout);
}

bool ssi_write_end(void)
{
    puts("]}");
    return !fflush(stdout) && !ferror(stdout);
}
