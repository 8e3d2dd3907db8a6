/* Puts the handler of crashes in the place of others, and takes it away. */
#include "crash/fault.h"

#include "base/thread.h"
#include "crash/crash.h"

#include <stacksplice/crash.h>

#include <string.h>

SS_LOCK(lock);
static bool installed; /* (LOCK) */

static bool is_ignored(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

static void install(void)
{
    struct sigaction action, now;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = ss_handle_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < SS_FAULT_KINDS; i++) {
        int number = ss_fault_kinds[i].number;

        if (sigaction(number, NULL, &now) != 0 || ss_handler_is_ours(&now) || is_ignored(&now))
            continue;
        ss_handler_former[i] = now;
        (void)sigaction(number, &action, NULL);
    }
}

static bool is_valid(const stacksplice_crash_options *options)
{
    return options->size == sizeof *options &&
           (!options->directory || strlen(options->directory) < SS_CRASH_DIRECTORY_MAX);
}

static void choose(const stacksplice_crash_options *options)
{
    ss_handler_choice.has_directory = options && options->directory;
    if (ss_handler_choice.has_directory)
        memcpy(ss_handler_choice.directory, options->directory, strlen(options->directory) + 1);
    ss_handler_choice.others_first = options && options->others_first;
    ss_handler_choice.thread_timeout =
        options && options->thread_timeout ? options->thread_timeout : SS_CRASH_THREAD_TIMEOUT;
}

stacksplice_hresult stacksplice_install_crash_handler(const stacksplice_crash_options *options)
{
    stacksplice_hresult hr;
    bool was_installed;

    if (options && !is_valid(options))
        return E_INVALIDARG;
    hr = stacksplice_crash_thread();
    if (hr < 0)
        return hr;
    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted this very function */
    was_installed = installed;
    if (options || !installed)
        choose(options);
    atomic_store(&ss_handler_is_on, true);
    if (!was_installed)
        install();
    installed = true;
    ss_lock_drop(&lock);
    ss_uncaught_watch();
    return was_installed ? S_FALSE : S_OK;
}

stacksplice_hresult stacksplice_remove_crash_handler(void)
{
    struct sigaction now;
    bool was_installed;

    if (!ss_lock_take(&lock))
        return E_ILLEGAL_METHOD_CALL;
    was_installed = installed;
    installed = false;
    atomic_store(&ss_handler_is_on, false);
    for (size_t i = 0; was_installed && i < SS_FAULT_KINDS; i++) {
        if (sigaction(ss_fault_kinds[i].number, NULL, &now) == 0 && ss_handler_is_ours(&now))
            (void)sigaction(ss_fault_kinds[i].number, &ss_handler_former[i], NULL);
    }
    ss_lock_drop(&lock);
    return was_installed ? S_OK : S_FALSE;
}
