#include "error/flags.h"

#include "error/probe.h"
#include "error/registry.h"
#include "error/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALL_FLAGS = 0xF };

static _Atomic uint32_t flags = RO_ERROR_REPORTING_USESETERRORINFO; /* (ATOMIC) */

static stacksplice_debug_event_callback hook; /* (LOCK) */
static void *hook_data;                       /* (LOCK) */
static _Thread_local bool in_event;

static _Atomic int64_t next_look; /* (ATOMIC) second at which the tracer is looked for again */
static atomic_bool tracer_seen;   /* (ATOMIC) by the last look */
static atomic_flag trapping = ATOMIC_FLAG_INIT; /* one thread at a time changes SIGTRAP's action */

/* ---- Flags -----------------------------------------------------------------------------------*/

uint32_t ss_flags_get(void)
{
    return atomic_load_explicit(&flags, memory_order_relaxed);
}

bool ss_flags_store(void)
{
    return (ss_flags_get() &
            (RO_ERROR_REPORTING_USESETERRORINFO | RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)) ==
           RO_ERROR_REPORTING_USESETERRORINFO;
}

HRESULT RoGetErrorReportingFlags(UINT32 *out)
{
    if (!out)
        return E_POINTER;
    *out = ss_flags_get();
    return S_OK;
}

HRESULT RoSetErrorReportingFlags(UINT32 value)
{
    if (value & ~(UINT32)ALL_FLAGS)
        return E_INVALIDARG;
    atomic_store(&flags, value);
    return S_OK;
}

BOOL IsErrorPropagationEnabled(void)
{
    return TRUE;
}

/* ---- The tracer ------------------------------------------------------------------------------*/

/* Whether a process traces this one now. */
static bool look_for_tracer(void)
{
    static const char label[] = "\nTracerPid:\t";
    char text[1024];
    const char *found;
    ssize_t length;
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return false;
    length = read(file, text, sizeof text - 1);
    (void)close(file);
    if (length <= 0)
        return false;
    text[length] = 0;
    found = strstr(text, label);
    return found && found[sizeof label - 1] != '0';
}

/* The same, at most one second old: looking takes longer than an origination. */
static bool tracer_attached(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if ((int64_t)now.tv_sec >= atomic_load(&next_look)) {
        atomic_store(&next_look, (int64_t)now.tv_sec + 1);
        atomic_store(&tracer_seen, look_for_tracer());
    }
    return atomic_load(&tracer_seen);
}

/* A child has its own tracer, or none; and none of the other threads, whatever they were at. */
static void after_fork_in_child(void)
{
    atomic_store(&next_look, 0);
    atomic_flag_clear(&trapping);
}

__attribute__((constructor)) static void set_up(void)
{
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}

/*
 * Let the debugger stop here.  The kernel tells a tracer of SIGTRAP even while it is ignored, so it
 * is ignored meanwhile: a tracer that hands the signal on, or goes away right now, does no harm.
 */
static void trap(void)
{
    struct sigaction ignore, before;
    sigset_t blocked;

    if (!look_for_tracer() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) ||
        sigismember(&blocked, SIGTRAP) || atomic_flag_test_and_set(&trapping))
        return;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    if (sigaction(SIGTRAP, &ignore, &before) == 0) {
        (void)raise(SIGTRAP);
        (void)sigaction(SIGTRAP, &before, NULL);
    }
    atomic_flag_clear(&trapping);
}

/* ---- Events ----------------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_set_debug_event_hook(stacksplice_debug_event_callback f, void *data)
{
    ss_registry_lock();
    hook = f;
    hook_data = data;
    ss_registry_unlock();
    return S_OK;
}

/* The hook sees the slot's error, which is there afterwards whatever the hook does. */
static void call_hook(const stacksplice_debug_event *event)
{
    stacksplice_debug_event_callback f;
    IErrorInfo *kept;
    void *data;

    ss_registry_lock();
    f = hook;
    data = hook_data;
    ss_registry_unlock();
    if (!f)
        return;
    kept = ss_slot_take();
    if (kept) {
        kept->lpVtbl->AddRef(kept);
        ss_slot_put(kept);
    }
    f(event, data);
    ss_slot_put(kept);
}

void ss_event_raise(bool transformed, HRESULT old, HRESULT hr, const WCHAR *message,
                    uint32_t length)
{
    uint32_t now = ss_flags_get();
    bool force = now & RO_ERROR_REPORTING_FORCEEXCEPTIONS;
    stacksplice_debug_event event = {.size = sizeof event};
    int saved_errno = errno;
    bool attached;

    if (transformed)
        SS_PROBE_TRANSFORM(old, hr, length, message);
    else
        SS_PROBE_ORIGINATE(hr, length, message);
    if (in_event || (!force && (now & RO_ERROR_REPORTING_SUPPRESSEXCEPTIONS)))
        return;
    attached = tracer_attached();
    errno = saved_errno;
    if (!force && !attached)
        return;
    event.code =
        transformed ? STACKSPLICE_EVENT_TRANSFORM_ERROR : STACKSPLICE_EVENT_ORIGINATE_ERROR;
    if (transformed)
        event.parameters[event.parameter_count++] = (uint32_t)old;
    event.parameters[event.parameter_count++] = (uint32_t)hr;
    event.parameters[event.parameter_count++] = length;
    event.parameters[event.parameter_count++] = (uintptr_t)message;
    in_event = true;
    call_hook(&event);
    if (attached)
        trap();
    in_event = false;
    errno = saved_errno;
}
