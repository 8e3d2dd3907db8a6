/* Comparing two stacks from their outer ends, and the meaning of their elements. */
#include "traceback/match.h"

#include <stdlib.h>
#include <string.h>

const char sspy_unknown_seam[] = "unknown frames in between";

/* ---- Script frames ----------------------------------------------------------------------------*/

/* Facts about one element, or about two. */
enum {
    IS_SCRIPT = 1,
    IS_HERE = 2,
    IS_SAME = 4,
    IS_SAME_LINE = 8,
    IS_SAME_PLACE = 16,
    IS_IN_FILE = 32,
    IS_SAME_FILE_LINE = 64 /* the names of the functions may differ */
};

typedef struct place {
    const stacksplice_frame *other; /* to compare with, or NULL */
    int64_t interpreter;
    unsigned facts;
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

static bool is_same(const stacksplice_frame *a, const stacksplice_frame *b)
{
    return same_text(a->language, b->language) && same_text(a->function, b->function) &&
           same_text(a->file, b->file) && same_text(a->interpreter, b->interpreter);
}

/* Facts about two frames of one function. */
static unsigned compare_places(const stacksplice_frame *a, const stacksplice_frame *b)
{
    if (a->line != b->line)
        return IS_SAME;
    if (a->column != b->column || a->end_line != b->end_line || a->end_column != b->end_column ||
        a->trust != b->trust)
        return IS_SAME | IS_SAME_LINE;
    return IS_SAME | IS_SAME_LINE | IS_SAME_PLACE;
}

static int look(const stacksplice_frame *frame, void *data)
{
    place *p = data;

    p->facts = 0;
    if (frame->kind != STACKSPLICE_FRAME_SCRIPT)
        return 0;
    p->facts = IS_SCRIPT;
    if (is_of(frame, p->interpreter))
        p->facts |= IS_HERE;
    if (frame->file && strcmp(frame->file, "[C]") != 0)
        p->facts |= IS_IN_FILE;
    if (p->other && is_same(frame, p->other))
        p->facts |= compare_places(frame, p->other);
    if (p->other && p->other->kind == frame->kind && frame->file && frame->line == p->other->line &&
        same_text(frame->language, p->other->language) && same_text(frame->file, p->other->file))
        p->facts |= IS_SAME_FILE_LINE;
    return 0;
}

/* Compares another element with FRAME, whose strings live as long as the callback. */
typedef struct comparison {
    uintptr_t element;
    place place;
    HRESULT result;
} comparison;

static int compare(const stacksplice_frame *frame, void *data)
{
    comparison *c = data;

    c->place.other = frame;
    c->result = stacksplice_resolve(c->element, look, &c->place);
    return 0;
}

static HRESULT find_out(comparison *c, uintptr_t other)
{
    HRESULT result;

    if (!other)
        return stacksplice_resolve(c->element, look, &c->place);
    result = stacksplice_resolve(other, compare, c);
    return FAILED(result) ? result : c->result;
}

/* What is known of a token, or of two. */
typedef struct known_place {
    uintptr_t element, other; /* 0: none */
    unsigned facts;
} known_place;

enum { KNOWN_PLACES = 64 }; /* a power of two */

/* The facts about ELEMENT, and about it and OTHER if that is not 0.  A token never changes its
   meaning, so they are found out once: reading names takes long. */
static unsigned facts_of(sspy_state *state, uintptr_t element, uintptr_t other)
{
    uint64_t hash = (element ^ other << 20) * UINT64_C(0x9E3779B97F4A7C15);
    known_place *all = sspy_record(state, SSPY_OF_MATCH, KNOWN_PLACES * sizeof *all);
    known_place *known = all ? &all[hash >> 32 & (KNOWN_PLACES - 1)] : NULL;
    comparison c = {.element = element, .place = {.interpreter = state->interp->id}};

    if (!stacksplice_is_token(element) || (other && !stacksplice_is_token(other)))
        return 0;
    if (known && known->element == element && known->other == other)
        return known->facts;
    if (SUCCEEDED(find_out(&c, other)) && known)
        *known = (known_place){element, other, c.place.facts};
    return c.place.facts;
}

/* ---- Of an error ------------------------------------------------------------------------------*/

typedef stacksplice_hresult read_stack(IUnknown *error, uint32_t max, uintptr_t *frames,
                                       uint32_t *count);

static sspy_elements copy_of(void *error, read_stack *read, sspy_stack_copy *copy)
{
    uintptr_t *frames = copy->near;
    uint32_t count = 0;

    copy->far = NULL;
    (void)read(error, 0, NULL, &count);
    if (count > SSPY_NEAR_FRAMES)
        frames = copy->far = malloc(count * sizeof *frames);
    if (!frames || !count || FAILED(read(error, count, frames, &count)))
        count = 0;
    return (sspy_elements){frames, count};
}

sspy_elements sspy_captured(void *error, sspy_stack_copy *copy)
{
    return copy_of(error, stacksplice_error_captured, copy);
}

sspy_elements sspy_shown(void *error, sspy_stack_copy *copy)
{
    return copy_of(error, stacksplice_error_stack, copy);
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

/* How many outer elements are the same in both. */
static uint32_t count_equal(sspy_elements a, sspy_elements b)
{
    uint32_t most = a.count < b.count ? a.count : b.count, count = 0;

    while (count < most && a.frames[a.count - 1 - count] == b.frames[b.count - 1 - count])
        count++;
    return count;
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
static bool is_border(sspy_state *state, sspy_elements here, uintptr_t element, bool *went_on)
{
    *went_on = false;
    if (stacksplice_frames_left_out(here.frames, here.count))
        return false;
    for (uint32_t i = 0; i < here.count; i++) {
        if (!(facts_of(state, here.frames[i], 0) & IS_SCRIPT))
            continue;
        if (i + 1 < here.count || !(facts_of(state, here.frames[i], element) & IS_SAME))
            return false;
        *went_on = true;
    }
    return true;
}

uint32_t sspy_count_inside(sspy_state *state, sspy_elements taken, sspy_elements here,
                           sspy_between *between)
{
    uint32_t equal = count_equal(taken, here);
    outer_end inside = outer_end_of((sspy_elements){taken.frames, taken.count - equal});
    outer_end border = outer_end_of((sspy_elements){here.frames, here.count - equal});
    bool same = pass_same(&inside, &border) || equal, went_on;

    if (inside.hidden)
        between->outermost = stacksplice_left_out(inside.hidden);
    if (is_border(state, border.rest, outermost(&inside), &went_on) && (same || went_on))
        return inside.rest.count - went_on;
    between->seam = sspy_unknown_seam;
    return inside.rest.count;
}

bool sspy_same_line(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return b && facts_of(state, a, b) & IS_SAME_LINE;
}

bool sspy_same_place(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return a == b || (b && facts_of(state, a, b) & IS_SAME_PLACE);
}

bool sspy_same_file_line(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return b && facts_of(state, a, b) & IS_SAME_FILE_LINE;
}

bool sspy_is_in_file(sspy_state *state, uintptr_t element)
{
    return facts_of(state, element, 0) & IS_IN_FILE;
}

bool sspy_is_frame_of(sspy_state *state, uintptr_t element)
{
    return facts_of(state, element, 0) & IS_HERE;
}
