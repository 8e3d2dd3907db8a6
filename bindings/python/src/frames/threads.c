/* The thread states that have frames on one stack. */
#include "frames/live.h"

#include <pthread.h>
#include <unistd.h>

/*
 * Whether CURRENT is this thread's and running; MINE is the state this thread began with.  Before
 * 3.12 the current thread state is global.  It is ours only if one of our sections says so, or if
 * it belongs to this thread.  PyGILState_Check proves nothing: with sub-interpreters it always
 * returns 1.
 */
static bool holds_lock(PyThreadState *current, PyThreadState *mine)
{
#if SSPY_CURRENT_IS_THREAD_LOCAL
    (void)mine;
    return current != NULL;
#else
    if (!current)
        return false;
    /* No other thread makes this thread's own state the current one. */
    if (current == mine || sspy_is_in_section())
        return true;
    /* Only the holder of the lock can be current, and it is alive while it holds the lock.  It
       could release the lock and die between these reads only if it were another thread. */
    return PyGILState_Check() && current->thread_id == (unsigned long)pthread_self() &&
           current->native_thread_id == (unsigned long)gettid();
#endif
}

/* Whether the newest marker of THREAD_STATE, which does not run, lies on our stack. */
static bool is_dormant_here(const stacksplice_walk *walk, PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->thread_head);

    if (sspy_layout_now()->cframe)
        return sspy_is_on_stack(walk, head);
    if (thread_state->thread_id != (unsigned long)pthread_self())
        return false;
    head = sspy_entry_frame(head);
    return head && sspy_is_on_stack(walk, head);
}

static uint32_t add_thread_state(PyThreadState **states, uint32_t count, PyThreadState *state)
{
    for (uint32_t i = 0; i < count; i++)
        if (states[i] == state)
            return count;
    if (state && count < SSPY_MAX_THREAD_STATES)
        states[count++] = state;
    return count;
}

/* Whether INTERP runs under the lock that CURRENT's interpreter holds.  Only then its list of
   thread states cannot change.  In 3.11 there is one lock. */
static bool shares_lock(PyInterpreterState *interp, PyThreadState *current)
{
    uint32_t offset = sspy_layout_now()->interpreter_lock;

    return !offset ||
           sspy_word((uintptr_t)interp, offset) == sspy_word((uintptr_t)current->interp, offset);
}

static uint32_t add_dormant(const stacksplice_walk *walk, PyInterpreterState *interp,
                            PyThreadState **states, uint32_t count)
{
    for (PyThreadState *t = PyInterpreterState_ThreadHead(interp); t; t = t->next)
        if (is_dormant_here(walk, t))
            count = add_thread_state(states, count, t);
    return count;
}

uint32_t sspy_thread_states(const stacksplice_walk *walk,
                            PyThreadState *states[SSPY_MAX_THREAD_STATES])
{
    PyThreadState *current = sspy_current_thread_state();
    PyThreadState *mine = PyGILState_GetThisThreadState();
    uint32_t count = add_thread_state(states, 0, mine);

    if (!holds_lock(current, mine))
        return count;
    count = add_thread_state(states, count, current);
    for (PyInterpreterState *i = PyInterpreterState_Head(); i; i = PyInterpreterState_Next(i))
        if (shares_lock(i, current))
            count = add_dormant(walk, i, states, count);
    return count;
}
