/*
 * The report of an error as text.  The core's library writes it, as it writes those of saved
 * reports; here an error of another process becomes what it takes.
 */
#include "served/served.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

typedef struct telling {
    const ssi_served *served;
    const ssi_errors *errors;
    void **kept; /* all that was allocated for it */
    size_t count, room;
} telling;

static const stacksplice_told *tell(telling *t, size_t number);

/* COUNT zeroed elements of SIZE bytes until the text is written; NULL without memory. */
static void *keep(telling *t, size_t count, size_t size)
{
    void *memory = NULL;

    if (ssi_grow(&t->kept, t->count, &t->room, sizeof *t->kept)) {
        memory = calloc(count ? count : 1, size);
        t->kept[t->count++] = memory;
    }
    return memory;
}

static stacksplice_told_text told_text(const char *text)
{
    return (stacksplice_told_text){text, text ? strlen(text) : 0};
}

static stacksplice_relation relation_of(const char *name)
{
    return strcmp(name, "context") ? STACKSPLICE_RELATION_CAUSE : STACKSPLICE_RELATION_CONTEXT;
}

static stacksplice_told_stack told_stack(telling *t, const ssi_error_stack *stack)
{
    stacksplice_told_stack told = {.left_out = (uint32_t)stack->left_out};
    stacksplice_told_frame *all;
    ssi_frames frames = {0};

    for (size_t i = 0; i < stack->frames.count; i++)
        (void)ssi_frames_add(&frames, &t->errors->frames.items[stack->frames.first + i]);
    ssi_served_describe(t->served, &frames);
    all = keep(t, frames.count, sizeof *all);
    for (size_t i = 0; all && i < frames.count; i++) {
        all[i].frame = ssi_served_frame(&frames.items[i]);
        all[i].glue = frames.items[i].glue;
        told.count++;
    }
    told.frames = all;
    free(frames.items);
    return told;
}

static void tell_notes(telling *t, const ssi_part *notes, stacksplice_told *told)
{
    stacksplice_told_text *all = keep(t, notes->count, sizeof *all);

    for (size_t i = 0; all && i < notes->count; i++)
        all[told->note_count++] = told_text(t->errors->notes[notes->first + i]);
    told->notes = all;
}

static void tell_nodes(telling *t, const ssi_part *nodes, stacksplice_told *told)
{
    stacksplice_told_node *all = keep(t, nodes->count, sizeof *all);

    for (size_t i = 0; all && i < nodes->count; i++) {
        const ssi_node *node = &t->errors->nodes[nodes->first + i];

        all[told->node_count++] =
            (stacksplice_told_node){node->language ? node->language : "native", node->thread_id,
                                    told_stack(t, &node->stack)};
    }
    told->nodes = all;
}

static void tell_members(telling *t, size_t first, stacksplice_told *told)
{
    const stacksplice_told **all;
    size_t count = 0;

    for (size_t i = first; i; i = t->errors->items[i].next)
        count++;
    all = keep(t, count, sizeof *all);
    for (size_t i = first; all && i; i = t->errors->items[i].next) {
        all[told->member_count] = tell(t, i);
        if (!all[told->member_count])
            break;
        told->member_count++;
    }
    told->members = all;
}

/* Each error of the list is the cause of the one before it. */
static void tell_causes(telling *t, const ssi_error *error, stacksplice_told *told)
{
    for (size_t i = error->causes; i; i = t->errors->items[i].next) {
        stacksplice_told *cause = (stacksplice_told *)tell(t, i);

        if (!cause)
            return;
        told->cause = cause;
        told->relation = relation_of(t->errors->items[i].relation);
        told = cause;
    }
    told->causes_left_out = error->causes_left_out;
    if (error->above) {
        told->cause_above = 1;
        told->relation = relation_of(error->above);
    }
}

static const stacksplice_told *tell(telling *t, size_t number)
{
    const ssi_error *error = &t->errors->items[number];
    stacksplice_told *told = keep(t, 1, sizeof *told);

    if (!told)
        return NULL;
    *told = (stacksplice_told){.size = sizeof *told,
                               .hresult = error->hresult,
                               .type = error->type,
                               .language = error->language,
                               .message = told_text(error->message),
                               .thread_id = error->thread_id,
                               .stack = told_stack(t, &error->stack),
                               .identity = error,
                               .is_group = error->group,
                               .members_left_out = error->members_left_out};
    tell_notes(t, &error->notes, told);
    tell_nodes(t, &error->nodes, told);
    tell_members(t, error->members, told);
    if (!error->relation)
        tell_causes(t, error, told);
    return told;
}

char *ssi_served_error_text(const ssi_served *served, const ssi_errors *errors,
                            const ssi_error *error)
{
    telling t = {.served = served, .errors = errors};
    const stacksplice_told *told =
        error && served->target ? tell(&t, (size_t)(error - errors->items)) : NULL;
    char *text = told ? ssi_served_format(told) : NULL;

    for (size_t i = 0; i < t.count; i++)
        free(t.kept[i]);
    free(t.kept);
    return text;
}
