/*
 * A thread that waits for a GIL is in the kernel, which has the address that it waits at: inside of
 * the GIL's condition variables.  Their own address is what functions of the C library are given,
 * and does not count.
 */
#include "report/python.h"

#include "report/json.h"

#include <inttypes.h>
#include <stdio.h>

enum { CONDITION = 32, SWITCH_CONDITION = 120, CONDITION_SIZE = 48 };

void ssi_put_pythons(const ssi_scripts *scripts)
{
    for (size_t i = 0; i < scripts->interpreter_count; i++) {
        const ssi_script_interpreter *of = &scripts->interpreters[i];

        printf("%s{\"interpreter\":%" PRId64, i ? "," : ",\"pythons\":[", of->number);
        ssi_put_member("version", of->version);
        ssi_put_member("file", of->path);
        fputs(of->collects ? ",\"collecting\":true}" : "}", stdout);
    }
    if (scripts->interpreter_count)
        fputs("]", stdout);
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
        printf("%s{\"interpreter\":%" PRId64, any ? "," : ",\n\"python\":[", of->interpreter);
        ssi_put_member("name", of->name);
        ssi_put_member("gil", of->holds                          ? "held"
                              : waits(of->lock, machine, thread) ? "waiting"
                                                                 : NULL);
        fputs(of->collects ? ",\"collecting\":true}" : "}", stdout);
        any = true;
    }
    if (any)
        fputs("]", stdout);
}
