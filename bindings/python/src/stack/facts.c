/*
 * What the elements of stacks are: tasks, threads and functions are compared by it.
 */
#include "stack/stack.h"
#include "shared/mix.h"

#include <string.h>

enum { KNOWN = 128 /* a power of two */ };

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return ss_mix(hash ^ number, UINT64_C(0x9E3779B97F4A7C15));
}

/* Whether FRAME, one of Python, is of the interpreter with that id. */
static bool is_of(const stacksplice_frame *frame, int64_t id)
{
    char name[40];

    if (id <= 0 || !frame->interpreter)
        return id <= 0 && !frame->interpreter;
    PyOS_snprintf(name, sizeof name, "interpreter %lld", (long long)id);
    return !strcmp(frame->interpreter, name);
}

/* The interpreter, and what is found out in it about an element. */
typedef struct question {
    int64_t id;
    sspy_facts facts;
} question;

static void look_at_gap(sspy_facts *facts, const stacksplice_frame *gap)
{
    const char *reason = gap->reason ? gap->reason : "";

    facts->is_gap = true;
    facts->awaits = gap->asynchronous && !strncmp(reason, SSPY_AWAITED, sizeof SSPY_AWAITED - 1);
    facts->ends = !strcmp(reason, SSPY_GREENLET_ENDS);
    facts->joins = !strcmp(reason, SSPY_OTHER_THREAD);
}

static int look(const stacksplice_frame *frame, void *data)
{
    question *asked = data;
    sspy_facts *facts = &asked->facts;
    uint64_t file =
        ss_mix_text(ss_mix_text(UINT64_C(0xcbf29ce484222325), frame->language), frame->file);

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        look_at_gap(facts, frame);
    if (frame->kind != STACKSPLICE_FRAME_SCRIPT)
        return 0;
    facts->is_python = !strcmp(frame->language, "python");
    facts->is_here = facts->is_python && is_of(frame, asked->id);
    facts->is_passed = frame->trust == STACKSPLICE_TRUST_TRACEBACK;
    facts->is_in_file = frame->file && strcmp(frame->file, "[C]") != 0;
    facts->file_line = frame->file ? add_number(file, frame->line) | 1 : 0;
    facts->function = ss_mix_text(ss_mix_text(file, frame->function), frame->interpreter) | 1;
    facts->line = add_number(facts->function, frame->line) | 1;
    facts->place = add_number(add_number(facts->line, frame->column), frame->end_line);
    facts->place = add_number(facts->place, frame->end_column) | 1;
    return 0;
}

/* A token never changes its meaning, so the answers are kept: reading names takes long. */
sspy_facts sspy_facts_of(sspy_state *state, uintptr_t element)
{
    uint64_t hash = element * UINT64_C(0x9E3779B97F4A7C15);
    sspy_facts *all = sspy_record(state, SSPY_OF_ELEMENTS, KNOWN * sizeof *all);
    sspy_facts *known = all ? &all[hash >> 32 & (KNOWN - 1)] : NULL;
    question asked = {state->interp->id, {.element = element}};
    sspy_critical section;
    bool is_known;

    if (!stacksplice_is_token(element))
        return asked.facts;
    SSPY_CRITICAL_BEGIN(&section,
                        state->no_arguments); /* an object that is the interpreter's own */
    is_known = known && known->element == element;
    if (is_known)
        asked.facts = *known;
    SSPY_CRITICAL_END(&section);
    if (is_known || FAILED(stacksplice_resolve(element, look, &asked)) || !known)
        return asked.facts;
    SSPY_CRITICAL_BEGIN(&section, state->no_arguments);
    *known = asked.facts;
    SSPY_CRITICAL_END(&section);
    return asked.facts;
}

bool sspy_is_frame_of(sspy_state *state, uintptr_t element)
{
    return sspy_facts_of(state, element).is_here;
}
