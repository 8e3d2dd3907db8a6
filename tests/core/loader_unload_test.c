/*
 * Looking at the loader's list while another thread unloads a library.  glibc frees memory then and
 * holds the lock of the list meanwhile, so this program's free stops it just there.
 */
#include "base/loader.h"
#include "forks.h"
#include "instruments.h"
#include "support.h"
#include "threads.h"

#include <dlfcn.h>
#include <semaphore.h>

/* Nothing here waits: who is still there after so many seconds waits for the lock. */
enum { PATIENCE = 60 };

#if defined(__GLIBC__) && !SANITIZED
extern void __libc_free(void *block);

static const struct r_debug *announced; /* the loader's own: this program may have a copy of it */
static sem_t unloading, enough;
static _Thread_local bool unloads;

__attribute__((visibility("default"))) void free(void *block);

void free(void *block)
{
    if (unloads && announced->r_state == RT_DELETE) {
        unloads = false;
        sem_post(&unloading);
        while (sem_wait(&enough) != 0)
            continue;
    }
    __libc_free(block);
}

static void *unload(void *library)
{
    unloads = true;
    assert_int_equal(dlclose(library), 0);
    unloads = false;
    return NULL;
}

static pthread_t start_unloading(void)
{
    void *library = dlopen(TURN_LIBRARY, RTLD_NOW);
    pthread_t thread;

    if (UNDER_VALGRIND)
        SKIP("valgrind brings its own free");
    assert_non_null(library);
    for (const ElfW(Dyn) *d = _r_debug.r_map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_DEBUG)
            announced = (const struct r_debug *)d->d_un.d_ptr;
    assert_non_null(announced);
    assert_int_equal(sem_init(&unloading, 0, 0), 0);
    assert_int_equal(sem_init(&enough, 0, 0), 0);
    (void)alarm(PATIENCE);
    thread = thread_start(unload, library);
    while (sem_wait(&unloading) != 0)
        continue;
    return thread;
}

static void let_it_end(pthread_t thread)
{
    sem_post(&enough);
    (void)thread_end(thread);
    (void)alarm(0);
}

static int stop(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    (void)data;
    return 1;
}

/* As a signal handler does that has interrupted the allocator for which the other thread waits. */
TEST(test_a_capture_does_not_wait_for_an_unload)
{
    pthread_t thread = start_unloading();

    assert_int_equal(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL), SS_LOADER_REFUSED);
    let_it_end(thread);
    assert_int_equal(ss_loader_iterate(SS_LOADER_BRIEFLY, stop, NULL), 1);
}

/* The lock that the other thread holds is never released in the child. */
TEST(test_a_child_forked_during_an_unload_does_not_wait)
{
    pthread_t thread = start_unloading();
    pid_t child = fork();

    if (child == 0) {
        (void)alarm(PATIENCE);
        _exit(ss_loader_iterate(SS_LOADER_LONG, stop, NULL) == SS_LOADER_REFUSED ? 0 : 1);
    }
    child_check(child);
    let_it_end(thread);
    assert_int_equal(ss_loader_iterate(SS_LOADER_LONG, stop, NULL), 1);
}
#else
TEST(test_the_loader_is_asked_during_an_unload)
{
    SKIP("only glibc's own allocator is stopped here");
}
#endif
