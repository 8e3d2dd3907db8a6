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
            ss_writer_text(s->r->w, s->r->order == STACKSPLICE_ORDER_NEWEST_LAST
                                        ? "an error of this report\n"
                                        : "an error above\n");
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

/* ---- Causes ----------------------------------------------------------------------------------*/

/* The errors that one was made from, latest first, each once. */
typedef struct chain {
    ss_subject errors[SS_REPORT_CAUSES_MAX];
    stacksplice_relation relations[SS_REPORT_CAUSES_MAX]; /* to the error before it */
    uint32_t count;
    const char *end;                   /* why there are no more; or NULL */
    stacksplice_relation end_relation; /* of what END is about */
} chain;

/* The error that was added last, and what is known of the next. */
typedef struct link {
    ss_subject later;
    stacksplice_relation relation;
    uint32_t left_out;
} link;

static bool end_chain(chain *c, stacksplice_relation relation, const char *end)
{
    c->end = end;
    c->end_relation = relation;
    return false;
}

static bool end_at(chain *c, const link *at)
{
    if (at->later.told && at->later.told->cause_above)
        return end_chain(c, at->relation, " an error above.\n");
    if (at->left_out)
        return end_chain(c, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    return false;
}

/* Add the next error; false after the last. */
static bool add_cause(report_text *s, chain *c, link *at)
{
    ss_subject next = ss_subject_previous(at->later);
    bool added = false;
    ss_facts cause;

    if (!ss_subject_is(next) || !ss_facts_of(next, &cause))
        return end_at(c, at);
    if (ss_seen_has(&s->seen, &cause)) {
        end_chain(c, at->relation, " an error above.\n");
    } else if (c->count == SS_REPORT_CAUSES_MAX || !ss_seen_add(&s->seen, &cause)) {
        end_chain(c, STACKSPLICE_RELATION_CAUSE, " more errors that are not shown.\n");
    } else {
        c->errors[c->count] = next;
        c->relations[c->count++] = at->relation;
        added = true;
    }
    *at = (link){next, cause.view.relation, cause.view.causes_left_out};
    ss_facts_release(&cause);
    return added;
}

static void find_causes(report_text *s, const ss_facts *facts, chain *c)
{
    link at = {{facts->error, facts->told}, facts->view.relation, facts->view.causes_left_out};

    c->count = 0;
    c->end = NULL;
    while (ss_facts_has_chain(facts) && add_cause(s, c, &at)) {
    }
}

static void put_words(report_text *s, stacksplice_relation relation, const char *rest)
{
    s->closed = false;
    ss_writer_text(s->r->w, relation == STACKSPLICE_RELATION_CONTEXT ? "Raised while handling"
                                                                     : "Caused by");
    ss_writer_text(s->r->w, rest);
}

static void put_cause(report_text *s, ss_subject subject)
{
    ss_facts cause;

    if (!ss_facts_of(subject, &cause))
        return;
    put_error(s, &cause);
    ss_facts_release(&cause);
}

static void put_causes_below(report_text *s, const chain *c)
{
    for (uint32_t i = 0; i < c->count && !s->r->w->failed; i++) {
        s->closed = false;
        ss_writer_text(s->r->w, "\n");
        put_words(s, c->relations[i], ":\n");
        put_cause(s, c->errors[i]);
    }
    if (!c->end)
        return;
    s->closed = false;
    ss_writer_text(s->r->w, "\n");
    put_words(s, c->end_relation, c->end);
}

/* The oldest first, in the words of scripts' tracebacks. */
static void put_causes_above(report_text *s, const chain *c)
{
    if (c->end) {
        put_words(s, c->end_relation, c->end);
        ss_writer_text(s->r->w, "\n");
    }
    for (uint32_t i = c->count; i-- && !s->r->w->failed;) {
        put_cause(s, c->errors[i]);
        s->closed = false;
        ss_writer_text(s->r->w, c->relations[i] == STACKSPLICE_RELATION_CONTEXT
                                    ? "\nDuring handling of the above exception, another exception "
                                      "occurred:\n\n"
                                    : "\nThe above exception was the direct cause of the following "
                                      "exception:\n\n");
    }
}

static void put_error_and_causes(report_text *s, const ss_facts *facts)
{
    bool last = s->r->order == STACKSPLICE_ORDER_NEWEST_LAST;
    chain c;

    (void)ss_seen_add(&s->seen, facts);
    if (last) {
        find_causes(s, facts, &c);
        put_causes_above(s, &c);
    }
    put_error(s, facts);
    if (!last) {
        find_causes(s, facts, &c);
        put_causes_below(s, &c);
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
