#include "splice/scratch.h"

#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A page each at first. */
#define FIRST_SPLICES 256
#define FIRST_TOKENS 512
#define KEPT_SPLICES 2048
#define KEPT_TOKENS 8192

_Thread_local ss_scratch *ss_scratch_kept;
_Thread_local bool ss_scratch_busy;

static pthread_key_t key; /* (RO) set to it so that its destructor reports the thread's end */
static bool have_key;     /* (RO) a signal handler can set that key */

/* glibc allocates for the values of keys from this one on; other C libraries never do. */
#ifdef __GLIBC__
enum { FIRST_ALLOCATING_KEY = 32 };
#else
enum { FIRST_ALLOCATING_KEY = PTHREAD_KEYS_MAX };
#endif

/*
 * All scratches ever made, linked by `next`.  Finding one takes no lock: a fork may hold any lock
 * while it waits for a thread whose signal handler is here.
 */
static _Atomic(ss_scratch *) all;             /* (ATOMIC) */
static _Atomic uint32_t made, search_at = 16; /* (ATOMIC) scratches */

/*
 * Asks the kernel for both ids.  In a child where no fork handler ran, a cached id would be the
 * parent's, and no living thread has it.
 */
static uint64_t me(void)
{
    return (uint64_t)getpid() << 32 | (uint32_t)syscall(SYS_gettid);
}

/* Whether the thread of this process that owned SCRATCH ended without running our destructor. */
static bool was_left(uint64_t owner, uint64_t me_now)
{
    return owner && owner >> 32 == me_now >> 32 &&
           (owner == me_now ||
            (syscall(SYS_tgkill, (pid_t)(owner >> 32), (pid_t)owner, 0) != 0 && errno == ESRCH));
}

/* Claim one without an owner, or (LEFT) one whose owner is gone; NULL when there is none. */
static ss_scratch *claim(bool left)
{
    ss_scratch *scratch = atomic_load(&all);
    uint64_t now = me();

    for (; scratch; scratch = scratch->next) {
        uint64_t owner = atomic_load(&scratch->owner);

        /* One left in the middle of a capture may be inconsistent. */
        if ((left ? was_left(owner, now) : !owner) && !atomic_load(&scratch->in_use) &&
            atomic_compare_exchange_strong(&scratch->owner, &owner, now))
            return scratch;
    }
    return NULL;
}

/*
 * A signal handler may make the thread's first capture while the heap's lock is taken, so this is
 * no memory of the heap.
 */
static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* A new one, which belongs to this thread. */
static ss_scratch *add_scratch(void)
{
    ss_scratch *scratch = map(sizeof *scratch);

    if (!scratch)
        return NULL;
    atomic_store(&scratch->owner, me());
    atomic_fetch_add(&made, 1);
    scratch->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &scratch->next, scratch))
        continue;
    return scratch;
}

/* ---- The arrays of a scratch ------------------------------------------------------------------*/

/* ARRAY with room for WANTED elements of SIZE bytes; NULL without memory, and where WANTED is 0. */
static void *resize(void *array, uint32_t *capacity, uint32_t wanted, size_t size)
{
    void *resized = wanted ? map(wanted * size) : NULL;

    if (wanted && !resized)
        return NULL;
    /* mremap is unknown to the thread sanitizer: what was there before raced with us */
    if (array && wanted)
        memcpy(resized, array, *capacity * size);
    if (array)
        (void)munmap(array, *capacity * size);
    *capacity = wanted;
    return resized;
}

/* Release arrays that have room for more elements than these. */
static void trim(ss_scratch *s, uint32_t splices, uint32_t tokens)
{
    if (s->splice_capacity > splices)
        s->splices = resize(s->splices, &s->splice_capacity, 0, sizeof *s->splices);
    if (s->token_capacity > tokens)
        s->tokens = resize(s->tokens, &s->token_capacity, 0, sizeof *s->tokens);
}

bool ss_scratch_grow_splices(ss_scratch *s)
{
    uint32_t wanted = s->splice_capacity ? s->splice_capacity * 2 : FIRST_SPLICES;
    ss_splice *grown = resize(s->splices, &s->splice_capacity, wanted, sizeof *grown);

    if (grown)
        s->splices = grown;
    return grown != NULL;
}

bool ss_scratch_grow_tokens(ss_scratch *s, uint32_t count)
{
    uint32_t wanted = s->token_capacity ? s->token_capacity * 2 : FIRST_TOKENS;
    uintptr_t *grown;

    while (wanted - s->token_count < count && wanted <= UINT32_MAX / 2)
        wanted *= 2;
    if (wanted - s->token_count < count)
        return false;
    grown = resize(s->tokens, &s->token_capacity, wanted, sizeof *grown);
    if (grown)
        s->tokens = grown;
    return grown != NULL;
}

void ss_scratch_prepare(void)
{
    ss_scratch *scratch;

    if (!ss_scratch_enter())
        return;
    scratch = ss_scratch_mine();
    if (scratch && !scratch->splices)
        (void)ss_scratch_grow_splices(scratch);
    if (scratch && !scratch->tokens)
        (void)ss_scratch_grow_tokens(scratch, 1);
    ss_scratch_leave();
}

void ss_scratch_trim(ss_scratch *scratch)
{
    ss_unwind_trim(&scratch->unwind, false);
    trim(scratch, KEPT_SPLICES, KEPT_TOKENS);
}

/* ---- Threads that begin and end ---------------------------------------------------------------*/

static void thread_ends(void *value)
{
    ss_scratch *scratch = value;

    /* A handler or later destructor that captures from here on gets another scratch. */
    atomic_store(&scratch->in_use, true);
    ss_scratch_kept = NULL;
    ss_unwind_trim(&scratch->unwind, true);
    ss_plans_clear(&scratch->plans);
    trim(scratch, 0, 0);
    atomic_store(&scratch->owner, 0);
    atomic_store(&scratch->in_use, false);
}

/*
 * In a child of fork the other threads are gone; release their scratches for new threads.  One that
 * was in use at the fork stays lost.
 */
static void free_others(void)
{
    for (ss_scratch *scratch = atomic_load(&all); scratch; scratch = scratch->next)
        if (scratch != ss_scratch_kept && !atomic_load(&scratch->in_use))
            atomic_store(&scratch->owner, 0);
    if (ss_scratch_kept)
        atomic_store(&ss_scratch_kept->owner, me());
}

static ss_fork_hook free_others_in_child = {free_others, NULL};

static __attribute__((constructor)) void begin(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0 && key < FIRST_ALLOCATING_KEY;
    ss_fork_child(&free_others_in_child);
}

/*
 * Claim one that was left.  Each question whether a thread lives is a system call.  Where threads
 * tell their end, few are left, and we ask only when there are twice as many as the last time.
 */
static ss_scratch *claim_left(void)
{
    uint32_t now = atomic_load(&made);

    if (have_key && now < atomic_load(&search_at))
        return NULL;
    atomic_store(&search_at, 2 * now);
    return claim(true);
}

SS_COLD ss_scratch *ss_scratch_get(void)
{
    int before = errno;
    ss_scratch *scratch = claim(false);

    if (!scratch)
        scratch = claim_left();
    if (!scratch)
        scratch = add_scratch();
    errno = before;
    if (!scratch)
        return NULL;
    atomic_store(&scratch->in_use, true);
    ss_unwind_trim(&scratch->unwind, true); /* its last owner may have been adding to the table */
    ss_plans_clear(&scratch->plans);
    if (have_key)
        (void)pthread_setspecific(key, scratch); /* else claim(true) finds it later */
    ss_scratch_kept = scratch;
    return scratch;
}

void ss_scratch_abandon(void)
{
    if (ss_scratch_busy)
        ss_scratch_kept = NULL; /* nobody claims it: it stays in use */
    ss_scratch_busy = false;
}
