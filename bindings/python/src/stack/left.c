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

/* A stack of the largest usual size has fewer loops. */
enum { NOTES_FIRST = 8, NOTES_MOST = 128 };

/* What EXC left when HEAD was its whole traceback. */
typedef struct note {
    const PyObject *exc; /* compared only, as HEAD is; NULL: free */
    const void *head;
    uint64_t number; /* of notes in this thread */
    uint32_t count;
    uint32_t lost; /* native frames that EXC left before, whose notes had to go */
    uintptr_t frames[SSPY_LEFT_FRAMES];
} note;

/* Of all exceptions on their way in this thread, and of some that were handled. */
typedef struct notes {
    uint64_t made;
    uint32_t used, room;
    note all[];
} notes;

_Thread_local uint64_t sspy_left_bits;
static _Thread_local notes *mine; /* NULL until the thread needs them */
static pthread_key_t owner;       /* frees them at the thread's end */
static pthread_once_t owner_made = PTHREAD_ONCE_INIT;
static bool has_owner;

static void end_notes(void *all)
{
    free(all);
    mine = NULL;
    sspy_left_bits = 0;
}

static void make_owner(void)
{
    has_owner = pthread_key_create(&owner, end_notes) == 0;
}

/* False if there is no room for more. */
static bool more_notes(void)
{
    uint32_t room = mine ? 2 * mine->room : NOTES_FIRST;
    notes *all;

    (void)pthread_once(&owner_made, make_owner);
    if (!has_owner || room > NOTES_MOST)
        return false;
    all = malloc(sizeof *all + room * sizeof *all->all);
    if (!all || pthread_setspecific(owner, all)) {
        free(all);
        return false;
    }
    *all = (notes){0};
    if (mine)
        memcpy(all, mine, sizeof *mine + mine->used * sizeof *mine->all);
    all->room = room;
    free(mine);
    mine = all;
    return true;
}

/* A free note, else the oldest one; NULL without memory. */
static note *room_for_note(void)
{
    note *oldest = NULL;

    for (uint32_t i = 0; mine && i < mine->used; i++) {
        note *each = &mine->all[i];

        if (!each->exc)
            return each;
        if (!oldest || each->number < oldest->number)
            oldest = each;
    }
    if ((!mine || mine->used == mine->room) && !more_notes())
        return oldest;
    return &mine->all[mine->used++];
}

/* The first that is left of those of EXC; NULL if there is none. */
static note *first_note(const PyObject *exc)
{
    note *first = NULL;

    for (uint32_t i = 0; i < mine->used; i++) {
        note *each = &mine->all[i];

        if (each->exc == exc && (!first || each->number < first->number))
            first = each;
    }
    return first;
}

void sspy_keep_left(PyObject *exc, const uintptr_t *frames, uint32_t count)
{
    note *here = room_for_note(), *first;
    const PyObject *of = here ? here->exc : NULL;
    uint32_t lost = of ? here->lost + here->count : 0;

    if (!here)
        return;
    here->exc = exc;
    here->head = ((PyBaseExceptionObject *)exc)->traceback;
    here->number = mine->made++;
    here->count = count;
    here->lost = 0;
    memcpy(here->frames, frames, count * sizeof *frames);
    sspy_left_bits |= sspy_left_bit(exc);
    first = lost ? first_note(of) : NULL;
    if (first)
        first->lost += lost;
}

uint32_t sspy_left_at(const PyObject *exc, const PyTracebackObject *head, const uintptr_t **frames,
                      uint32_t *lost)
{
    for (uint32_t i = 0; mine && i < mine->used; i++) {
        const note *each = &mine->all[i];

        if (each->head == head && each->exc == exc) {
            *frames = each->frames;
            *lost = each->lost;
            return each->count;
        }
    }
    return 0;
}

void sspy_forget_left(const PyObject *exc)
{
    sspy_left_bits = 0;
    for (uint32_t i = 0; i < mine->used; i++) {
        note *each = &mine->all[i];

        if (each->exc == exc)
            each->exc = NULL;
        else if (each->exc)
            sspy_left_bits |= sspy_left_bit(each->exc);
    }
}
