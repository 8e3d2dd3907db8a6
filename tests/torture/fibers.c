/* Stacks of the program's own, which come and go. */
#include "torture.h"

#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

/* What enters one stack and leaves another has no place on the sanitizer's own. */
#define SWITCHES __attribute__((no_sanitize("thread")))

enum { FIBER_SIZE = 1 << 20, GUARD_SIZE = 1 << 16 };

typedef struct fiber {
    ucontext_t inside, outside;
    char *memory;
    const void *old_low;
    size_t old_size;
    void *tsan_inside, *tsan_outside;
} fiber;

static _Thread_local fiber *entering;

static SWITCHES void leave(fiber *f)
{
    self->switching = true;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(NULL, f->old_low, f->old_size);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(f->tsan_outside, 0);
#endif
}

static NODE SWITCHES void on_fiber(void)
{
    fiber *f = entering;
    worker *w = self;

    w->switching = false;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, &f->old_low, &f->old_size);
#endif
    journal_c(w, (uintptr_t)on_fiber, __builtin_frame_address(0));
    path_step(w);
    AFTER();
    w->depth--;
    leave(f);
}

static SWITCHES void enter(fiber *f)
{
#if defined(__SANITIZE_ADDRESS__)
    void *fake = NULL;

    __sanitizer_start_switch_fiber(&fake, f->memory, FIBER_SIZE);
#elif defined(__SANITIZE_THREAD__)
    f->tsan_outside = __tsan_get_current_fiber();
    f->tsan_inside = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(f->tsan_inside, 0);
#endif
    entering = f;
    self->switching = true;
    (void)swapcontext(&f->outside, &f->inside);
    self->switching = false;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#elif defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(f->tsan_inside);
#endif
}

static NODE void call_fiber(worker *w, fiber *f)
{
    unsigned base = w->base;

    journal_c(w, (uintptr_t)call_fiber, __builtin_frame_address(0));
    w->base = w->depth;
    enter(f);
    AFTER();
    w->base = base;
    w->depth--;
}

void fiber_step(worker *w)
{
    bool unknown = w->unknown, python = w->with_python;
    fiber f = {.memory = mmap(NULL, FIBER_SIZE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};

    if (f.memory == MAP_FAILED || mprotect(f.memory, GUARD_SIZE, PROT_NONE) != 0 ||
        getcontext(&f.inside) != 0)
        stop("no memory for a fiber");
    f.inside.uc_stack.ss_sp = f.memory;
    f.inside.uc_stack.ss_size = FIBER_SIZE;
    f.inside.uc_link = &f.outside;
    makecontext(&f.inside, on_fiber, 0);
    w->unknown = draw(w, 8) == 0;
    if (!w->unknown && stacksplice_add_stack(f.memory, f.memory + FIBER_SIZE) != 0)
        stop("a stack could not be added");
#ifdef TORTURE_PYTHON_STAYS
    w->with_python = false; /* this Python knows the bounds of its thread's stack */
#endif
    call_fiber(w, &f);
    w->with_python = python;
    if (!w->unknown && stacksplice_remove_stack(f.memory) != 0)
        stop("a stack could not be removed");
    w->unknown = unknown;
    (void)munmap(f.memory, FIBER_SIZE);
    w->fibers++;
}
