/*
 * The grouping value: FNV-1a with 128 bits (draft-eastlake-fnv, "The FNV Non-Cryptographic Hash
 * Algorithm") over everything that is equal wherever the same binaries and scripts run.
 *
 * It omits names of native functions, which depend on the symbols of a machine.  It also omits
 * lines of scripts, which move with every edit, and gaps.
 */
#include "report/report.h"

#include "resolve/glue.h"

#include <string.h>

/* Limits of a group: different members, and levels of nested groups, that count. */
enum { MEMBERS_MAX = 32, LEVELS_MAX = 4 };

/* 128 bits, least significant part first. */
typedef struct hash {
    uint32_t part[4];
} hash;

static const hash offset_basis = {{0x6295c58d, 0x62b82175, 0x07bb0142, 0x6c62272e}};

/* Multiply by the prime 2^88 + 0x13b. */
static void multiply(hash *h)
{
    uint32_t low = h->part[0], high = h->part[1];
    uint64_t carry = 0;

    for (unsigned i = 0; i < 4; i++) {
        carry += (uint64_t)h->part[i] * 0x13b;
        if (i == 2)
            carry += low << 24;
        if (i == 3)
            carry += (uint32_t)(high << 24 | low >> 8);
        h->part[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void add(hash *h, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++) {
        h->part[0] ^= at[i];
        multiply(h);
    }
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

static int add_frame(const ss_frame *f, void *data)
{
    const stacksplice_frame *frame = &f->frame;
    ss_frame nameless = *f;
    hash *h = data;

    nameless.frame.function = NULL;
    if (frame->kind == STACKSPLICE_FRAME_GAP || ss_glue_is(&nameless))
        return 1;
    add_text(h, frame->language);
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT) {
        add_text(h, frame->function);
        add_file(h, frame->file);
    } else {
        if (frame->build_id)
            add_text(h, frame->build_id);
        else
            add_file(h, frame->module);
        add_number(h, frame->module ? frame->module_offset : 0);
    }
    return 1; /* functions inlined at one address count as one */
}

/* Order two hashes by their parts, so that every machine agrees. */
static int compare(const hash *a, const hash *b)
{
    for (unsigned i = 0; i < 4; i++) {
        if (a->part[i] != b->part[i])
            return a->part[i] < b->part[i] ? -1 : 1;
    }
    return 0;
}

/* Insert into HASHES, which are sorted and unique; drops one that does not fit. */
static void insert(hash *hashes, uint32_t *count, const hash *h)
{
    uint32_t at = 0;

    while (at < *count && compare(&hashes[at], h) < 0)
        at++;
    if ((at < *count && !compare(&hashes[at], h)) || *count == MEMBERS_MAX)
        return;
    memmove(hashes + at + 1, hashes + at, (*count - at) * sizeof *hashes);
    hashes[at] = *h;
    ++*count;
}

static hash hash_error(const ss_report *r, const ss_facts *facts, uint32_t level);

/* Hash the set of members: neither their order nor repetitions matter. */
static void add_members(const ss_report *r, hash *h, IUnknown *group, uint32_t members,
                        uint32_t level)
{
    hash hashes[MEMBERS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        ss_facts facts;

        if (stacksplice_error_member(group, i, &member) != S_OK)
            break;
        if (ss_facts_get((IUnknown *)(void *)member, &facts)) {
            hash member_hash = hash_error(r, &facts, level + 1);

            insert(hashes, &count, &member_hash);
            ss_facts_release(&facts);
        }
        member->lpVtbl->Release(member);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (unsigned part = 0; part < 4; part++)
            add_number(h, hashes[i].part[part]);
    }
}

static hash hash_error(const ss_report *r, const ss_facts *facts, uint32_t level)
{
    uint32_t members = 0;
    hash h = offset_basis;

    add_number(&h, (uint32_t)facts->view.hresult);
    add_text(&h, facts->type);
    for (uint32_t i = 0; i < facts->view.frame_count; i++) {
        /* A recursion counts as the same one at any depth. */
        if (!i || facts->view.frames[i] != facts->view.frames[i - 1])
            ss_report_resolve(r, facts->view.frames[i], add_frame, &h);
    }
    if (level < LEVELS_MAX && ss_facts_has_chain(facts) &&
        stacksplice_error_group(facts->error, &members, NULL) == S_OK)
        add_members(r, &h, facts->error, members, level);
    return h;
}

void ss_report_fingerprint(const ss_report *r, const ss_facts *facts, char out[33])
{
    hash h = hash_error(r, facts, 0);

    for (unsigned i = 0; i < 32; i++)
        out[i] = "0123456789abcdef"[h.part[3 - i / 8] >> (28 - i % 8 * 4) & 15];
    out[32] = 0;
}
