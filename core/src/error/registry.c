/* All errors of the process: the lock of their layer, their references, and how one is found by its own. */
#include "error/error.h"

#include "base/thread.h"
#include "splice/pool.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 256 };

static const WCHAR static_reference[] = u"out-of-memory";

SS_LOCK(lock);
static _Thread_local unsigned without; /* (THREAD) nested calls that did not get the lock */
static ss_error *buckets[BUCKETS];     /* (LOCK) */
static uint64_t last_number;           /* (LOCK) */
static uint64_t process_number;        /* (LOCK) set at load, changed in a forked child */

/*
 * The lock is unavailable where a signal handler interrupted its holder and forks, and the host's
 * fork handlers use errors.  No other thread can be here then, so go on without it.
 */
void ss_registry_lock(void)
{
    if (!ss_lock_take(&lock))
        without++;
}

void ss_registry_unlock(void)
{
    if (SS_UNLIKELY(without))
        without--;
    else
        ss_lock_drop(&lock);
}

int64_t ss_wall_time(void)
{
    struct timespec time = {0, 0};

    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Choose a number that other processes are unlikely to have, so that references in reports differ. */
static void choose_process_number(void)
{
    uint64_t mixed = (uint64_t)ss_wall_time() ^ (uint64_t)getpid() << 40 ^ process_number;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    process_number = mixed ^ mixed >> 31;
}

static ss_fork_hook choose_in_child = {choose_process_number, NULL};

static void hold_stack(const ss_record *record)
{
    uint32_t count;
    const uintptr_t *frames = ss_record_frames(record, &count);

    for (uint32_t i = 0; i < count; i++)
        ss_token_hold(frames[i]);
}

/* Keep the names in the stacks of living errors through a sweep. */
static void hold_stacks(void)
{
    if (!ss_lock_take(&lock))
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (ss_error *error = buckets[i]; error; error = error->next) {
            hold_stack(&error->record);
            for (ss_node *node = atomic_load(&error->head); node; node = node->previous)
                hold_stack(&node->record);
        }
    }
    ss_lock_drop(&lock);
}

static __attribute__((constructor)) void begin(void)
{
    choose_process_number();
    ss_token_set_holder(hold_stacks);
    ss_fork_child(&choose_in_child);
}

void ss_registry_add(ss_error *error)
{
    ss_registry_lock();
    error->number = ++last_number;
    error->process = process_number;
    error->next = buckets[error->number % BUCKETS];
    buckets[error->number % BUCKETS] = error;
    ss_registry_unlock();
}

void ss_registry_remove(ss_error *error)
{
    ss_error **link;

    ss_registry_lock();
    link = &buckets[error->number % BUCKETS];
    while (*link != error)
        link = &(*link)->next;
    *link = error->next;
    ss_registry_unlock();
}

/* ---- References -------------------------------------------------------------------------------*/

static WCHAR *put_hex(WCHAR *out, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *out++ = (WCHAR) "0123456789abcdef"[number >> shift & 15];
    return out;
}

/* Few callers ask for a reference, so it is formatted on demand. */
uint32_t ss_error_put_reference(const ss_error *error, WCHAR out[SS_REFERENCE_UNITS])
{
    if (!error->number) {
        memcpy(out, static_reference, sizeof static_reference);
        return SS_COUNT_OF(static_reference) - 1;
    }
    out = put_hex(out, error->process);
    *out++ = '-';
    out = put_hex(out, error->number);
    *out = 0;
    return SS_REFERENCE_UNITS - 1;
}

/*
 * Parse the numbers in both halves of REFERENCE; false if it does not have the form of a reference.
 */
static bool parse(const WCHAR *reference, uint64_t numbers[2])
{
    uint64_t *number = numbers;

    numbers[0] = numbers[1] = 0;
    for (int at = 0; at < SS_REFERENCE_UNITS - 1; at++) {
        WCHAR unit = reference[at];

        if (at == 16) {
            if (unit != '-')
                return false;
            number++;
        } else if (unit >= '0' && unit <= '9') {
            *number = *number << 4 | (uint64_t)(unit - '0');
        } else if (unit >= 'a' && unit <= 'f') {
            *number = *number << 4 | (uint64_t)(unit - 'a' + 10);
        } else {
            return false; /* also at an early NUL: never reads past it */
        }
    }
    return reference[SS_REFERENCE_UNITS - 1] == 0;
}

ss_error *ss_registry_find(const WCHAR *reference)
{
    ss_error *error;
    uint64_t numbers[2];

    if (!parse(reference, numbers))
        return NULL;
    ss_registry_lock();
    error = buckets[numbers[1] % BUCKETS];
    while (error && !(error->process == numbers[0] && error->number == numbers[1]))
        error = error->next;
    /* At 0 it is dying, or sleeping in a script's exception, and only its binding may wake it. */
    if (error && atomic_load(&error->outside) == 0)
        error = NULL;
    if (error)
        atomic_fetch_add(&error->outside, 1);
    ss_registry_unlock();
    return error;
}
