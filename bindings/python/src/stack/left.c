/*
 * The native frames of Python's own code that exceptions left in this thread, on their way outward
 * from one loop of the interpreter to the next.  A traceback has nothing of them.
 *
 * The addresses of exceptions and entries that are gone are used again.  So the notes of an
 * exception end when a new one at its address leaves its first frame.
 */
#include "stack/stack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NOTES = 16 };

/* What EXC left when HEAD was its whole traceback. */
typedef struct note {
    const PyObject *exc; /* compared only, as HEAD is */
    const void *head;
    uint32_t count;
    uintptr_t frames[SSPY_LEFT_FRAMES];
} note;

/* The last ones, of all exceptions on their way in this thread, and of some that were handled. */
typedef struct notes {
    uint32_t next;
    uint64_t of; /* the bits of those exceptions */
    note last[NOTES];
} notes;

static _Thread_local notes *mine; /* NULL until the thread needs them */
static pthread_key_t owner;       /* frees them at the thread's end */
static pthread_once_t owner_made = PTHREAD_ONCE_INIT;
static bool has_owner;

static void make_owner(void)
{
    has_owner = pthread_key_create(&owner, free) == 0;
}

/* NULL without memory. */
static notes *make_notes(void)
{
    (void)pthread_once(&owner_made, make_owner);
    if (has_owner && (mine = calloc(1, sizeof *mine)) && pthread_setspecific(owner, mine)) {
        free(mine);
        mine = NULL;
    }
    return mine;
}

static uint64_t bit_of(const PyObject *exc)
{
    return UINT64_C(1) << ((uintptr_t)exc >> 4) % 64;
}

bool sspy_left_by(const PyObject *exc)
{
    return mine && mine->of & bit_of(exc);
}

void sspy_keep_left(PyObject *exc, const uintptr_t *frames, uint32_t count)
{
    notes *n = mine ? mine : make_notes();
    note *here;

    if (!n)
        return;
    here = &n->last[n->next++ % NOTES];
    here->exc = exc;
    here->head = ((PyBaseExceptionObject *)exc)->traceback;
    here->count = count;
    memcpy(here->frames, frames, count * sizeof *frames);
    n->of |= bit_of(exc);
}

uint32_t sspy_left_at(const PyObject *exc, const PyTracebackObject *head, const uintptr_t **frames)
{
    for (unsigned i = 0; mine && i < NOTES; i++)
        if (mine->last[i].head == head && mine->last[i].exc == exc) {
            *frames = mine->last[i].frames;
            return mine->last[i].count;
        }
    return 0;
}

void sspy_forget_left(const PyObject *exc)
{
    mine->of = 0;
    for (unsigned i = 0; i < NOTES; i++) {
        if (mine->last[i].exc == exc)
            mine->last[i].exc = NULL;
        else if (mine->last[i].exc)
            mine->of |= bit_of(mine->last[i].exc);
    }
}
