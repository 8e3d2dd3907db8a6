#include "base/thread.h"
#include "crash/deadlines.h"

#include <string.h>
#include <time.h>

static bool is_valid(const stacksplice_deadline_options *options)
{
    const uint32_t known = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;

    return options->size == sizeof *options && !(options->flags & ~known);
}

static void copy_name(const char *name, char *to)
{
    size_t length = stacksplice_deadline_name_length(name);

    memcpy(to, name, length);
    to[length] = 0;
}

stacksplice_hresult stacksplice_deadline_begin(uint32_t milliseconds,
                                               const stacksplice_deadline_options *options,
                                               stacksplice_deadline *deadline)
{
    ss_deadline d = {.thread_id = ss_thread_id(), .milliseconds = milliseconds};
    stacksplice_hresult hr;
    bool wake = false;

    if (!deadline)
        return E_POINTER;
    if (options && !is_valid(options))
        return E_INVALIDARG;
    if (!ss_deadline_watch())
        return E_OUTOFMEMORY;
    if (options) {
        d.flags = options->flags;
        d.missed = options->missed;
        d.interrupt = options->interrupt;
        d.data = options->data;
        copy_name(options->name ? options->name : "", d.name);
    }
    d.at = ss_deadline_now() + (int64_t)milliseconds * 1000 * 1000;
    hr = ss_deadlines_add(&d, deadline, &wake);
    if (wake)
        ss_deadline_wake();
    return hr;
}

stacksplice_hresult stacksplice_deadline_end(stacksplice_deadline deadline)
{
    const struct timespec moment = {0, 500 * 1000};
    stacksplice_hresult hr;

    while ((hr = ss_deadlines_remove(deadline)) == E_PENDING && !ss_deadline_is_watcher())
        (void)nanosleep(&moment, NULL);
    return hr;
}
