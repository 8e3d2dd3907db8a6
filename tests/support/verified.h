/* Programs of tests that are run once more, with each repeated capture compared with a full one. */
#ifndef STACKSPLICE_TEST_VERIFIED_H
#define STACKSPLICE_TEST_VERIFIED_H

#include "threads.h"

#include <signal.h>
#include <stdlib.h>

/*
 * Run this program with ARGUMENT and STACKSPLICE_VERIFY_PLANS=MODE: "1", or "blind", which ignores
 * the guards.  Whether it ended well; if not, a comparison must have ended it.
 */
static inline bool is_verified(const char *argument, const char *mode)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        (void)setenv("STACKSPLICE_VERIFY_PLANS", mode, 1);
        execl("/proc/self/exe", "verified", argument, (char *)NULL);
        _exit(1);
    }
    status = child_status(child);
    assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    return status == 0;
}

#endif
