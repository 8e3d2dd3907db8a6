/* Whether an error was born in this interpreter: the exception that its language exception keeps.
 */
#include "cross/cross.h"

/* The object of the language exception that ERROR (an error object or node) carries, if it is one
   of this interpreter's; new reference. */
static PyObject *object_of(sspy_state *state, ILanguageExceptionErrorInfo *error)
{
    IUnknown *unknown = NULL;
    sspy_exception *exception;
    PyObject *object = NULL;

    if (FAILED(error->lpVtbl->GetLanguageException(error, &unknown)) || !unknown)
        return NULL;
    exception = sspy_exception_from(unknown);
    if (exception && exception->held.interp == state->interp)
        object = Py_XNewRef(exception->held.object);
    sspy_unknown_release(unknown);
    return object;
}

/* The same for the nodes, newest first. */
static PyObject *object_of_nodes(sspy_state *state, IUnknown *error)
{
    ILanguageExceptionErrorInfo2 *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL, *older;
    PyObject *object = NULL;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    while (node && !object) {
        object = object_of(state, (ILanguageExceptionErrorInfo *)node);
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        sspy_unknown_release(node);
        node = older;
    }
    sspy_unknown_release(node);
    sspy_unknown_release(info);
    return object;
}

PyObject *sspy_own_object(sspy_state *state, IUnknown *error)
{
    sspy_section section = sspy_enter(state->interp);
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    PyObject *object = info ? object_of(state, info) : NULL;

    if (!object && info)
        object = object_of_nodes(state, error);
    sspy_unknown_release(info);
    sspy_leave(section);
    return object;
}
