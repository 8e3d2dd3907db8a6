/*
 * Several copies of Lua in one process that call each other: one in the program, the others in
 * plug-ins.  Each has its own call sites; the stack has the lines of all of them in true order.
 */
#include <stdio.h>
#include <string.h>

#include <stacksplice/stacksplice.h>

#include "copies.h"
#include "libraries.h"
#include "support.h"

void enter_program(copies *all);

enum { MAX_FRAMES = 512 };

static int checks, frames_seen;

typedef struct comparison {
    const copies *all;
    int left; /* lines that must still come, the innermost is the last one */
} comparison;

static int compare_frame(const stacksplice_frame *frame, void *data)
{
    comparison *now = data;
    char line[200];

    assert_int_not_equal(frame->kind, STACKSPLICE_FRAME_GAP);
    if (frame->kind != STACKSPLICE_FRAME_SCRIPT || strcmp(frame->file, "[C]") == 0)
        return 0;
    (void)snprintf(line, sizeof line, "%s:%u", frame->file, frame->line);
    assert_true(now->left > 0);
    assert_string_equal(line, now->all->lines[--now->left]);
    assert_int_equal(frame->trust, STACKSPLICE_TRUST_EXACT);
    frames_seen++;
    return 0;
}

static void check(copies *all)
{
    uintptr_t frames[MAX_FRAMES];
    comparison now = {all, all->line_count};
    uint32_t count = 0;

    checks++;
    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], compare_frame, &now);
    assert_int_equal(now.left, 0);
}

static copies_enter plugin(const char *path)
{
    copies_enter entry;

    (void)find_in(open_library(path), "enter_plugin", &entry);
    return entry;
}

static void run(copies *all, const copies_enter *order, int count)
{
    all->at = 1;
    all->line_count = 0;
    memset(all->order, 0, sizeof all->order);
    memcpy(all->order, order, (size_t)count * sizeof *order);
    all->check = check;
    order[0](all);
}

TEST(test_copies_call_each_other)
{
    static copies all;
    copies_enter p = enter_program, a = plugin(PLUGIN_A), b = plugin(PLUGIN_B);
    const copies_enter orders[][6] = {
        {p}, {a}, {b}, {p, a}, {a, p}, {a, b, p}, {p, a, b, p, a, b}, {b, b, a, p, a, p},
    };

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        int count = 0;

        while (count < 6 && orders[i][count])
            count++;
        run(&all, orders[i], count);
    }
    assert_int_equal(checks, sizeof orders / sizeof *orders);
    assert_int_equal(frames_seen, 2 * 22); /* two lines of each hop */
}
