/* Puts our handlers in the place of others, and takes them away: that of crashes by signals, and those
   of the C++ libraries of this process for exceptions that nobody catches. */
#include "crash/crash.h"

#include "base/thread.h"

#include <stacksplice/crash.h>
#include <stacksplice/thrown.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Exceptions that nobody catches ----------------------------------------------------------*/

/* C++ libraries that are handled: copies that are linked statically count, too. */
enum { LIBRARIES = 4 };

typedef void handler(void);

/* The handler of a library has to know which one it is of. */
typedef struct library {
    handler *(*set)(handler *); /* (LOCK) its std::set_terminate; NULL: free */
    _Atomic(handler *) first;   /* what was there before ours ever was */
    _Atomic(handler *) former;  /* what was there when ours came in front */
    _Atomic uint64_t thread;    /* the last one in our handler */
} library;

SS_LOCK(lock);
static stacksplice_uncaught *binaries; /* (LOCK) */
static library libraries[LIBRARIES];
static atomic_bool is_watching; /* (ATOMIC) */
static atomic_bool is_asked;    /* (ATOMIC) to report without a crash handler, too */

/* ---- The handler -----------------------------------------------------------------------------*/

/* One of the binaries that use library NUMBER; any knows the exceptions of all. */
static bool find_binary(uint32_t number, stacksplice_uncaught *copy)
{
    const stacksplice_uncaught *b;

    if (!ss_lock_take(&lock))
        return false;
    b = binaries;
    while (b && b->library != number)
        b = b->next;
    if (b)
        *copy = *b;
    ss_lock_drop(&lock);
    return b;
}

/* The crash handler shows the thread's error when the signal comes. */
static bool is_crash_reported(void)
{
    struct sigaction now;

    return atomic_load(&ss_handler_is_on) && sigaction(SIGABRT, NULL, &now) == 0 &&
           ss_handler_is_ours(&now);
}

static void print_error(void)
{
    static const char words[] = "An exception that nobody caught ends the program.\n";
    const stacksplice_format_options options = {.size = sizeof options,
                                                .shorten = isatty(ss_crash_stderr)};
    IRestrictedErrorInfo *error;

    if (stacksplice_peek_error(&error) != S_OK)
        return;
    (void)ss_crash_write(words, sizeof words - 1, &ss_crash_stderr);
    (void)stacksplice_format((IUnknown *)(void *)error, STACKSPLICE_FORMAT_TEXT, &options,
                             ss_crash_write, &ss_crash_stderr);
    error->lpVtbl->Release(error);
}

/*
 * A handler that came in front of ours may call it, and ours may have come in front of that one
 * again: at its second turn in a thread it goes on with the first of all.
 */
__attribute__((noreturn)) static void terminate(uint32_t number, const void *above)
{
    library *l = &libraries[number];
    bool again = atomic_exchange(&l->thread, ss_thread_id()) == ss_thread_id();
    bool is_wanted = !again && (atomic_load(&is_asked) || atomic_load(&ss_handler_is_on));
    handler *next = atomic_load(again ? &l->first : &l->former);
    stacksplice_uncaught b;

    if (is_wanted && find_binary(number, &b) && b.report(above) && !is_crash_reported())
        print_error();
    if (next)
        next();
    abort();
}

#define HANDLER(number)                              \
    static SS_NOINLINE void terminate_##number(void) \
    {                                                \
        terminate(number, SS_HERE());                \
    }

HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)

static handler *const handlers[LIBRARIES] = {terminate_0, terminate_1, terminate_2, terminate_3};

/* ---- Binaries --------------------------------------------------------------------------------*/

/* Put the handler of B's library in front, unless it is there. */
static void put_in_front(const stacksplice_uncaught *b)
{
    library *l;
    handler *former, *none = NULL;

    if (b->library == LIBRARIES || b->get() == handlers[b->library])
        return;
    l = &libraries[b->library];
    former = b->set(handlers[b->library]);
    if (former == handlers[b->library])
        return; /* another thread did it */
    (void)atomic_compare_exchange_strong(&l->first, &none, former);
    atomic_store(&l->former, former);
}

static void watch_uncaught(void)
{
    stacksplice_uncaught b;

    atomic_store(&is_watching, true);
    for (uint32_t number = 0; number < LIBRARIES; number++)
        if (find_binary(number, &b))
            put_in_front(&b);
}

void stacksplice_uncaught_add(stacksplice_uncaught *b)
{
    uint32_t number = 0;

    if (!ss_lock_take(&lock)) {
        b->library = LIBRARIES;
        return;
    }
    while (number < LIBRARIES && libraries[number].set && libraries[number].set != b->set)
        number++;
    if (number < LIBRARIES)
        libraries[number].set = b->set;
    b->library = number;
    b->next = binaries;
    binaries = b;
    ss_lock_drop(&lock);
    if (atomic_load(&is_watching))
        put_in_front(b);
}

void stacksplice_uncaught_remove(stacksplice_uncaught *b)
{
    stacksplice_uncaught **at = &binaries;

    if (!ss_lock_take(&lock))
        return;
    while (*at && *at != b)
        at = &(*at)->next;
    if (*at)
        *at = b->next;
    ss_lock_drop(&lock);
}

void stacksplice_report_uncaught(void)
{
    atomic_store(&is_asked, true);
    watch_uncaught();
}

/* ---- Crashes ---------------------------------------------------------------------------------*/

enum { DIRECTORY_MAX = 3072 };

SS_LOCK(install_lock);
static bool installed;                /* (LOCK) */
static char directory[DIRECTORY_MAX]; /* (LOCK) the host's */

static bool is_valid(const stacksplice_crash_options *options)
{
    return options->size == sizeof *options &&
           (!options->directory || strlen(options->directory) < DIRECTORY_MAX);
}

static void choose(const stacksplice_crash_options *options)
{
    ss_handler_choice.directory = options && options->directory ? directory : NULL;
    if (ss_handler_choice.directory)
        memcpy(directory, options->directory, strlen(options->directory) + 1);
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
    if (!ss_lock_take(&install_lock))
        return E_ILLEGAL_METHOD_CALL; /* a signal handler interrupted this very function */
    was_installed = installed;
    if (options || !installed)
        choose(options);
    atomic_store(&ss_handler_is_on, true);
    if (!was_installed)
        ss_handler_install();
    installed = true;
    ss_lock_drop(&install_lock);
    watch_uncaught();
    return was_installed ? S_FALSE : S_OK;
}

stacksplice_hresult stacksplice_remove_crash_handler(void)
{
    bool was_installed;

    if (!ss_lock_take(&install_lock))
        return E_ILLEGAL_METHOD_CALL;
    was_installed = installed;
    installed = false;
    atomic_store(&ss_handler_is_on, false);
    if (was_installed)
        ss_handler_remove();
    ss_lock_drop(&install_lock);
    return was_installed ? S_OK : S_FALSE;
}
