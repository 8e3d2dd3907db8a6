/* Comparing two stacks from their outer ends, and the meaning of their elements. */
#include "traceback/match.h"

#include <string.h>

const char sspy_unknown_seam[] = "unknown frames in between";

/* ---- Script frames ----------------------------------------------------------------------------*/

typedef struct place {
    const stacksplice_frame *other; /* to compare with, or NULL */
    int64_t interpreter;
    bool is_script, is_here, is_same, is_same_line;
} place;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Whether FRAME is a Python frame of the interpreter with that id. */
static bool is_of(const stacksplice_frame *frame, int64_t id)
{
    char name[40];

    if (strcmp(frame->language, "python"))
        return false;
    if (id <= 0)
        return !frame->interpreter;
    PyOS_snprintf(name, sizeof name, "interpreter %lld", (long long)id);
    return same_text(frame->interpreter, name);
}

static int look(const stacksplice_frame *frame, void *data)
{
    place *p = data;

    p->is_script = frame->kind == STACKSPLICE_FRAME_SCRIPT;
    p->is_here = p->is_script && is_of(frame, p->interpreter);
    if (p->other) {
        p->is_same = p->is_script && same_text(frame->language, p->other->language) &&
                     same_text(frame->function, p->other->function) &&
                     same_text(frame->file, p->other->file) &&
                     same_text(frame->interpreter, p->other->interpreter);
        p->is_same_line = p->is_same && frame->line == p->other->line;
    }
    return 0;
}

static place look_at(uintptr_t element, int64_t interpreter, const stacksplice_frame *other)
{
    place p = {.other = other, .interpreter = interpreter};

    if (stacksplice_is_token(element))
        (void)stacksplice_resolve(element, look, &p);
    return p;
}

/* Compares another element with FRAME, whose strings live as long as the callback. */
typedef struct comparison {
    uintptr_t element;
    place result;
} comparison;

static int compare(const stacksplice_frame *frame, void *data)
{
    comparison *c = data;

    c->result = look_at(c->element, -1, frame);
    return 0;
}

static place compared(uintptr_t a, uintptr_t b)
{
    comparison c = {.element = a};

    if (stacksplice_is_token(a) && stacksplice_is_token(b))
        (void)stacksplice_resolve(b, compare, &c);
    return c.result;
}

/* ---- The two stacks ---------------------------------------------------------------------------*/

/* A stack read from its outer end. */
typedef struct outer_end {
    sspy_elements rest; /* the elements not passed yet */
    uint32_t hidden;    /* frames that its outermost element replaces, if it is such a gap */
} outer_end;

static uint32_t hidden_at(sspy_elements rest)
{
    return rest.count ? stacksplice_frames_left_out(rest.frames + rest.count - 1, 1) : 0;
}

static outer_end outer_end_of(sspy_elements s)
{
    return (outer_end){s, hidden_at(s)};
}

static uintptr_t outermost(const outer_end *end)
{
    return end->rest.count ? end->rest.frames[end->rest.count - 1] : 0;
}

static void pass(outer_end *end, uint32_t frames)
{
    if (end->hidden > frames) {
        end->hidden -= frames;
        return;
    }
    end->rest.count--;
    end->hidden = hidden_at(end->rest);
}

/* Pass the equal outer elements of A and B; returns whether there were any.  A frame that was left
   out counts as the one that the other stack has there; the numbers in the gaps say which one. */
static bool pass_same(outer_end *a, outer_end *b)
{
    bool any = false;

    while (a->rest.count && b->rest.count) {
        uint32_t frames = 1;

        if (a->hidden && b->hidden)
            frames = a->hidden < b->hidden ? a->hidden : b->hidden;
        else if (!a->hidden && !b->hidden && outermost(a) != outermost(b))
            break;
        pass(a, frames);
        pass(b, frames);
        any = true;
    }
    return any;
}

/* HERE is the part that only the border's stack has.  Whether it has no script frame, or only its
   outermost frame is one, of the same function as ELEMENT.  That frame went on since, to its line
   in HERE. */
static bool is_border(sspy_elements here, uintptr_t element, bool *went_on)
{
    *went_on = false;
    if (stacksplice_frames_left_out(here.frames, here.count))
        return false;
    for (uint32_t i = 0; i < here.count; i++) {
        if (!look_at(here.frames[i], -1, NULL).is_script)
            continue;
        if (i + 1 < here.count || !compared(here.frames[i], element).is_same)
            return false;
        *went_on = true;
    }
    return true;
}

uint32_t sspy_count_inside(sspy_elements taken, sspy_elements here, sspy_between *between)
{
    outer_end inside = outer_end_of(taken), border = outer_end_of(here);
    bool same = pass_same(&inside, &border), went_on;

    if (inside.hidden)
        between->outermost = stacksplice_left_out(inside.hidden);
    if (is_border(border.rest, outermost(&inside), &went_on) && (same || went_on))
        return inside.rest.count - went_on;
    between->seam = sspy_unknown_seam;
    return inside.rest.count;
}

bool sspy_same_line(uintptr_t a, uintptr_t b)
{
    return compared(a, b).is_same_line;
}

bool sspy_is_frame_of(uintptr_t element, int64_t interpreter)
{
    return look_at(element, interpreter, NULL).is_here;
}
