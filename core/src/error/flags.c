#include "error/flags.h"

#include "base/platform.h"
#include "error/registry.h"
#include "error/slot.h"

#include <errno.h>
#include <stdatomic.h>

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__))

/* Version 3 of the note.  Tools use the base symbol to correct addresses of prelinked files. */
#define SS_PROBE_NOTE(name, arguments)                                          \
    "990: nop\n"                                                                \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                              \
    ".balign 4\n"                                                               \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                      \
    "991: .asciz \"stapsdt\"\n"                                                 \
    "992: .balign 4\n"                                                          \
    "993: .8byte 990b\n"                                                        \
    ".8byte _.stapsdt.base\n"                                                   \
    ".8byte 0\n"                                                                \
    ".asciz \"stacksplice\"\n"                                                  \
    ".asciz \"" name "\"\n"                                                     \
    ".asciz \"" arguments "\"\n"                                                \
    "994: .balign 4\n"                                                          \
    ".popsection\n"                                                             \
    ".ifndef _.stapsdt.base\n"                                                  \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
    ".weak _.stapsdt.base\n"                                                    \
    ".hidden _.stapsdt.base\n"                                                  \
    "_.stapsdt.base: .space 1\n"                                                \
    ".size _.stapsdt.base, 1\n"                                                 \
    ".popsection\n"                                                             \
    ".endif\n"

#define SS_PROBE_ORIGINATE(hr, length, message)                          \
    __asm__ volatile(SS_PROBE_NOTE("originate_error", "-4@%0 4@%1 8@%2") \
                     :                                                   \
                     : "r"(hr), "r"(length), "r"(message))

#define SS_PROBE_TRANSFORM(old, hr, length, message)                           \
    __asm__ volatile(SS_PROBE_NOTE("transform_error", "-4@%0 -4@%1 4@%2 8@%3") \
                     :                                                         \
                     : "r"(old), "r"(hr), "r"(length), "r"(message))

#else

#define SS_PROBE_ORIGINATE(hr, length, message) ((void)0)

#define SS_PROBE_TRANSFORM(old, hr, length, message) ((void)0)

#endif

enum { ALL_FLAGS = 0xF };

static _Atomic uint32_t flags = RO_ERROR_REPORTING_USESETERRORINFO; /* (ATOMIC) */

static stacksplice_debug_event_callback hook; /* (LOCK) */
static void *hook_data;                       /* (LOCK) */
static _Thread_local bool in_event;

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

/* ---- Events ----------------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_set_debug_event_hook(stacksplice_debug_event_callback f, void *data)
{
    ss_registry_lock();
    hook = f;
    hook_data = data;
    ss_registry_unlock();
    return S_OK;
}

/*
 * The hook sees the slot's error, and afterwards the slot holds it again, whatever the hook does.
 */
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
    stacksplice_debug_event event = {.size = sizeof event};
    int saved_errno = errno;

    if (transformed)
        SS_PROBE_TRANSFORM(old, hr, length, message);
    else
        SS_PROBE_ORIGINATE(hr, length, message);
    if (in_event || !(ss_flags_get() & RO_ERROR_REPORTING_FORCEEXCEPTIONS))
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
    in_event = false;
    errno = saved_errno;
}
