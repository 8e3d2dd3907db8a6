#include "unwind/readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel reads the new mask first, and then rejects the request because of its invalid HOW. */
bool ss_is_readable(uintptr_t address)
{
    int before = errno;
    bool readable;

    (void)syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8);
    readable = errno == EINVAL;
    errno = before;
    return readable;
}
