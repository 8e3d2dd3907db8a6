/* What voids plans: guards that do not hold, and what all plans of a thread depend on. */
#include "plan_support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- Guards -----------------------------------------------------------------------------------*/

static void change_guard(void)
{
    script.guarded++;
}

PLAN_TEST(test_guard_that_does_not_hold_is_seen)
{
    stack before, after;

    script.guarded = 1;
    assert_false(asks_after(NULL, &before, &after));
    assert_true(asks_after(change_guard, &before, &after));
    check_equal(&before, &after);
}

static node *page;

static void unmap_and_guard(void)
{
    script.guarded++;
    assert_int_equal(munmap(page, 4096), 0);
    page = mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    script.head = NULL;
}

/* A guard that a source reports first is asked first. */
PLAN_TEST(test_guard_comes_before_later_words)
{
    stack before, after;

    script.guarded = 1;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    page[0] = (node){NULL, script_token("d")};
    script.head = page;
    assert_true(asks_after(unmap_and_guard, &before, &after));
    assert_int_equal(munmap(page, 4096), 0);
}

/* ---- What all plans depend on -----------------------------------------------------------------*/

static void load(void)
{
    void *library = dlopen(TURN_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    assert_int_equal(dlclose(library), 0);
}

static void drop_tokens(void)
{
    uint32_t epoch = stacksplice_token_epoch();
    char name[32];

    for (unsigned i = 0; stacksplice_token_epoch() == epoch; i++) {
        (void)snprintf(name, sizeof name, "flood %u", i);
        assert_true(script_token(name) != 0);
    }
    (void)set_up(NULL);
}

static void collect_nothing(stacksplice_walk *walk, void *data)
{
    (void)walk;
    (void)data;
}

static void add_source(void)
{
    static const stacksplice_source late = {SOURCE, .language = "late", .identity = &late,
                                            .collect = collect_nothing, .reports = 1};

    assert_int_equal(stacksplice_add_source(&late), S_OK);
}

PLAN_TEST(test_what_all_plans_depend_on_voids_them)
{
    static void (*const changes[])(void) = {stacksplice_reclassify, load, drop_tokens, add_source};

    for (volatile unsigned i = 0; i < COUNT_OF(changes); i += one) { /* one call */
        stack before, after;

        check_row(i, asks_after(changes[i], &before, &after), true);
        if (changes[i] == drop_tokens)
            assert_true(after.frames[0] == nodes[0].token);
        else
            check_equal(&before, &after);
    }
}
