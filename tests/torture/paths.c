/* Paths: each step is a call of some kind, and the last one checks. */
#include "torture.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

unsigned draw(worker *w, unsigned n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)(w->random >> 33) % n;
}

#define ENTER(w, function) journal_c(w, (uintptr_t)(function), __builtin_frame_address(0))
#define LEAVE(w) ((w)->depth--)

static NODE void plain(worker *w)
{
    ENTER(w, plain);
    path_step(w);
    AFTER();
    LEAVE(w);
}

static NODE void twice(worker *w)
{
    ENTER(w, twice);
    path_step(w);
    path_step(w);
    AFTER();
    LEAVE(w);
}

static NODE void recurse(worker *w, unsigned n)
{
    ENTER(w, recurse);
    if (n)
        recurse(w, n - 1);
    else
        path_step(w);
    AFTER();
    LEAVE(w);
}

static void deep(worker *w)
{
    recurse(w, draw(w, 30));
    AFTER();
}

/* Frames of many sizes. */
static NODE void variable(worker *w)
{
    size_t size = 16 + draw(w, 2000);
    volatile char *block = alloca(size);

    ENTER(w, variable);
    block[size - 1] = 1;
    path_step(w);
    AFTER();
    LEAVE(w);
}

static NODE int compare_numbers(const void *a, const void *b)
{
    worker *w = self;

    ENTER(w, compare_numbers);
    path_step(w);
    AFTER();
    LEAVE(w);
    return *(const char *)a - *(const char *)b;
}

static NODE void sort(worker *w)
{
    char numbers[] = {2, 1};

    ENTER(w, sort);
    qsort(numbers, sizeof numbers, 1, compare_numbers);
    AFTER();
    LEAVE(w);
}

void path_step(worker *w)
{
    static void (*const kinds[])(worker *) = {plain,    twice,    deep,         variable,
                                              sort,     lua_step, lua_step,     lua_step,
                                              lua_step, lua_step, library_step, fiber_step};
    unsigned kind;

    if (w->budget == 0 || w->depth > MAX_DEPTH - 60) {
        if (draw(w, 300) == 0)
            fork_step(w);
        journal_check(w);
        return;
    }
    w->budget--;
    kind = draw(w, sizeof kinds / sizeof *kinds + (w->with_python ? 5 : 0));
    if (kind < sizeof kinds / sizeof *kinds)
        kinds[kind](w);
    else
        python_step(w);
    AFTER();
}

void path_run(worker *w, bool with_python)
{
    w->depth = w->base = 0;
    w->with_python = with_python;
    w->budget = 4 + draw(w, 24);
    plain(w);
    AFTER();
    if (draw(w, 300) == 0)
        lua_overflow(w);
    if (with_python && draw(w, 300) == 0)
        python_overflow(w);
}
