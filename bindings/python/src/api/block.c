/* Blocks of Python with a deadline that interrupts them: their list, from begin to end. */
#include "api/strike.h"

#include <stdlib.h>

static void forget(sspy_block *block)
{
    if (block->inner)
        block->inner->outer = block->outer;
    else
        block->interp->blocks = block->outer;
    if (block->outer)
        block->outer->inner = block->inner;
    Py_CLEAR(block->frame);
    Py_CLEAR(block->exception);
    Py_CLEAR(block->text);
}

/* The thread that strikes needs the interpreter: it must be gone when that ends. */
static PyObject *end_all(PyObject *self, PyObject *unused)
{
    sspy_interp *interp = sspy_interp_current();

    (void)self;
    (void)unused;
    if (!interp)
        return NULL;
    atomic_store(&interp->strikes_no_more, true);
    for (sspy_block *block = interp->blocks; block; block = block->outer) {
        (void)stacksplice_deadline_end(block->deadline); /* waits for the start of that thread */
        sspy_strike_end(block);
    }
    sspy_strike_wait(interp);
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
    block->interp = interp;
    sspy_interp_ref(interp);
    block->frame = sspy_entering_frame();
    block->thread = PyThreadState_GetID(PyThreadState_Get());
    block->exception = Py_NewRef(exception);
    block->text = Py_NewRef(text);
    block->outer = interp->blocks;
    if (block->outer)
        block->outer->inner = block;
    interp->blocks = block;
    return block;
}

void sspy_block_end(sspy_block *block)
{
    sspy_interp *interp = block->interp;

    if (atomic_load(&block->late)) {
        sspy_strike_end(block);
        sspy_strike_wait(interp);
        sspy_strike_again(interp, PyThread_get_thread_ident());
    }
    forget(block);
    sspy_interp_unref(interp);
    free(block);
}
