/*
 * Raises the exceptions of missed deadlines in the threads that are late.
 *
 * Python has one way to do that, PyThreadState_SetAsyncExc, which needs the lock.  Code in C that
 * hangs may never give it back, so a thread of its own waits for the lock, not the watcher of all
 * deadlines.  There is one for each interpreter, while blocks of it are late.  Everything that
 * decides whether an exception may be raised happens with the lock held, as does the end of a
 * block.  So it comes in the block or not at all.
 */
#include "api/strike.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    MOMENT = 2 * 1000 * 1000, /* nanoseconds */
    MOMENTS_TO_RAISE = 500,
    MOMENTS_TO_RUN = 5, /* or more: the thread has the lock for few blocks at a time */
    BLOCKS_AT_A_TIME = 32
};

static void wait_a_moment(void)
{
    const struct timespec moment = {0, MOMENT};

    (void)nanosleep(&moment, NULL);
}

/* ---- How many are late -----------------------------------------------------------------------*/

/* A forked child has neither the late blocks of its parent nor the thread that strikes. */
static uint32_t late_count(const sspy_interp *interp)
{
    uint64_t late = atomic_load(&interp->late);

    return late >> 32 == (uint64_t)getpid() ? (uint32_t)late : 0;
}

static void add_late(sspy_interp *interp, int32_t count)
{
    uint64_t now = atomic_load(&interp->late), process = (uint64_t)getpid(), then;

    do {
        then = (now >> 32 == process ? now : process << 32) + (uint64_t)(int64_t)count;
    } while (!atomic_compare_exchange_weak(&interp->late, &now, then));
}

static bool is_striking(const sspy_interp *interp)
{
    return atomic_load(&interp->striker) == getpid();
}

static bool has_work(const sspy_interp *interp)
{
    return late_count(interp) && !atomic_load(&interp->strikes_no_more);
}

/* ---- The exception ---------------------------------------------------------------------------*/

void sspy_strike_again(const sspy_interp *interp, unsigned long thread)
{
    for (const sspy_block *b = interp->blocks; b; b = b->outer) {
        if (b->struck == thread) {
            (void)PyThreadState_SetAsyncExc(thread, b->exception);
            return;
        }
    }
}

/* The exception is not to be raised any more. */
static void take_back(sspy_block *block)
{
    unsigned long struck = block->struck;

    block->struck = 0;
    if (!struck)
        return;
    (void)PyThreadState_SetAsyncExc(struck, NULL);
    atomic_store(&block->interp->has_mark, true);
    sspy_strike_again(block->interp, struck);
}

#if PY_VERSION_HEX < 0x030D0000
static void evaluate(PyObject *code, PyObject *globals)
{
    Py_XDECREF(PyEval_EvalCode(code, globals, globals));
    PyErr_Clear();
}

static void raise_here(PyThreadState *me, PyObject *code, PyObject *globals)
{
    int collects;

    evaluate(code, globals); /* collects garbage if that is due: finalizers must not get it */
    collects = PyGC_Disable();
    (void)PyThreadState_SetAsyncExc(me->thread_id, PyExc_TimeoutError);
    evaluate(code, globals);
    if (collects)
        (void)PyGC_Enable();
}
#endif

/*
 * Before 3.13, an exception that is to be raised is marked in the interpreter, until one is.  While
 * it is marked, each thread looks for its own at every call, and a call that 3.11 traces does not
 * begin.  But the late thread may be in C for long, and an exception that was taken back is never
 * raised.  So this raises one in a thread of our own.  A thread that has one marks it again when it
 * takes the lock.
 */
static void clear_mark(PyThreadState *me, sspy_interp *interp)
{
#if PY_VERSION_HEX < 0x030D0000
    PyObject *globals = PyDict_New();
    PyObject *code = globals ? Py_CompileString("0", "stacksplice", Py_eval_input) : NULL;

    PyThreadState_EnterTracing(me); /* nobody's tools are to see it */
    if (code)
        raise_here(me, code, globals);
    PyErr_Clear();
    PyThreadState_LeaveTracing(me);
    Py_XDECREF(code);
    Py_XDECREF(globals);
#else
    (void)me;
#endif
    atomic_store(&interp->has_mark, false);
}

/* ---- The strike ------------------------------------------------------------------------------*/

static _Thread_local bool is_striker;

/*
 * Raise the exception in the thread that runs the block.  False while none does: a generator or a
 * coroutine is suspended in it, and its thread runs other code, which is not late.  Once more if it
 * is still to be raised: code in C may have cleared it before it was made, or another one may have
 * taken its place.
 */
static bool try_strike(sspy_block *block)
{
    PyThreadState *thread = sspy_running_thread(block);

    if (block->struck && !(thread && block->struck == thread->thread_id))
        take_back(block);
    if (!thread)
        return false;
    block->struck = thread->thread_id;
    (void)PyThreadState_SetAsyncExc(thread->thread_id, block->exception);
    atomic_store(&block->interp->has_mark, true);
    return true;
}

static unsigned moments_to_run(const sspy_interp *interp)
{
    unsigned moments = late_count(interp) / BLOCKS_AT_A_TIME + 1;

    return moments > MOMENTS_TO_RUN ? moments : MOMENTS_TO_RUN;
}

/* Strike those whose moment has come.  Returns the next one's, which may have come, too. */
static uint64_t strike_due(sspy_interp *interp, uint64_t now)
{
    uint64_t next = now + MOMENTS_TO_RAISE;
    unsigned looked_at = 0;

    for (sspy_block *b = interp->blocks; b; b = b->outer) {
        if (atomic_load(&b->late) != getpid())
            continue;
        if (b->next_look <= now && looked_at++ < BLOCKS_AT_A_TIME)
            b->next_look = now + (try_strike(b) ? MOMENTS_TO_RAISE : moments_to_run(interp));
        if (b->next_look < next)
            next = b->next_look;
    }
    return next;
}

/* Takes the lock. */
static uint64_t look(PyThreadState *me, sspy_interp *interp, uint64_t now)
{
    uint64_t next;
    int collects;

    PyEval_RestoreThread(me);
    collects = PyGC_Disable(); /* finalizers may end blocks, which this thread is to strike */
    next = strike_due(interp, now);
    PyErr_Clear();
    if (collects)
        (void)PyGC_Enable();
    if (atomic_load(&interp->has_mark))
        clear_mark(me, interp);
    (void)PyEval_SaveThread();
    return next;
}

static void strike_while_late(PyThreadState *me, sspy_interp *interp)
{
    uint64_t now = 0, next = 0, late = 0;

    for (; has_work(interp); now++) {
        if (now >= next || atomic_load(&interp->late) != late || atomic_load(&interp->has_mark)) {
            late = atomic_load(&interp->late);
            next = look(me, interp, now);
        }
        wait_a_moment();
    }
    PyEval_RestoreThread(me);
    clear_mark(me, interp);
    PyThreadState_Clear(me);
    PyThreadState_DeleteCurrent();
}

static bool become_striker(sspy_interp *interp)
{
    int before = atomic_load(&interp->striker);

    return before != getpid() &&
           atomic_compare_exchange_strong(&interp->striker, &before, getpid());
}

/* Until the blocks have ended: their code may have caught the exception and gone on. */
static void *strike(void *data)
{
    sspy_interp *interp = data;
    bool goes_on;

    is_striker = true;
    do {
        PyThreadState *me = PyThreadState_New(interp->state);

        if (me) /* else there is no memory, and the blocks are only reported */
            strike_while_late(me, interp);
        atomic_store(&interp->striker, 0);
        goes_on = me && has_work(interp) && become_striker(interp);
    } while (goes_on);
    sspy_interp_unref(interp);
    return NULL;
}

void sspy_block_missed(const char *report_file, void *data)
{
    sspy_block *block = data;
    sspy_interp *interp = block->interp;
    pthread_t thread;

    (void)report_file;
    atomic_store(&block->late, getpid());
    add_late(interp, 1);
    if (!become_striker(interp))
        return;
    sspy_interp_ref(interp);
    if (pthread_create(&thread, NULL, strike, interp) == 0) {
        (void)pthread_detach(thread);
    } else {
        atomic_store(&interp->striker, 0);
        sspy_interp_unref(interp);
    }
}

/* ---- The end of a block -----------------------------------------------------------------------*/

void sspy_strike_end(sspy_block *block)
{
    take_back(block);
    if (atomic_exchange(&block->late, 0) == getpid())
        add_late(block->interp, -1);
}

void sspy_strike_wait(const sspy_interp *interp)
{
    if (is_striker) /* a finalizer ends a block in it */
        return;
    Py_BEGIN_ALLOW_THREADS;
    while (is_striking(interp) && (atomic_load(&interp->has_mark) || !has_work(interp)))
        wait_a_moment();
    Py_END_ALLOW_THREADS;
}
