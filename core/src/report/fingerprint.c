/*
 * The grouping values: FNV-1a with 128 bits (draft-eastlake-fnv, "The FNV Non-Cryptographic Hash
 * Algorithm").
 *
 * The strict one takes everything that is equal wherever the same binaries and scripts run.  It
 * omits names of native functions, which depend on the symbols of a machine.  The loose one takes
 * these names in place of build-ids and offsets, which change with every build.  Both omit lines of
 * scripts, which move with every edit, and gaps.
 */
#include "report/report.h"

#include <string.h>

/* Limits of a group: different members, and levels of nested groups, that count. */
enum { MEMBERS_MAX = 32, LEVELS_MAX = 4 };

__extension__ typedef unsigned __int128 hash;

/* No variables: lldb 14 warns of debug information with constants of 16 bytes. */
#define OFFSET_BASIS ((hash)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d)
#define PRIME (((hash)1 << 88) + 0x13b)

static void add(hash *h, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        *h = (*h ^ at[i]) * PRIME;
}

/* Include the NUL, so that "a", "bc" and "ab", "c" differ. */
static void add_text(hash *h, const char *text)
{
    if (!text)
        text = "";
    add(h, text, strlen(text) + 1);
}

static void add_number(hash *h, uint64_t value)
{
    unsigned char bytes[8];

    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    add(h, bytes, sizeof bytes);
}

static void add_file(hash *h, const char *path)
{
    add_text(h, path ? ss_base_name(path) : NULL);
}

static void add_hash(hash *h, hash added)
{
    for (unsigned shift = 0; shift < 128; shift += 32)
        add_number(h, (uint32_t)(added >> shift));
}

/* Order two hashes, which differ, by their parts of 32 bits, the least significant one first. */
static bool is_before(hash a, hash b)
{
    while ((uint32_t)a == (uint32_t)b) {
        a >>= 32;
        b >>= 32;
    }
    return (uint32_t)a < (uint32_t)b;
}

/* ---- Stacks ----------------------------------------------------------------------------------*/

typedef struct stack_walk {
    hash *hash;
    bool is_loose;
    hash last; /* of the loose value: the element before */
} stack_walk;

/* A function without a name may be called "function <FILE:LINE>": neither folder nor line counts. */
static void add_script(hash *h, const stacksplice_frame *frame)
{
    bool nameless = frame->function && !strncmp(frame->function, "function <", 10);

    add_text(h, frame->language);
    add_text(h, nameless ? "function" : frame->function);
    add_file(h, frame->file);
}

static bool counts(const ss_frame *f)
{
    return f->frame.kind != STACKSPLICE_FRAME_GAP && !ss_glue_is(f);
}

static void add_strictly(hash *h, const ss_frame *f)
{
    const stacksplice_frame *frame = &f->frame;
    ss_frame nameless = *f;

    nameless.frame.function = NULL;
    nameless.is_judged = false; /* that was by its name */
    if (!counts(&nameless))
        return;
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT) {
        add_script(h, frame);
        return;
    }
    add_text(h, frame->language);
    if (frame->build_id)
        add_text(h, frame->build_id);
    else
        add_file(h, frame->module);
    add_number(h, frame->module ? frame->module_offset : 0);
}

/* The length of NAME before its first dot: that of a library without version and ending. */
static size_t stem(const char *name)
{
    return *name ? 1 + strcspn(name + 1, ".") : 0;
}

/* The length of a function's NAME without what compilers add to the parts they split off. */
static size_t without_part(const char *name)
{
    const char *clone = strstr(name, " [clone ");

    if (clone)
        return (size_t)(clone - name);
    return strpbrk(name, "( <") ? strlen(name) : stem(name);
}

static void add_part(hash *h, const char *text, size_t length)
{
    add(h, text, length);
    add(h, "", 1);
}

static void add_loosely(stack_walk *walk, const ss_frame *f)
{
    const stacksplice_frame *frame = &f->frame;
    const char *module = frame->module ? ss_base_name(frame->module) : "";
    const char *function = frame->function ? frame->function : "";
    hash element = OFFSET_BASIS;

    if (!counts(f))
        return;
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT) {
        add_script(&element, frame);
    } else {
        add_text(&element, frame->language);
        add_part(&element, module, stem(module));
        add_part(&element, function, without_part(function));
    }
    if (element != walk->last)
        add_hash(walk->hash, element);
    walk->last = element;
}

/*
 * Functions that were inlined at one address count as one: strictly as the address, which the first
 * frame has, loosely as the function that a symbol names, the last.
 */
static SS_NOINLINE void add_element(const ss_report *r, stack_walk *walk, uintptr_t address)
{
    bool added = false;
    ss_frames frames;

    ss_frames_begin(&frames, address, false, r->failfast);
    for (uint32_t i = 0; i < frames.count && !added; i++) {
        const ss_frame *f = ss_frames_at(&frames, i);

        if (!walk->is_loose)
            add_strictly(walk->hash, f);
        else if (!f->frame.inlined)
            add_loosely(walk, f);
        added = !walk->is_loose || !f->frame.inlined;
    }
    ss_frames_end(&frames);
}

static void add_stack(const ss_report *r, hash *h, const ss_facts *facts, bool is_loose)
{
    stack_walk walk = {.hash = h, .is_loose = is_loose, .last = OFFSET_BASIS};

    /* Not what its stack got since: an error has one value, whenever somebody reads it. */
    const ss_error_view *view = &facts->view;
    const uintptr_t *frames = view->captured ? view->captured : view->frames;
    uint32_t count = view->captured ? view->captured_count : view->frame_count;

    for (uint32_t i = 0; i < count; i++) {
        /* A recursion counts as the same one at any depth. */
        if (!i || frames[i] != frames[i - 1])
            add_element(r, &walk, frames[i]);
    }
}

/* ---- Groups ----------------------------------------------------------------------------------*/

/* Insert into HASHES, which are sorted and unique; drops one that does not fit. */
static void insert(hash *hashes, uint32_t *count, hash h)
{
    uint32_t at = 0;

    while (at < *count && hashes[at] != h && is_before(hashes[at], h))
        at++;
    if ((at < *count && hashes[at] == h) || *count == MEMBERS_MAX)
        return;
    memmove(hashes + at + 1, hashes + at, (*count - at) * sizeof *hashes);
    hashes[at] = h;
    ++*count;
}

static hash hash_error(const ss_report *r, const ss_facts *facts, bool is_loose, uint32_t level);

/* Hash the set of members: neither their order nor repetitions matter. */
static void add_members(const ss_report *r, hash *h, const ss_facts *group, uint32_t members,
                        bool is_loose, uint32_t level)
{
    hash hashes[MEMBERS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < members; i++) {
        ss_facts member;

        if (ss_facts_get_member(group, i, &member))
            insert(hashes, &count, hash_error(r, &member, is_loose, level + 1));
        ss_facts_release(&member);
    }
    for (uint32_t i = 0; i < count; i++)
        add_hash(h, hashes[i]);
}

static hash hash_error(const ss_report *r, const ss_facts *facts, bool is_loose, uint32_t level)
{
    uint32_t members, left_out;
    hash h = OFFSET_BASIS;

    add_number(&h, (uint32_t)facts->view.hresult);
    add_text(&h, facts->type);
    add_stack(r, &h, facts, is_loose);
    if (level < LEVELS_MAX && ss_facts_group(facts, &members, &left_out))
        add_members(r, &h, facts, members, is_loose, level);
    return h;
}

void ss_report_fingerprint(const ss_report *r, const ss_facts *facts, bool is_loose, char out[33])
{
    hash h = hash_error(r, facts, is_loose, 0);

    for (unsigned i = 0; i < 32; i++)
        out[i] = "0123456789abcdef"[(unsigned)(h >> (124 - 4 * i)) & 15];
    out[32] = 0;
}
