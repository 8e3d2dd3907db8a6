/* STACKSPLICE_VERIFY_PLANS: each repeated capture is compared with a full one. */
#include "plan_support.h"
#include "verified.h"

#include <string.h>

static void change_guard_and_token(void)
{
    script.guarded++;
    change_token();
}

/* What a program of its own does: recur, then change a token that was not reported as a word. */
static const struct program {
    const char *name;
    int guarded; /* 0: nothing else tells of the change */
    void (*change)(void);
} programs[] = {{"lies", 0, change_token}, {"has a guard", 1, change_guard_and_token}};

static void run_program(const struct program *program)
{
    stack s;

    script.guarded = program->guarded;
    script.forgets_tokens = true;
    stacksplice_reclassify();
    for (volatile unsigned i = 0; i < 2; i += one) {
        (void)capture_times(&s, ENOUGH);
        program->change();
    }
}

TEST(test_verifying_finds_a_word_that_was_not_reported)
{
    assert_true(is_verified("is honest", "1"));
    assert_false(is_verified("lies", "1"));
}

TEST(test_verifying_finds_what_a_guard_prevents)
{
    assert_true(is_verified("has a guard", "1"));
    assert_false(is_verified("has a guard", "blind"));
}

int main(int argc, char **argv)
{
    stack s;

    if (argc == 1)
        return run_all_tests();
    (void)set_up(NULL);
    (void)capture_times(&s, 4 * ENOUGH);
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        if (!strcmp(programs[i].name, argv[1]))
            run_program(&programs[i]);
    return 0;
}
