/*
 * The merge, told in letters.  Native frames are capital letters, from A on, innermost first; what
 * a source puts in is lower-case.  In a result "!" is a gap: the native frames end early (or, where
 * two sources claim one frame, they disagree), "?" a gap before frames found by frame pointers.
 */
#include "splice/merge.h"
#include "splice/token.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

#define END_GAP 1
#define MAX 64

/* A source's splices: "2:ab" replaces frame C by ab, "1+2:x" frames B and C, "1+0:x" inserts. */
static const struct {
    const char *native; /* a lower-case letter: inferred by its frame pointer */
    const char *sources[3];
    bool early; /* the native frames end early */
    const char *want;
} cases[] = {
    {"", {NULL}, false, ""},
    {"", {NULL}, true, "!"},
    {"", {"0+0:ab"}, true, "!ab"},
    {"ABC", {NULL}, false, "ABC"},
    {"ABC", {NULL}, true, "ABC!"},
    {"ABC", {"1:pqr"}, false, "ApqrC"},
    {"ABC", {"0:p"}, false, "pBC"},
    {"ABC", {"2:p"}, true, "ABp!"},
    {"ABC", {"0+3:"}, false, ""},
    {"ABC", {"1:"}, false, "AC"},
    {"ABC", {"1+0:p"}, false, "ApBC"},
    {"ABC", {"0+0:p"}, false, "pABC"},
    {"ABC", {"3+0:p"}, false, "ABCp"},
    {"ABC", {"3+0:p"}, true, "ABC!p"},
    {"ABC", {"3+0:p", "3+0:l"}, true, "ABC!pl"},
    {"ABCDE", {"1:p 3:q"}, false, "ApCqE"},
    {"ABCDE", {"1:p", "3:l"}, false, "ApClE"},
    {"ABCDE", {"3:p", "1:l"}, false, "AlCpE"},
    {"ABCDE", {"1:p 4:q", "2:l 3:m"}, false, "Aplmq"},
    {"ABCDE", {"1+2:p", "3:l"}, false, "AplE"},
    {"ABC", {"1+0:p", "1:l"}, false, "AplC"},
    {"ABC", {"1:p", "1+0:l"}, false, "AlpC"},
    {"ABC", {"1+0:p 1:q"}, false, "ApqC"},
    {"ABC", {"1:p 2+0:q"}, false, "ApqC"},
    {"ABC", {"1+0:p", "1+0:l"}, false, "AplBC"},
    {"ABC", {"1:p", "1:l"}, false, "A!BplC"},
    {"ABCDE", {"1+3:p", "2:l"}, false, "A!BCDplE"},
    {"ABCDE", {"2:p", "1+3:l"}, false, "A!BCDlpE"},
    {"ABCDE", {"1+2:p", "2+2:l"}, false, "A!BCDplE"},
    {"ABCDE", {"1+2:p", "2+0:l"}, false, "A!BCplDE"},
    {"ABCDE", {"1+2:p", "2+2:l", "3+2:m"}, false, "A!BCDEplm"},
    {"ABCDE", {"0+2:p", "1+2:l", "3:m"}, false, "!ABCplmE"},
    {"ABCDE", {"1+2:p 4:q", "2:l"}, true, "A!BCplDq!"},
    {"ABcdE", {NULL}, false, "AB?CDE"},
    {"AbCd", {NULL}, true, "A?BC?D!"},
    {"AbcD", {"1:p"}, false, "ApCD"},
    {"AbcD", {"2:p"}, false, "A?BpD"},
};

typedef struct built {
    stacksplice_native_frame frames[MAX];
    ss_splice splices[MAX];
    uintptr_t tokens[MAX];
    ss_merge merge;
} built;

static void add_splices(built *b, const char *text)
{
    while (text && *text) {
        ss_splice *splice = &b->splices[b->merge.splice_count++];
        unsigned first, count = 1;
        int used = 0;

        if (sscanf(text, "%u+%u:%n", &first, &count, &used) < 2 || !used)
            assert_int_equal(sscanf(text, "%u:%n", &first, &used), 1);
        *splice = (ss_splice){first, count, b->merge.token_count, 0};
        for (text += used; *text && *text != ' '; text++)
            b->tokens[splice->token_first + splice->token_count++] = (uintptr_t)*text;
        b->merge.token_count += splice->token_count;
        text += *text == ' ';
    }
}

static void build(built *b, size_t row)
{
    memset(b, 0, sizeof *b);
    for (const char *n = cases[row].native; *n; n++) {
        stacksplice_native_frame *f = &b->frames[b->merge.frame_count];

        f->ip = (uintptr_t)('A' + b->merge.frame_count++);
        f->flags = *n >= 'a' ? STACKSPLICE_NATIVE_INFERRED : 0;
        b->merge.special |= *n >= 'a';
    }
    for (size_t s = 0; s < SS_COUNT_OF(cases[row].sources); s++) {
        uint32_t first = b->merge.splice_count;

        add_splices(b, cases[row].sources[s]);
        ss_merge_sort(b->splices, first, b->merge.splice_count);
    }
    b->merge.frames = b->frames;
    b->merge.splices = b->splices;
    b->merge.tokens = b->tokens;
    b->merge.end_gap = cases[row].early ? END_GAP : 0;
}

static char letter(uintptr_t element)
{
    stacksplice_token_info info;
    char room[SS_TOKEN_ROOM];

    if (element == END_GAP)
        return '!';
    if (!ss_token_is(element))
        return (char)element;
    (void)ss_token_read(element, &info, room, sizeof room);
    assert_int_equal(info.kind, STACKSPLICE_FRAME_GAP);
    if (info.trust == STACKSPLICE_TRUST_INFERRED)
        return '?';
    assert_string_equal(info.reason, "two languages claim the same native frames");
    return '!';
}

TEST(test_merge_places_script_frames)
{
    for (size_t row = 0; row < SS_COUNT_OF(cases); row++) {
        uintptr_t out[MAX];
        ss_sink sink = {.frames = out, .max = MAX};
        char got[MAX + 1];
        built b;

        build(&b, row);
        ss_merge_run(&b.merge, &sink);
        for (uint32_t i = 0; i < sink.stored; i++)
            got[i] = letter(out[i]);
        got[sink.stored] = 0;
        if (strcmp(got, cases[row].want) != 0)
            fail_msg("row %zu (%s): %s, not %s", row, cases[row].native, got, cases[row].want);
        assert_false(sink.more);
    }
}

/* The gap at the end of the native frames is not skipped, nor is what comes after it. */
static uint32_t skipped_of(uint32_t skip, size_t row)
{
    const char *want = cases[row].want, *gap = cases[row].early ? strrchr(want, '!') : NULL;

    return gap && skip > (size_t)(gap - want) ? (uint32_t)(gap - want) : skip;
}

TEST(test_merge_skips_and_stops)
{
    for (size_t row = 0; row < SS_COUNT_OF(cases); row++) {
        size_t length = strlen(cases[row].want);

        for (uint32_t skip = 0; skip < 12; skip++)
            for (uint32_t max = 0; max < 12; max++) {
                uintptr_t out[12];
                ss_sink sink = {.frames = out, .max = max, .skip = skip};
                uint32_t skipped = skipped_of(skip, row);
                size_t left = length > skipped ? length - skipped : 0;
                built b;

                build(&b, row);
                ss_merge_run(&b.merge, &sink);
                assert_int_equal(sink.stored, left < max ? left : max);
                assert_int_equal(sink.more, left > max);
                for (uint32_t i = 0; i < sink.stored; i++)
                    assert_int_equal(letter(out[i]), cases[row].want[skipped + i]);
            }
    }
}

/* Three sources take turns on a deep stack; of two at one frame the first source's stays in front. */
TEST(test_merge_sorts_deep_stacks)
{
    enum { EACH = 100, ALL = 3 * EACH };
    ss_splice splices[ALL];

    for (uint32_t i = 0; i < ALL; i++)
        splices[i] = (ss_splice){i % EACH * 2 + (i / EACH == 1), i % 3, i, 0};
    for (uint32_t end = EACH; end <= ALL; end += EACH)
        ss_merge_sort(splices, end - EACH, end);
    for (uint32_t i = 1; i < ALL; i++) {
        const ss_splice *a = &splices[i - 1], *b = &splices[i];
        bool later = a->first == b->first && a->count && !b->count;

        assert_true(a->first < b->first || (a->first == b->first && !later));
        if (a->first == b->first && !a->count == !b->count)
            assert_true(a->token_first < b->token_first);
    }
}
