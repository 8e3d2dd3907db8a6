/* The program's tests, in the order of their places. */
#include "support.h"

#include <string.h>

enum { MAX_TESTS = 128 };

static struct support_test *first;
static CMFixtureFunction group_setup, group_teardown;

static int is_before(const struct support_test *a, const struct support_test *b)
{
    int files = strcmp(a->file, b->file);

    return files ? files < 0 : a->line < b->line;
}

void support_add_test(struct support_test *test)
{
    struct support_test **at = &first;

    while (*at && is_before(*at, test))
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void support_set_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

int run_all_tests(void)
{
    static struct CMUnitTest tests[MAX_TESTS];
    size_t count = 0;

    for (const struct support_test *test = first; test; test = test->next) {
        if (count == MAX_TESTS)
            return -1;
        tests[count++] = test->unit;
    }
    return count ? _cmocka_run_group_tests("tests", tests, count, group_setup, group_teardown) : -1;
}
