/*
 * Raises the exception of a missed deadline in the thread that is late.
 *
 * Python has one way to do that, PyThreadState_SetAsyncExc, which needs the lock.  Code in C that
 * hangs may never give it back, so a thread of its own waits for the lock, not the watcher of all
 * deadlines.  Everything that decides whether the exception may be raised happens with the lock
 * held, as does the end of the block.  So it comes in the block or not at all.
 */
#include "api/deadline.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT = 2 * 1000 * 1000 /* nanoseconds */, MOMENTS_TO_RAISE = 500, MOMENTS_TO_RUN = 5 };

/* ---- The block -------------------------------------------------------------------------------*/

static void unref(sspy_block *block)
{
    if (atomic_fetch_sub(&block->refs, 1) != 1)
        return;
    sspy_interp_unref(block->interp);
    free(block);
}

static void forget(sspy_block *block)
{
    sspy_block **at = &block->interp->blocks;

    while (*at && *at != block)
        at = &(*at)->outer;
    if (*at)
        *at = block->outer;
    Py_CLEAR(block->frame);
    Py_CLEAR(block->exception);
    Py_CLEAR(block->text);
}

static void wait_a_moment(void)
{
    const struct timespec moment = {0, MOMENT};

    (void)nanosleep(&moment, NULL);
}

/* The block for which this thread strikes. */
static _Thread_local const sspy_block *striking;

/*
 * Wait until no thread strikes BLOCK, with the lock released; whether there was one.  Its thread
 * state must be gone when the block has ended: before 3.13, whoever runs code in another
 * interpreter takes the thread state that was made last.
 */
static bool wait_for_striker(sspy_block *block)
{
    /* A finalizer may end the block in the thread that strikes. */
    if (atomic_load(&block->striker) != getpid() || striking == block)
        return false;
    atomic_fetch_add(&block->refs, 1);
    Py_BEGIN_ALLOW_THREADS;
    while (atomic_load(&block->striker))
        wait_a_moment();
    Py_END_ALLOW_THREADS;
    unref(block);
    return true;
}

/* Threads that strike need the interpreter: none may be left when it ends. */
static PyObject *end_all(PyObject *self, PyObject *unused)
{
    sspy_interp *interp = sspy_interp_current();

    (void)self;
    (void)unused;
    if (!interp)
        return NULL;
    interp->strikes_no_more = true;
    for (sspy_block *block = interp->blocks; block; block = block->outer) {
        atomic_store(&block->ended, true);
        (void)stacksplice_deadline_end(block->deadline); /* waits for the start of such a thread */
    }
    for (sspy_block *block = interp->blocks; block;)
        block = wait_for_striker(block) ? interp->blocks : block->outer;
    Py_RETURN_NONE;
}

static PyMethodDef end_all_def = {"end_deadlines", end_all, METH_NOARGS, NULL};

static bool prepare(sspy_interp *interp)
{
    if (!interp->ends_blocks && sspy_at_exit(&end_all_def))
        return false;
    interp->ends_blocks = true;
    return true;
}

sspy_block *sspy_block_begin(PyObject *exception, PyObject *text)
{
    sspy_interp *interp = sspy_interp_current();
    sspy_block *block;

    if (!interp || !prepare(interp))
        return NULL;
    block = calloc(1, sizeof *block);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&block->refs, 1);
    block->interp = interp;
    sspy_interp_ref(interp);
    block->frame = sspy_entering_frame();
    block->thread = PyThreadState_GetID(PyThreadState_Get());
    block->exception = Py_NewRef(exception);
    block->text = Py_NewRef(text);
    block->outer = interp->blocks;
    interp->blocks = block;
    return block;
}

/* A thread has one place for exceptions, so that of this block may have taken another's. */
static void strike_again(const sspy_block *block, unsigned long thread)
{
    for (const sspy_block *b = block->interp->blocks; b; b = b->outer) {
        if (b->struck == thread) {
            (void)PyThreadState_SetAsyncExc(thread, b->exception);
            return;
        }
    }
}

/*
 * Before 3.13, an exception that is to be raised is marked in the interpreter, until one is.  While
 * it is marked, each thread looks for its own at every call, and a call that 3.11 traces does not
 * begin.  But the late thread may be in C for long, and an exception that was taken back is never
 * raised.  So this raises one in a thread of our own.  A thread that has one marks it again when it
 * takes the lock.
 */
static void clear_mark(PyThreadState *me)
{
#if PY_VERSION_HEX < 0x030D0000
    PyObject *globals = PyDict_New();
    PyObject *code = globals ? Py_CompileString("0", "stacksplice", Py_eval_input) : NULL;

    PyThreadState_EnterTracing(me); /* nobody's tools are to see it */
    if (code) {
        (void)PyThreadState_SetAsyncExc(me->thread_id, PyExc_TimeoutError);
        Py_XDECREF(PyEval_EvalCode(code, globals, globals));
    }
    PyErr_Clear();
    PyThreadState_LeaveTracing(me);
    Py_XDECREF(code);
    Py_XDECREF(globals);
#else
    (void)me;
#endif
}

/* The exception is not to be raised any more. */
static void take_back(sspy_block *block)
{
    unsigned long struck = block->struck;

    block->struck = 0;
    if (!struck)
        return;
    (void)PyThreadState_SetAsyncExc(struck, NULL);
    strike_again(block, struck);
}

void sspy_block_end(sspy_block *block)
{
    atomic_store(&block->ended, true);
    (void)wait_for_striker(block);
    take_back(block);
    strike_again(block, PyThread_get_thread_ident());
    forget(block);
    unref(block);
}

/* ---- The strike ------------------------------------------------------------------------------*/

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
    return true;
}

/* Whether the block has the exception, or has ended.  Takes the lock. */
static bool strike_once(PyThreadState *me, sspy_block *block)
{
    unsigned long struck_before;
    bool is_struck;
    int collects;

    PyEval_RestoreThread(me);
    struck_before = block->struck;
    collects = PyGC_Disable(); /* finalizers may end the block, and would wait for this thread */
    is_struck = atomic_load(&block->ended) || try_strike(block);
    PyErr_Clear();
    if (collects)
        (void)PyGC_Enable();
    if (struck_before || block->struck)
        clear_mark(me);
    (void)PyEval_SaveThread();
    return is_struck;
}

/* Until the block has ended: its code may have caught the exception and gone on. */
static void *strike(void *data)
{
    sspy_block *block = data;
    PyThreadState *me = PyThreadState_New(block->interp->state);
    unsigned moments = 0; /* until the next strike */

    striking = block;
    while (me && !atomic_load(&block->ended)) {
        if (moments)
            moments--;
        else
            moments = strike_once(me, block) ? MOMENTS_TO_RAISE : MOMENTS_TO_RUN;
        wait_a_moment();
    }
    if (me) { /* else there is no memory, and the block is only reported */
        PyEval_RestoreThread(me);
        take_back(block);
        clear_mark(me);
        PyThreadState_Clear(me);
        PyThreadState_DeleteCurrent();
    }
    atomic_store(&block->striker, 0);
    unref(block);
    return NULL;
}

void sspy_block_missed(const char *report_file, void *data)
{
    sspy_block *block = data;
    pthread_t thread;

    (void)report_file;
    atomic_store(&block->striker, getpid());
    atomic_fetch_add(&block->refs, 1);
    if (pthread_create(&thread, NULL, strike, block) == 0) {
        (void)pthread_detach(thread);
    } else {
        atomic_store(&block->striker, 0);
        atomic_fetch_sub(&block->refs, 1); /* the object has another one */
    }
}
