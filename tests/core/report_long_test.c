/* Long stacks: cycles are folded so that no frame is lost, and a report in colour has two ends. */
#include <stacksplice/read.h>
#include <stacksplice/script.h>
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES_MAX = 600, SEEDS = 500 };

typedef struct list {
    uint32_t numbers[FRAMES_MAX], count;
} list;

static char text[1 << 16];
static size_t length;

static int keep(const char *more, size_t count, void *data)
{
    (void)data;
    assert_true(count < sizeof text - length);
    memcpy(text + length, more, count);
    length += count;
    text[length] = '\0';
    return 0;
}

static uint32_t any(uint32_t *seed, uint32_t most)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % most;
}

static void add(list *to, uint32_t number)
{
    if (to->count < FRAMES_MAX)
        to->numbers[to->count++] = number;
}

/* Add rounds of one to ten numbers, of which some are rounds themselves; the last is often cut. */
static void add_cycle(list *to, uint32_t *seed, uint32_t depth)
{
    uint32_t begin = to->count, period;

    for (uint32_t i = 1 + any(seed, 10); i; i--) {
        if (depth && !any(seed, 4))
            add_cycle(to, seed, depth - 1);
        else
            add(to, any(seed, 5));
    }
    period = to->count - begin;
    for (uint32_t i = any(seed, 7 * period + 1); i; i--)
        add(to, to->numbers[to->count - period]);
}

/* Write the report of a saved error with frames "f0" to "f8"; here and there stands a hidden one. */
static void report(const list *of, uint32_t *seed, const stacksplice_format_options *options)
{
    static const char *const names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"};
    static stacksplice_document_frame frames[2 * FRAMES_MAX];
    stacksplice_document document = {
        .size = sizeof document, .type = "ValueError", .message = {"bad", 3}};
    uint32_t count = 0;

    for (uint32_t i = 0; i < 2 * of->count; i++) {
        bool is_hidden = i % 2;

        if (is_hidden && any(seed, 8))
            continue;
        frames[count++] = (stacksplice_document_frame){
            .frame = {.size = sizeof(stacksplice_frame),
                      .kind = STACKSPLICE_FRAME_NATIVE,
                      .trust = STACKSPLICE_TRUST_EXACT,
                      .language = "native",
                      .function = is_hidden ? "hidden" : names[of->numbers[i / 2]],
                      .address = is_hidden ? 1 : 0x1000 + of->numbers[i / 2]},
            .glue = is_hidden};
    }
    document.stack.frames = frames;
    document.stack.count = count;
    length = 0;
    assert_int_equal(stacksplice_format_document(&document, options, keep, NULL), S_OK);
}

/* Read the stack back; it has no line of another kind.  LINES: how many it is long. */
static void read_back(list *to, uint32_t *lines)
{
    to->count = *lines = 0;
    for (const char *at = strstr(text, "    ("); at && *at == ' '; at = strchr(at, '\n') + 1) {
        unsigned number, period = 1, times;

        ++*lines;
        if (sscanf(at, " (C) f%u", &number) == 1) {
            add(to, number);
            continue;
        }
        assert_true(sscanf(at, " [Previous line repeated %u more time", &times) == 1 ||
                    sscanf(at, " [Previous %u frames repeated %u more time", &period, &times) == 2);
        assert_true(period <= to->count);
        for (uint32_t i = 0; i < period * times; i++)
            add(to, to->numbers[to->count - period]);
    }
}

TEST(test_nothing_of_a_folded_cycle_is_lost)
{
    static list made, found;
    uint32_t folded = 0;

    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t random = seed, lines;

        made.count = 0;
        for (uint32_t i = 0; i < 3; i++)
            add_cycle(&made, &random, 2);
        report(&made, &random, NULL);
        read_back(&found, &lines);
        assert_int_equal(found.count, made.count);
        assert_memory_equal(found.numbers, made.numbers, made.count * sizeof *made.numbers);
        folded += lines < made.count;
    }
    assert_true(folded > SEEDS / 4);
}

/* Three rounds, the line, and what is left of a round. */
TEST(test_a_cycle_takes_no_more_lines_than_four_rounds)
{
    static list made, found;

    for (uint32_t period = 1; period <= 9; period++) {
        uint32_t lines, random = 1, rest = period / 2;

        made.count = 0;
        for (uint32_t i = 0; i < 20 * period + rest; i++)
            add(&made, i % period);
        report(&made, &random, NULL);
        read_back(&found, &lines);
        assert_int_equal(found.count, made.count);
        assert_int_equal(lines, period == 9 ? made.count : 3 * period + 1 + rest);
    }
}

/* Newest first the message stands above them, so they are shorter. */
TEST(test_a_terminal_gets_both_ends)
{
    static list made;
    const stacksplice_format_options last = {
        .size = sizeof last, .order = STACKSPLICE_ORDER_NEWEST_LAST, .shorten = 1};
    const stacksplice_format_options first = {.size = sizeof first, .shorten = 1};
    const stacksplice_format_options file = {
        .size = sizeof file, .order = STACKSPLICE_ORDER_NEWEST_LAST, .color = 1};
    uint32_t random = 7, lines = 0;

    made.count = 0;
    while (made.count < 300)
        add(&made, (made.count * made.count / 7 + made.count / 5) % 5);
    report(&made, &random, &last);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 1 + 30 + 1 + 30 + 1);
    assert_non_null(strstr(text, "\n  ... 240 more frames, left out on terminals\n"));
    report(&made, &random, &first);
    assert_non_null(strstr(text, "\n    ... 280 more frames, left out on terminals\n"));
    report(&made, &random, &file);
    assert_null(strstr(text, "more frames"));
    made.count = 60;
    report(&made, &random, &last);
    assert_null(strstr(text, "more frames"));
}
