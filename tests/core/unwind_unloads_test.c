/* Modules that come and go: each state of the process has a number of its own. */
#include "unwind/unloads.h"
#include "support.h"

#include <dlfcn.h>

static void check_generations(void)
{
    uint64_t seen[40];
    uint32_t count = 0;

    for (unsigned i = 0; i < 10; i++) {
        void *library = dlopen(TURN_SMALL, RTLD_NOW);

        assert_non_null(library);
        seen[count++] = ss_modules_generation(false);
        assert_true(ss_modules_generation(false) == seen[count - 1]);
        assert_true(ss_modules_generation(true) == seen[count - 1]);
        dlclose(library);
        seen[count++] = ss_modules_generation(false);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
}

TEST(test_modules_are_told_apart)
{
    (void)ss_modules_generation(true);
#if !defined(__GLIBC__)
    SKIP("this C library unloads nothing");
#endif
    assert_true(ss_modules_watched(false)); /* no lock in a walk */
    check_generations();
    assert_false(ss_modules_watched(true));
    check_generations();
}
