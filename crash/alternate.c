/* The alternate signal stacks of threads, on which they report that their own is used up. */

#include "base/thread.h"
#include "splice/scratch.h"
#include "splice/splice.h"
#include "splice/token.h"

#include <stacksplice/crash.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Touched only as far as it is used: for the kernel's frame and a capture. */
enum { ALTERNATE_SIZE = 64 << 10 };

static pthread_key_t key; /* (RO) its destructor unmaps a thread's stack */
static bool have_key;     /* (RO) */

static size_t guard_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Late in a thread's life: it crashes on its own stack from here on. */
static void thread_ends(void *memory)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t now;

    if (sigaltstack(NULL, &now) != 0 || now.ss_flags & SS_ONSTACK)
        return;
    if ((char *)now.ss_sp == (char *)memory + guard_size() && sigaltstack(&none, NULL) != 0)
        return;
    (void)munmap(memory, guard_size() + ALTERNATE_SIZE);
}

static __attribute__((constructor)) void begin(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0;
}

/* Without a key the stack of each thread that ends would leak. */
static bool map_stack(void)
{
    size_t size = guard_size() + ALTERNATE_SIZE;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_size = ALTERNATE_SIZE};

    if (memory == MAP_FAILED)
        return false;
    stack.ss_sp = memory + guard_size();
    if (mprotect(memory, guard_size(), PROT_NONE) == 0 && have_key &&
        pthread_setspecific(key, memory) == 0) {
        if (sigaltstack(&stack, NULL) == 0)
            return true;
        (void)pthread_setspecific(key, NULL);
    }
    (void)munmap(memory, size);
    return false;
}

stacksplice_hresult stacksplice_crash_thread(void)
{
    stack_t now;
    uintptr_t frame;
    uint32_t captured;

    /* The memory of a thread's captures exists from its first one on, that of tokens from the
       first token on. */
    (void)ss_capture(SS_HERE(), 0, 1, &frame, &captured, NULL);
    ss_scratch_prepare();
    ss_token_prepare();
    ss_faults_unblock();
    if (sigaltstack(NULL, &now) == 0 && !(now.ss_flags & SS_DISABLE))
        return S_FALSE;
    return map_stack() ? S_OK : E_OUTOFMEMORY;
}
