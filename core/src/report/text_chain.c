/*
 * The text report of an error, its causes, and the members of groups, which are set off by a
 * margin.
 */
#include "report/report.h"

#include "resolve/room.h"

typedef struct report_text {
    const ss_report *r;
    uint32_t depth; /* of the margin: number of enclosing groups */
    bool closed;    /* the last line closes a group */
    ss_seen seen;
} report_text;

static void put_error_and_causes(report_text *s, const ss_facts *facts);

static void put_spaces(ss_writer *w, uint32_t count)
{
    while (count--)
        ss_writer_put(w, " ", 1);
}

static void put_rule(report_text *s, uint32_t number, bool is_rest)
{
    ss_writer *w = s->r->w;

    ss_writer_margin(w, 0, '|');
    put_spaces(w, 2 * s->depth);
    ss_writer_text(w, number == 1 ? "+-+---------------- " : "  +---------------- ");
    if (is_rest)
        ss_writer_text(w, "...");
    else
        ss_writer_decimal(w, number);
    ss_writer_text(w, " ----------------\n");
}

/* One line for what is not shown. */
static void put_rest(const report_text *s, uint32_t count)
{
    ss_writer_text(s->r->w, "and ");
    ss_writer_decimal(s->r->w, count);
    ss_writer_text(s->r->w, count == 1 ? " more error\n" : " more errors\n");
}

static void put_member(report_text *s, const ss_facts *group, uint32_t index)
{
    ss_subject member;
    ss_facts facts;

    if (!ss_facts_member(group, index, &member)) {
        ss_writer_text(s->r->w, "an unreadable error\n");
        return;
    }
    if (!ss_facts_of(member, &facts)) {
        ss_writer_text(s->r->w, "an error of another library\n");
    } else {
        if (ss_seen_has(&s->seen, &facts))
            ss_writer_text(s->r->w, "an error above\n");
        else
            put_error_and_causes(s, &facts);
        ss_facts_release(&facts);
    }
    ss_subject_release(member);
}

/* Close a group, and with the same line every group of which it is the last member. */
static void put_end(report_text *s)
{
    if (s->closed)
        return;
    ss_writer_margin(s->r->w, 0, '|');
    put_spaces(s->r->w, 2 * s->depth + 2);
    ss_writer_text(s->r->w, "+------------------------------------\n");
    s->closed = true;
}

static void put_members(report_text *s, const ss_facts *group, uint32_t members, uint32_t left_out)
{
    uint32_t shown = members < SS_REPORT_MEMBERS_MAX ? members : SS_REPORT_MEMBERS_MAX;
    uint32_t rest = members - shown + left_out;
    ss_writer *w = s->r->w;

    if (s->depth > SS_REPORT_DEPTH_MAX || !ss_room_for_error()) {
        put_rest(s, members + left_out);
        return;
    }
    for (uint32_t i = 0; i < shown + (rest != 0) && !w->failed; i++) {
        put_rule(s, i + 1, i == shown);
        s->depth++;
        s->closed = false;
        ss_writer_margin(w, s->depth, '|');
        if (i < shown)
            put_member(s, group, i);
        else
            put_rest(s, rest);
        s->depth--;
    }
    put_end(s);
    ss_writer_margin(w, s->depth, '|');
}

static void put_error(report_text *s, const ss_facts *facts)
{
    bool is_outermost = s->depth == 0;
    uint32_t members = 0, left_out = 0;

    s->closed = false;
    (void)ss_seen_add(&s->seen, facts);
    if (!ss_facts_group(facts, &members, &left_out) || members + left_out == 0) {
        ss_report_text_alone(s->r, facts);
        return;
    }
    if (is_outermost) {
        s->depth = 1;
        ss_writer_margin(s->r->w, s->depth, '+');
    }
    ss_report_text_alone(s->r, facts);
    put_members(s, facts, members, left_out);
    if (is_outermost) {
        s->depth = 0;
        ss_writer_margin(s->r->w, 0, '|');
    }
}

static void put_words(report_text *s, stacksplice_relation relation, const char *rest)
{
    s->closed = false;
    ss_writer_text(s->r->w, relation == STACKSPLICE_RELATION_CONTEXT ? "\nRaised while handling"
                                                                     : "\nCaused by");
    ss_writer_text(s->r->w, rest);
}

/* Position in a chain of causes: the error shown last, and what is known of the rest. */
typedef struct chain {
    ss_subject later;
    stacksplice_relation relation; /* of the next error to it */
    uint32_t left_out;
} chain;

/* Say why the chain ends. */
static bool end_chain(report_text *s, const chain *c)
{
    if (c->later.told && c->later.told->cause_above)
        put_words(s, c->relation, " an error above.\n");
    else if (c->left_out)
        put_words(s, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    return false;
}

/* Show the next error; false after the last. */
static bool put_cause(report_text *s, chain *c, bool is_full)
{
    ss_subject next = ss_subject_previous(c->later);
    ss_facts cause;
    bool go_on = false;

    if (!ss_subject_is(next) || !ss_facts_of(next, &cause))
        return end_chain(s, c);
    if (ss_seen_has(&s->seen, &cause)) {
        put_words(s, c->relation, " an error above.\n");
    } else if (is_full || s->seen.count == SS_COUNT_OF(s->seen.errors)) {
        put_words(s, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    } else {
        put_words(s, c->relation, ":\n");
        put_error(s, &cause);
        go_on = true;
    }
    *c = (chain){next, cause.view.relation, cause.view.causes_left_out};
    ss_facts_release(&cause);
    return go_on;
}

static void put_error_and_causes(report_text *s, const ss_facts *facts)
{
    chain c = {{facts->error, facts->told}, facts->view.relation, facts->view.causes_left_out};

    put_error(s, facts);
    if (!ss_facts_has_chain(facts))
        return;
    for (uint32_t i = 0; !s->r->w->failed; i++) {
        if (!put_cause(s, &c, i == SS_REPORT_CAUSES_MAX))
            return;
    }
}

void ss_report_text(const ss_report *r, const ss_facts *facts)
{
    report_text s = {.r = r};

    if (r->alone)
        ss_report_text_alone(r, facts);
    else
        put_error_and_causes(&s, facts);
}
