/*
 * Whether code of another language called Python here.  Each raise below a call from C asks, so the
 * answer is found by addresses alone: native frames that lie between two of Python's own code.
 */
#include "stack/stack.h"

#include <stacksplice/winrt/rtlsupportapi.h>

#include <dlfcn.h>
#include <string.h>

enum {
    PAGE_BITS = 12,
    OWNER_BITS = 2,
    PAGES = 512, /* in the table; a power of two */
    MOST = 1024  /* native frames that are looked at */
};

typedef enum owner { UNKNOWN, PYTHON, OTHERS } owner;

/*
 * Pages whose owner is known: the loader takes long.  Python's own code is never unloaded.  Where
 * that of others was, and Python's is now, a stack is taken in vain.
 */
static atomic_uintptr_t pages[PAGES]; /* (ATOMIC) a page's number and its owner, or 0 */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether this binary is a part of Python: a module of its library, greenlet, or ours.  Not so
   _ctypes, whose calls are those of other languages. */
static bool is_pythons_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (begins(name, "_stacksplice.") || begins(name, "libstacksplice") ||
        begins(name, "_greenlet."))
        return true;
    return strstr(path, "/lib-dynload/") && !begins(name, "_ctypes.");
}

static owner look_up(uintptr_t ip)
{
    Dl_info here, python;

    if (!dladdr((const void *)ip, &here) || !here.dli_fname)
        return UNKNOWN; /* made at run time: its callers tell */
    if (dladdr(&PyType_Type, &python) && python.dli_fbase == here.dli_fbase)
        return PYTHON;
    return is_pythons_file(here.dli_fname) ? PYTHON : OTHERS;
}

/* Whose code the call before ADDRESS is in. */
static owner owner_of(uintptr_t address)
{
    uintptr_t ip = address - 1, page = ip >> PAGE_BITS;
    atomic_uintptr_t *place = &pages[page % PAGES];
    uintptr_t known = atomic_load_explicit(place, memory_order_relaxed);
    owner found;

    if (known >> OWNER_BITS == page)
        return (owner)(known & ((1 << OWNER_BITS) - 1));
    found = look_up(ip);
    if (found != UNKNOWN)
        atomic_store_explicit(place, page << OWNER_BITS | found, memory_order_relaxed);
    return found;
}

bool sspy_is_foreign_code(uintptr_t address)
{
    return owner_of(address) == OTHERS;
}

bool sspy_foreign_code_called(void)
{
    PVOID frames[MOST];
    unsigned count = RtlCaptureStackBackTrace(0, MOST, frames, NULL);
    bool foreign = false;

    /* The outermost frame started the program or the thread: the C library, between it and main(),
       did not call Python for another language. */
    for (unsigned i = 0; i + 1 < count; i++) {
        owner whose = owner_of((uintptr_t)frames[i]);

        if (foreign && whose == PYTHON)
            return true;
        foreign |= whose == OTHERS;
    }
    return count == MOST; /* what is further out is not known */
}
