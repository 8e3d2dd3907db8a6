/*
 * Captures while another thread is inside the loader's list, whose lock it holds: what has been
 * captured before needs no lock, also after modules came and went.
 */
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/stacksplice.h>

#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>

/* Nothing here waits: who is still there after so many seconds waits for the lock. */
enum { PATIENCE = 60, FRAMES = 64 };

static sem_t holding, enough;

static int hold(struct dl_phdr_info *info, size_t size, void *data)
{
    sem_post(&holding);
    while (sem_wait(&enough) != 0)
        ;
    return 1;
}

static void *hold_the_lock(void *unused)
{
    (void)dl_iterate_phdr(hold, NULL);
    return unused;
}

NOINLINE static void capture_with(bool held, uint16_t *count, void **frames)
{
    pthread_t thread;

    if (held) {
        thread = thread_start(hold_the_lock, NULL);
        while (sem_wait(&holding) != 0)
            ;
        (void)alarm(PATIENCE);
    }
    *count = RtlCaptureStackBackTrace(0, FRAMES, frames, NULL);
    if (held) {
        (void)alarm(0);
        sem_post(&enough);
        (void)thread_end(thread);
    }
}

TEST(test_known_code_is_found_without_the_lock)
{
    /* The first change tells the loader's words from others that had their value by chance. */
    static const char *const libraries[] = {NULL, FIRST_LIBRARY, SECOND_LIBRARY};
    void *before[FRAMES], *frames[FRAMES];
    uint16_t expected = 0, count;

    assert_int_equal(sem_init(&holding, 0, 0), 0);
    assert_int_equal(sem_init(&enough, 0, 0), 0);
    for (int i = 0; i < 3; i++) {
        assert_non_null(dlopen(libraries[i], RTLD_NOW));
        capture_with(i == 2, &count, frames);
        if (i == 0) {
            expected = count;
            memcpy(before, frames, sizeof before);
        }
        assert_true(count > 2);
        assert_int_equal(count, expected);
        /* But for the two innermost, which compilers like to copy. */
        assert_memory_equal(frames + 2, before + 2, (count - 2U) * sizeof *frames);
    }
}
