#include "unwind/readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel looks at the new mask, and then refuses the request for what should be done to it. */
bool ss_is_readable(uintptr_t address)
{
    int before = errno;
    bool readable;

    (void)syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8);
    readable = errno == EINVAL;
    errno = before;
    return readable;
}
