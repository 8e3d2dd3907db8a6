/*
 * The tasks that await the running one.  Suspended coroutines are on no native stack: the Python
 * file _awaiting.py finds them by asyncio's own records, here they become tokens.
 */
#include "binding.h"

/* The token of ITEM: a text is the reason of a gap, a tuple a code object and a place in it.  0
   with an exception. */
static uintptr_t token_of(PyObject *item)
{
    stacksplice_token_info gap = {.size = sizeof gap,
                                  .kind = STACKSPLICE_FRAME_GAP,
                                  .trust = STACKSPLICE_TRUST_EXACT,
                                  .language = "python"};
    uintptr_t token = 0;
    PyObject *code;
    int lasti;

    if (PyTuple_Check(item)) {
        if (!PyArg_ParseTuple(item, "O!i", &PyCode_Type, &code, &lasti))
            return 0;
        return sspy_token_known((PyCodeObject *)code, lasti, 0, STACKSPLICE_TRUST_EXACT);
    }
    gap.reason = PyUnicode_AsUTF8(item);
    if (gap.reason)
        (void)stacksplice_intern(&gap, &token); /* always sets a token */
    return token;
}

int sspy_awaited_by(uintptr_t *frames, uint32_t *count)
{
    PyObject *module = PyImport_ImportModule("stacksplice._awaiting");
    PyObject *list = module ? PyObject_CallMethod(module, "awaited_by", NULL) : NULL;
    PyObject *items = list ? PySequence_Fast(list, "awaited_by() returns a list") : NULL;
    Py_ssize_t size = items ? PySequence_Fast_GET_SIZE(items) : 0;
    int result = items ? 0 : -1;

    for (Py_ssize_t i = 0; !result && i < size && *count < SSPY_MAX_FRAMES; i++) {
        frames[*count] = token_of(PySequence_Fast_GET_ITEM(items, i));
        *count += frames[*count] != 0;
        result = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(items);
    Py_XDECREF(list);
    Py_XDECREF(module);
    return result;
}
