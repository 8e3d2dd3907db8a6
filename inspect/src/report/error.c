#include "report/error.h"

#include "report/json.h"
#include "report/write.h"

#include <inttypes.h>
#include <stdio.h>

static void put_errors(const char *name, const ssi_errors *errors, size_t first);

static void put_text_or_null(const char *name, const char *text)
{
    if (text)
        ssi_put_member(name, text);
    else
        printf(",\"%s\":null", name);
}

static void put_stack(const ssi_errors *errors, const ssi_error_stack *stack)
{
    fputs(",\"stack\":", stdout);
    ssi_write_frames(errors->frames.items + stack->frames.first, stack->frames.count);
    printf(",\"frames_left_out\":%" PRIu64, stack->left_out);
}

static void put_notes(const ssi_errors *errors, const ssi_part *part)
{
    fputs(",\"notes\":[", stdout);
    for (size_t i = 0; i < part->count; i++) {
        fputs(i ? "," : "", stdout);
        ssi_put_text(errors->notes[part->first + i]);
    }
    fputs("]", stdout);
}

static void put_nodes(const ssi_errors *errors, const ssi_part *part)
{
    fputs(",\"propagation\":[", stdout);
    for (size_t i = 0; i < part->count; i++) {
        const ssi_node *node = &errors->nodes[part->first + i];

        printf("%s{\"thread_id\":%" PRIu64, i ? ",\n" : "", node->thread_id);
        ssi_put_member("language", node->language);
        put_stack(errors, &node->stack);
        fputs("}", stdout);
    }
    fputs("]", stdout);
}

static void put_error(const ssi_errors *errors, const ssi_error *error)
{
    printf("{\"hresult\":\"0x%08" PRIx32 "\",\"hresult_signed\":%" PRId32, (uint32_t)error->hresult,
           error->hresult);
    ssi_put_member("relation", error->relation);
    ssi_put_member("message", error->message ? error->message : "");
    put_text_or_null("type", error->type);
    ssi_put_member("language", error->language);
    put_notes(errors, &error->notes);
    printf(",\"thread_id\":%" PRIu64, error->thread_id);
    put_text_or_null("reference", error->reference);
    put_stack(errors, &error->stack);
    put_nodes(errors, &error->nodes);
    if (error->group)
        put_errors("exceptions", errors, error->members);
    else
        fputs(",\"exceptions\":null", stdout);
    printf(",\"exceptions_left_out\":%" PRIu32, error->members_left_out);
    if (!error->relation) {
        put_errors("transformed", errors, error->causes);
        printf(",\"transformed_left_out\":%" PRIu32, error->causes_left_out);
        put_text_or_null("transformed_above", error->above);
    }
    fputs("}", stdout);
}

/* The list that begins with the error FIRST. */
static void put_errors(const char *name, const ssi_errors *errors, size_t first)
{
    printf(",\"%s\":[", name);
    for (size_t i = first; i; i = errors->items[i].next) {
        fputs(i != first ? ",\n" : "", stdout);
        put_error(errors, &errors->items[i]);
    }
    fputs("]", stdout);
}

void ssi_put_error(const char *name, const ssi_errors *errors, const ssi_error *error)
{
    if (!error)
        return;
    printf(",\n\"%s\":", name);
    put_error(errors, error);
}

void ssi_put_interpreters(const ssi_errors *errors)
{
    for (size_t i = 0; i < errors->interpreter_count; i++) {
        const ssi_interpreter *known = &errors->interpreters[i];

        fputs(i ? ",\n{\"language\":" : ",\n\"interpreters\":[{\"language\":", stdout);
        ssi_put_text(known->language);
        ssi_put_member("version", known->version);
        printf(",\"address\":\"0x%" PRIx64 "\"}", known->address);
    }
    if (errors->interpreter_count)
        fputs("]", stdout);
}
