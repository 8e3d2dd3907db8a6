/*
 * From one error to those inside of it and behind it.  The process was stopped anywhere and may be
 * damaged: all lists are bounded, and an error that encloses itself ends its chain.
 */
#include "errors/tree.h"

#include "base/list.h"

enum { MAX_ERRORS = 4096, MAX_MEMBERS = 128, MAX_LEVELS = 32 };

static size_t read_error(ssi_error_reader *r, uint64_t record, const char *relation);

static bool is_around(const ssi_error_reader *r, uint64_t record)
{
    for (unsigned i = 0; i < r->around_count; i++)
        if (r->around[i] == record)
            return true;
    return false;
}

/* False when there is no more room: what would follow is left out. */
static bool enclose(ssi_error_reader *r, uint64_t record)
{
    if (r->around_count == sizeof r->around / sizeof *r->around)
        return false;
    r->around[r->around_count++] = record;
    return true;
}

static void read_members(ssi_error_reader *r, uint64_t record, ssi_error *error)
{
    uint64_t exception = ssi_object_exception(r, record);
    uint64_t members = ssi_object_pointer(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBERS);
    uint64_t count = ssi_object_number(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBER_COUNT,
                                       sizeof(uint32_t));
    size_t *link = &error->members, last = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t interface = 0, member;
        size_t read = 0;

        if (i < MAX_MEMBERS && r->around_count < MAX_LEVELS &&
            ssi_read_word(r->block->memory, members + i * sizeof member, &interface)) {
            member = ssi_object_error(r, interface);
            read = member && !is_around(r, member) ? read_error(r, member, NULL) : 0;
        }
        if (!read) {
            error->members_left_out += i < MAX_MEMBERS ? 1 : (uint32_t)(count - i);
            if (i >= MAX_MEMBERS)
                return;
            continue;
        }
        if (last)
            r->errors->items[last].next = read;
        else
            *link = read;
        last = read;
    }
}

static const char *relation_at(const ssi_error_reader *r, uint64_t record)
{
    return ssi_object_number(r, record, STACKSPLICE_NUMBER_ERROR_RELATION, 1) ==
                   STACKSPLICE_RELATION_CONTEXT
               ? "context"
               : "cause";
}

/* All errors behind the one at RECORD, as one list, the latest first. */
static void read_causes(ssi_error_reader *r, uint64_t record, ssi_error *error)
{
    unsigned before = r->around_count;
    size_t last = 0;

    for (;;) {
        uint64_t interface = ssi_object_pointer(r, record, STACKSPLICE_NUMBER_ERROR_PREVIOUS);
        uint64_t previous = ssi_object_error(r, interface);
        const char *relation = relation_at(r, record);
        size_t read;

        if (!interface)
            break;
        if (previous && is_around(r, previous)) {
            error->above = relation;
            error->causes_left_out = 0;
            break;
        }
        read = previous ? read_error(r, previous, relation) : 0;
        if (!read || !enclose(r, previous)) {
            error->causes_left_out = 1;
            break;
        }
        error->causes_left_out = r->errors->items[read].causes_left_out;
        if (last)
            r->errors->items[last].next = read;
        else
            error->causes = read;
        last = read;
        record = previous;
    }
    r->around_count = before;
}

/* Its number; 0 if there is no more room. */
static size_t add(ssi_errors *errors, const ssi_error *error)
{
    if (!errors->count)
        errors->count = ssi_grow(&errors->items, 0, &errors->room, sizeof *error);
    if (!errors->count || errors->count > MAX_ERRORS ||
        !ssi_grow(&errors->items, errors->count, &errors->room, sizeof *error))
        return 0;
    errors->items[errors->count] = *error;
    return errors->count++;
}

/* Its number in the list; 0 if it cannot be read.  RELATION: it is in a list of causes, which also
   has its own. */
static size_t read_error(ssi_error_reader *r, uint64_t record, const char *relation)
{
    unsigned before = r->around_count;
    ssi_error error;
    size_t number;

    if (!ssi_object_read(r, record, &error) || !enclose(r, record))
        return 0;
    number = add(r->errors, &error);
    if (!number) {
        r->around_count = before;
        return 0;
    }
    error.relation = relation;
    read_members(r, record, &error);
    if (!relation)
        read_causes(r, record, &error);
    r->around_count = before;
    r->errors->items[number] = error;
    return number;
}

size_t ssi_error_tree(ssi_error_reader *r, uint64_t record)
{
    return read_error(r, record, NULL);
}

size_t ssi_error_alone(ssi_error_reader *r, const stacksplice_record *record)
{
    ssi_error error;

    ssi_object_of_record(r, record, &error);
    return add(r->errors, &error);
}
