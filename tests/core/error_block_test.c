/* The block by which others read this process: how they get from it to each thread's error. */
#include "error_test.h"
#include "threads.h"

#include <sys/syscall.h>

#define MACHINE IMAGE_FILE_MACHINE_AMD64

enum { MANY = STACKSPLICE_ENTRIES + 10 };

static HRESULT read_here(void *context, UINT_PTR address, UINT32 length, BYTE *buffer)
{
    memcpy(buffer, (const void *)address, length);
    return S_OK;
}

/* The anchor of the thread ID, or of any thread if that is 0; 0 if there is none.  *COUNT: how many
   entries are about it. */
static UINT_PTR anchor_of(uint64_t id, unsigned *count)
{
    stacksplice_inspection_block block;
    stacksplice_entries list;
    UINT_PTR found = 0;

    *count = 0;
    (void)read_here(NULL, (UINT_PTR)stacksplice_inspection.self, sizeof block, (BYTE *)&block);
    for (uint64_t at = block.entries; at; at = list.next) {
        (void)read_here(NULL, (UINT_PTR)at, sizeof list, (BYTE *)&list);
        for (int i = 0; i < STACKSPLICE_ENTRIES; i++) {
            const stacksplice_entry *entry = &list.entries[i];

            if (entry->kind != STACKSPLICE_ENTRY_THREAD || (id && entry->detail != id))
                continue;
            found = (UINT_PTR)entry->object;
            ++*count;
        }
    }
    return found;
}

static uint64_t own_id(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

FRESH_TEST(test_block_says_what_it_is)
{
    const stacksplice_inspection_block *block = (const void *)(UINT_PTR)stacksplice_inspection.self;

    assert_memory_equal(block->signature, "stacksplice:data", 16);
    assert_int_equal(block->self % 16, 0);
    assert_true(block->self == stacksplice_inspection.self);
    assert_int_equal(block->version, STACKSPLICE_INSPECTION_VERSION);
    assert_int_equal(block->size, sizeof *block);
    assert_int_equal(block->number_count, STACKSPLICE_NUMBERS);
    assert_int_equal(offsetof(stacksplice_inspection_block, entries), 40);
}

FRESH_TEST(test_a_thread_is_found_by_its_first_error)
{
    UINT_PTR anchor, error = 0;
    unsigned count;

    RoOriginateError(E_FAIL, NULL);
    RoOriginateError(E_ABORT, NULL);
    anchor = anchor_of(own_id(), &count);
    assert_int_equal(count, 1);
    assert_ptr_equal((void *)anchor, stacksplice_thread_anchor());
    assert_int_equal(RoInspectThreadErrorInfo(anchor, MACHINE, read_here, NULL, &error), S_OK);
    assert_int_equal(((const stacksplice_record *)error)->hresult, E_ABORT);
    RoClearError();
    assert_int_equal(RoInspectThreadErrorInfo(anchor, MACHINE, read_here, NULL, &error), S_FALSE);
}

static pthread_barrier_t ready, finished;

typedef struct waiting {
    pthread_t thread;
    uint64_t id;
    const stacksplice_anchor *anchor;
} waiting;

static void *fail_and_wait(void *data)
{
    waiting *w = data;

    RoOriginateError(E_FAIL, NULL);
    w->id = own_id();
    w->anchor = stacksplice_thread_anchor();
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&finished);
    return NULL;
}

/* The list is looked at while no thread changes it. */
FRESH_TEST(test_many_threads_and_their_end)
{
    static waiting threads[MANY];
    unsigned before, count;

    RoOriginateError(E_FAIL, NULL);
    (void)anchor_of(0, &before);
    for (int round = 0; round < 2; round++) {
        pthread_barrier_init(&ready, NULL, MANY + 1);
        pthread_barrier_init(&finished, NULL, MANY + 1);
        for (int i = 0; i < MANY; i++)
            threads[i].thread = thread_start(fail_and_wait, &threads[i]);
        pthread_barrier_wait(&ready);
        for (int i = 0; i < MANY; i++) {
            assert_ptr_equal((void *)anchor_of(threads[i].id, &count), threads[i].anchor);
            assert_int_equal(count, 1);
        }
        pthread_barrier_wait(&finished);
        for (int i = 0; i < MANY; i++)
            (void)thread_end(threads[i].thread);
        (void)anchor_of(0, &count);
        assert_int_equal(count, before);
    }
}

static void *fork_here(void *unused)
{
    unsigned all, own;
    pid_t child;

    RoOriginateError(E_FAIL, NULL);
    child = fork();
    if (child == 0) {
        (void)anchor_of(0, &all);
        child_end(all == 1 && anchor_of(own_id(), &own) == (UINT_PTR)stacksplice_thread_anchor());
    }
    child_check(child);
    return NULL;
}

FRESH_TEST(test_a_forked_child_has_its_own_thread_only)
{
    RoOriginateError(E_FAIL, NULL);
    (void)thread_run(fork_here, NULL);
}

GROUP(NULL, fresh)
