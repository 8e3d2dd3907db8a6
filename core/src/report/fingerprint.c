/*
 * The grouping value: FNV-1a with 128 bits (draft-eastlake-fnv, "The FNV Non-Cryptographic Hash
 * Algorithm") over what is the same wherever the same binaries and scripts run.
 *
 * Names of native functions are left out, since they depend on which symbols a machine has; so are
 * lines of scripts, which move with every edit, and gaps.
 */
#include "report/report.h"

#include "report/glue.h"

#include <string.h>

/* 128 bits, least significant part first. */
typedef struct hash {
    uint32_t part[4];
} hash;

static const hash offset_basis = {{0x6295c58d, 0x62b82175, 0x07bb0142, 0x6c62272e}};

/* Times the prime 2^88 + 0x13b. */
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

/* With its NUL, so that "a", "bc" and "ab", "c" differ. */
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

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : path;
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
        add_text(h, base_name(frame->file));
    } else {
        add_text(h, frame->build_id ? frame->build_id : base_name(frame->module));
        add_number(h, frame->module ? frame->module_offset : 0);
    }
    return 1; /* functions inlined at one address are one place */
}

void ss_report_fingerprint(const ss_report *r, const ss_facts *facts, char out[33])
{
    hash h = offset_basis;

    add_number(&h, (uint32_t)facts->view.hresult);
    add_text(&h, facts->type);
    for (uint32_t i = 0; i < facts->view.frame_count; i++) {
        /* However deep a recursion went, it is the same one. */
        if (!i || facts->view.frames[i] != facts->view.frames[i - 1])
            ss_report_resolve(r, facts->view.frames[i], add_frame, &h);
    }
    for (unsigned i = 0; i < 32; i++)
        out[i] = "0123456789abcdef"[h.part[3 - i / 8] >> (28 - i % 8 * 4) & 15];
    out[32] = 0;
}
