/*
 * The ties of an exception: a private object that goes with it and keeps its error object.
 *
 * They stand in a word that every exception has and that CPython clears, copies nowhere and does
 * not use itself: `notes`, made for __notes__, which then became an attribute.  So no program sees
 * them.  The report that an exception brought from another process is theirs, too.
 */
#include "value/value.h"

#include <stdlib.h>
#include <string.h>

/* ---- Carrying dict ---------------------------------------------------------------------------*/

/*
 * A __dict__ that adds the report of an error where it is pickled, and nowhere else.
 *
 * BaseException.__reduce__ gives the __dict__ to the pickler as it is.  So the dict of an exception
 * that crossed a border is of a type of ours, which has the items of the former one and knows the
 * ties (api/errors.c says what it writes).
 *
 * When an exception is unpickled, its class may restore the items by its own __setstate__ or
 * __setattr__, which need not accept a name that it does not know.  Such exceptions keep the dict
 * that they have.
 */

/* Guards the two members by which ties and a dict know each other: one may end in another thread. */
SSPY_LOCK_OF(link_lock);

/* Neither the dict nor the ties keep the other: each is told of the other's end.  The slot follows the
   members of dict, whose size is known only at run time. */
static sspy_ties **ties_slot(PyObject *dict)
{
    return (sspy_ties **)((char *)dict + PyDict_Type.tp_basicsize);
}

sspy_ties *sspy_carrying_dict_ties(PyObject *dict)
{
    return *ties_slot(dict);
}

static int carrying_dict_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return PyDict_Type.tp_traverse(self, visit, arg);
}

static int carrying_dict_clear(PyObject *self)
{
    return PyDict_Type.tp_clear(self);
}

static void carrying_dict_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    SSPY_LOCK(link_lock);
    if (*ties_slot(self))
        (*ties_slot(self))->dict = NULL;
    SSPY_UNLOCK(link_lock);
    PyDict_Type.tp_dealloc(self);
    Py_DECREF(type);
}

PyTypeObject *sspy_carrying_dict_type(PyObject *module, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_traverse, carrying_dict_traverse},
        {Py_tp_clear, carrying_dict_clear},
        {Py_tp_dealloc, carrying_dict_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, "The __dict__ of an exception whose report is pickled.  Private."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.CarryingDict",
        .basicsize = (int)(PyDict_Type.tp_basicsize + (Py_ssize_t)sizeof(PyObject *)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyDict_Type);
    PyObject *type = bases ? PyType_FromModuleAndSpec(module, &spec, bases) : NULL;

    Py_XDECREF(bases);
    return (PyTypeObject *)type;
}

/* Whether instances of TYPE get each item back as an attribute when they are unpickled. */
static bool restores_items(const sspy_state *state, PyTypeObject *type)
{
    PyObject *method;

    if (type->tp_setattro != PyObject_GenericSetAttr)
        return false;
    method = PyObject_GetAttr((PyObject *)type, state->setstate_key);
    Py_XDECREF(method); /* the type keeps it */
    return method && method == state->plain_setstate;
}

/* A dict of ours with the items of DICT, which may be NULL. */
static PyObject *new_carrying_dict(const sspy_state *state, PyObject *dict)
{
    PyTypeObject *type = state->carrying_dict_type;
    PyObject *carrying = type->tp_new(type, state->no_arguments, NULL);

    if (carrying && dict && PyDict_GET_SIZE(dict) && PyDict_Update(carrying, dict))
        Py_CLEAR(carrying);
    return carrying;
}

/* Give EXC, whose ties are TIES, a carrying __dict__, if its class can restore the item.  Without memory
   the exception keeps its dict: it pickles as it would without us. */
static void install_carrying_dict(const sspy_state *state, PyObject *exc, sspy_ties *ties)
{
    PyObject **place = &((PyBaseExceptionObject *)exc)->dict, *carrying = NULL, *dict;
    bool restores = restores_items(state, Py_TYPE(exc));
    sspy_critical section;

    SSPY_CRITICAL_BEGIN(&section, exc);
    dict = Py_XNewRef(*place);
    if (restores && (!dict || PyDict_CheckExact(dict)))
        carrying = new_carrying_dict(state, dict);
    if (carrying && *place == dict) { /* no thread gave it another one meanwhile */
        SSPY_LOCK(link_lock);
        *ties_slot(carrying) = ties;
        ties->dict = carrying;
        SSPY_UNLOCK(link_lock);
        __atomic_store_n(place, Py_NewRef(carrying), __ATOMIC_RELEASE);
        Py_XDECREF(dict); /* the exception's */
    }
    SSPY_CRITICAL_END(&section);
    Py_XDECREF(carrying);
    Py_XDECREF(dict);
    PyErr_Clear();
}

/* ---- Ties ------------------------------------------------------------------------------------*/

/* Remove the entry KEY of TABLE, unless it now names another exception. */
static void forget_in(PyObject *table, PyObject *key, const sspy_ties *self)
{
    PyObject *reference = table ? sspy_dict_get(table, key) : NULL;
    PyObject *exc = reference ? sspy_weakref_get(reference) : NULL;
    sspy_ties *ties = exc ? sspy_ties_of(self->interp, exc) : NULL;

    if (reference && (!ties || ties == self))
        (void)PyDict_DelItem(table, key);
    Py_XDECREF(reference);
    Py_XDECREF(exc);
}

/* Remove this exception from the tables of foreign errors. */
static void forget_foreign(sspy_ties *self)
{
    sspy_state *state = self->interp->module_state;
    PyObject *key = state ? PyLong_FromVoidPtr(self->core.error) : NULL;

    if (key) {
        forget_in(state->foreign, key, self);
        forget_in(state->made_by_others, key, self);
    }
    Py_XDECREF(key);
    PyErr_Clear();
}

static void ties_dealloc(PyObject *object)
{
    sspy_ties *self = (sspy_ties *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *pending = sspy_take_pending();
    stacksplice_section section;

    SSPY_LOCK(link_lock);
    if (self->dict)
        *ties_slot(self->dict) = NULL;
    SSPY_UNLOCK(link_lock);
    Py_CLEAR(self->remote);
    Py_CLEAR(self->words);
    if (self->core.foreign)
        forget_foreign(self);
    section = sspy_enter(self->interp);
    stacksplice_ties_drop(&self->core);
    sspy_leave(section);
    free(self->raised);
    sspy_interp_unref(self->interp);
    sspy_set_pending(pending);
    type->tp_free(object);
    Py_DECREF(type);
}

PyTypeObject *sspy_ties_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, ties_dealloc},
        {Py_tp_doc, "Keeps the error object of an exception.  Private."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.Ties",
        .basicsize = sizeof(sspy_ties),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

static PyObject **ties_place(PyObject *exc)
{
    return &((PyBaseExceptionObject *)exc)->notes;
}

int sspy_ties_check(void)
{
    PyObject *exc = PyObject_CallNoArgs(PyExc_Exception);
    PyObject *result = exc ? PyObject_CallMethod(exc, "add_note", "s", "note") : NULL;
    bool is_used = result && *ties_place(exc);

    if (is_used)
        PyErr_SetString(PyExc_ImportError, "this version of CPython has no place for ties");
    Py_XDECREF(result);
    Py_XDECREF(exc);
    return result && !is_used ? 0 : -1;
}

sspy_ties *sspy_ties_of(sspy_interp *interp, PyObject *exc)
{
    bool is_exception = PyExceptionInstance_Check(exc); /* C code can set any object as a cause */
    PyObject *found = is_exception ? __atomic_load_n(ties_place(exc), __ATOMIC_ACQUIRE) : NULL;
    bool is_ours = found && interp->ties_type && Py_IS_TYPE(found, interp->ties_type);

    return is_ours ? (sspy_ties *)found : NULL;
}

static sspy_ties *new_ties(sspy_interp *interp, PyObject *exc)
{
    PyObject *there = NULL;
    sspy_ties *ties;

    if (!interp->ties_type) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter is being finalized");
        return NULL;
    }
    ties = (sspy_ties *)interp->ties_type->tp_alloc(interp->ties_type, 0);
    if (!ties)
        return NULL;
    ties->interp = interp;
    ties->exception = exc;
    sspy_interp_ref(interp);
    if (__atomic_compare_exchange_n(ties_place(exc), &there, (PyObject *)ties, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return ties;
    Py_DECREF(ties);
    /* Another thread made some since; they stay as long as the exception. */
    ties = sspy_ties_of(interp, exc);
    if (!ties)
        PyErr_SetString(PyExc_TypeError, "the place of the ties is taken");
    return ties;
}

sspy_ties *sspy_ties_make(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);

    return ties ? ties : new_ties(interp, exc);
}

sspy_ties *sspy_ties_make_to_cross(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_make(interp, exc);

    /* Also where it cannot be: ask once. */
    if (ties && interp->module_state &&
        !__atomic_exchange_n(&ties->is_carried, true, __ATOMIC_RELAXED))
        install_carrying_dict(interp->module_state, exc, ties);
    return ties;
}

void sspy_ties_set_error(sspy_ties *ties, IScriptErrorInfo *error, bool foreign)
{
    stacksplice_section section;
    sspy_critical critical;

    Py_INCREF(ties); /* dropping may be the end of the exception */
    if (sspy_ties_are_foreign(ties))
        forget_foreign(ties); /* runs Python code, so outside any section */
    section = sspy_enter(ties->interp);
    SSPY_CRITICAL_BEGIN(&critical, (PyObject *)ties);
    stacksplice_ties_set_error(&ties->core, error, foreign);
    SSPY_CRITICAL_END(&critical);
    sspy_leave(section); /* may run code of the program, which must find no lock of ours */
    Py_DECREF(ties);
}

/* Whether TIES keep the stack of the raise now. */
static bool keep_raised(sspy_ties *ties)
{
    sspy_critical section;
    bool kept;

    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    kept = ties->raised != NULL;
    SSPY_CRITICAL_END(&section);
    return kept;
}

int sspy_ties_set_raised(sspy_ties *ties, const uintptr_t *frames, uint32_t count)
{
    sspy_critical section;
    uintptr_t *copy;

    if (!count || keep_raised(ties))
        return 0;
    copy = malloc(count * sizeof *copy);
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(copy, frames, count * sizeof *copy);
    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    if (!ties->raised) {
        ties->raised = copy;
        ties->raised_count = count;
        ties->raised_epoch = stacksplice_code_epoch();
        copy = NULL;
    }
    SSPY_CRITICAL_END(&section);
    free(copy);
    return 0;
}

/* sspy_ties_raised for the only thread that uses TIES now. */
static uintptr_t *raised_of(sspy_ties *ties, bool take, uint32_t *count)
{
    size_t size = ties->raised_count * sizeof *ties->raised;
    uintptr_t *frames = take || !size ? ties->raised : malloc(size);

    if (!frames)
        return NULL;
    *count = ties->raised_count;
    if (take) {
        ties->raised = NULL;
        ties->raised_count = 0;
    } else {
        memcpy(frames, ties->raised, size);
    }
    (void)stacksplice_settle(frames, *count, ties->raised_epoch);
    return frames;
}

void sspy_ties_exchange(sspy_ties *ties, PyObject **member, PyObject *object)
{
    sspy_critical section;
    PyObject *former;

    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    former = *member;
    *member = Py_NewRef(object);
    SSPY_CRITICAL_END(&section);
    Py_XDECREF(former);
}

PyObject *sspy_ties_member(sspy_ties *ties, PyObject *const *member)
{
    sspy_critical section;
    PyObject *object;

    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    object = Py_XNewRef(*member);
    SSPY_CRITICAL_END(&section);
    return object;
}

uintptr_t *sspy_ties_raised(sspy_ties *ties, bool take, uint32_t *count)
{
    sspy_critical section;
    uintptr_t *frames;

    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    frames = raised_of(ties, take, count);
    SSPY_CRITICAL_END(&section);
    return frames;
}

uintptr_t *sspy_ties_borrow_raised(sspy_ties *ties, uint32_t *count)
{
    if (SSPY_IS_FREE_THREADED)
        return sspy_ties_raised(ties, false, count);
    *count = ties->raised_count;
    return ties->raised;
}

void sspy_ties_return_raised(sspy_ties *ties, uintptr_t *frames, uint32_t count, bool is_changed)
{
    if (!SSPY_IS_FREE_THREADED)
        return;
    if (is_changed)
        sspy_ties_replace_raised(ties, frames, count);
    else
        free(frames);
}

void sspy_ties_replace_raised(sspy_ties *ties, uintptr_t *frames, uint32_t count)
{
    uintptr_t *unused = frames;
    sspy_critical section;

    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    if (ties->raised) { /* else another thread made the error of it meanwhile */
        unused = ties->raised;
        ties->raised = frames;
        ties->raised_count = frames ? count : 0;
    }
    SSPY_CRITICAL_END(&section);
    free(unused);
}

void sspy_ties_set_of_pcall(sspy_ties *ties)
{
    __atomic_store_n(&ties->is_of_pcall, true, __ATOMIC_RELAXED);
}

void sspy_ties_forget_caught(sspy_ties *ties)
{
    if (__atomic_exchange_n(&ties->is_of_pcall, false, __ATOMIC_RELAXED))
        sspy_ties_replace_raised(ties, NULL, 0);
}

/* ---- Reports that arrive -----------------------------------------------------------------------*/

/*
 * A pickle has the report as an item of the state, since nothing else reaches a process without us.
 * Where we are, it goes to the ties, and no program sees the item: BaseException.__setstate__, by which
 * pickles and copies restore the items, is ours.  An exception that was unpickled before has it taken
 * away when it is first asked for.
 */

/* BaseException.__setstate__ as CPython has it.  One for all interpreters. */
static _Atomic(PyCFunction) plain_setstate;

static bool take(sspy_interp *interp, PyObject *exc, PyObject *report)
{
    sspy_ties *ties = sspy_ties_make_to_cross(interp, exc);

    if (ties)
        sspy_ties_exchange(ties, &ties->remote, report);
    else
        PyErr_Clear(); /* without memory it stays where it is */
    return ties != NULL;
}

/* Restore the items of STATE but KEY, whose value is REPORT. */
static PyObject *restore_with_report(sspy_interp *interp, PyObject *exc, PyObject *state,
                                     PyObject *key, PyObject *report)
{
    PyCFunction plain = atomic_load(&plain_setstate);
    PyObject *others = PyDict_Copy(state), *result = NULL;

    if (others && !PyDict_DelItem(others, key))
        result = plain(exc, others);
    if (result && !take(interp, exc, report))
        Py_SETREF(result, plain(exc, state));
    Py_XDECREF(others);
    return result;
}

/* The report among ITEMS (new reference), or NULL without an exception. */
static PyObject *report_among(PyObject *items, PyObject *key)
{
    PyObject *found = key && items && PyDict_Check(items) ? sspy_dict_get(items, key) : NULL;

    if (!found)
        PyErr_Clear();
    else if (!PyUnicode_CheckExact(found))
        Py_CLEAR(found);
    return found;
}

static PyObject *restore_items(PyObject *exc, PyObject *state)
{
    bool has_key = PyDict_Check(state) && PyDict_GetItemString(state, SSPY_REPORT_KEY);
    sspy_state *ours = has_key ? sspy_state_current() : NULL;
    PyObject *key = ours ? ours->interp->ties_key : NULL, *report, *result;

    PyErr_Clear();
    report = PyExceptionInstance_Check(exc) ? report_among(state, key) : NULL;
    if (!report)
        return atomic_load(&plain_setstate)(exc, state);
    result = restore_with_report(ours->interp, exc, state, key, report);
    Py_DECREF(report);
    return result;
}

void sspy_ties_begin(void)
{
    PyObject *found = PyObject_GetAttrString(PyExc_BaseException, "__setstate__");
    PyMethodDef *method = NULL;
    PyCFunction none = NULL;

    if (found && Py_IS_TYPE(found, &PyMethodDescr_Type))
        method = ((PyMethodDescrObject *)found)->d_method;
    if (method && method->ml_flags == METH_O && method->ml_meth != restore_items &&
        atomic_compare_exchange_strong(&plain_setstate, &none, method->ml_meth))
        __atomic_store_n(&method->ml_meth, restore_items, __ATOMIC_RELEASE);
    Py_XDECREF(found);
    PyErr_Clear();
}

/* The __dict__ of EXC now (new reference), or NULL: another thread may exchange it. */
static PyObject *dict_of(PyObject *exc)
{
    sspy_critical section;
    PyObject *dict;

    SSPY_CRITICAL_BEGIN(&section, exc);
    dict = Py_XNewRef(((PyBaseExceptionObject *)exc)->dict);
    SSPY_CRITICAL_END(&section);
    return dict;
}

PyObject *sspy_remote_report(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);
    PyObject *key = interp->ties_key;
    PyObject *report = ties ? sspy_ties_member(ties, &ties->remote) : NULL;
    PyObject *dict;

    if (report)
        return report;
    dict = dict_of(exc);
    report = report_among(dict, key);
    if (report && take(interp, exc, report)) {
        Py_SETREF(dict, dict_of(exc)); /* the ties may have brought another one */
        if (dict && PyDict_DelItem(dict, key))
            PyErr_Clear();
    }
    Py_XDECREF(dict);
    return report;
}

/* ---- Pin -------------------------------------------------------------------------------------*/

/*
 * Pins: keep an exception alive before code outside gets a reference on its error.
 *
 * An error at rest does not keep its exception, which would otherwise live for ever.  A caller that
 * has the exception makes the language exception keep it, and the exceptions it was made from, as
 * far as the exception still names them.  Then one reference on the error counts for all.
 */

static void keep(sspy_interp *interp, stacksplice_exception *x, PyObject *exc);

PyObject *sspy_group_members(PyObject *exc)
{
    PyObject *members;

    if (!PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_BaseExceptionGroup))
        return NULL;
    members = ((PyBaseExceptionGroupObject *)exc)->excs;
    return members && PyTuple_Check(members) ? members : NULL;
}

/* If ERROR was made for EXC, which may be NULL, let its language exception keep EXC.  Returns
   whether it was. */
static bool keep_for(sspy_interp *interp, const IScriptErrorInfo *error, PyObject *exc)
{
    sspy_ties *ties = exc ? sspy_ties_of(interp, exc) : NULL;

    if (sspy_ties_error(ties) != error || sspy_ties_are_foreign(ties) || !sspy_ties_exception(ties))
        return false;
    keep(interp, ties->core.exception, exc);
    return true;
}

/* The same for X's cause, if EXC still names it. */
static void keep_cause(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    IScriptErrorInfo *error = stacksplice_exception_related(x, 0);
    PyObject *cause = error ? PyException_GetCause(exc) : NULL;
    PyObject *context = error ? PyException_GetContext(exc) : NULL;

    if (error && !keep_for(interp, error, cause))
        (void)keep_for(interp, error, context);
    Py_XDECREF(cause); /* EXC keeps both */
    Py_XDECREF(context);
}

/* The errors of members are in the order of the members, but not every member has one. */
static void keep_members(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    PyObject *members = sspy_group_members(exc);
    Py_ssize_t count = members ? PyTuple_GET_SIZE(members) : 0, next = 0;
    IScriptErrorInfo *error;

    for (uint32_t i = 1; count && (error = stacksplice_exception_related(x, i)) != NULL; i++) {
        Py_ssize_t at = next;

        while (at < count && !keep_for(interp, error, PyTuple_GET_ITEM(members, at)))
            at++;
        if (at < count)
            next = at + 1;
    }
}

static void keep(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    /* Where threads run at once, another one may be about to drop what is held: the core decides. */
    if (interp->ends || (!SSPY_IS_FREE_THREADED && stacksplice_exception_is_held(x)))
        return;
    if (!stacksplice_exception_keep(x, Py_NewRef(exc)))
        Py_DECREF(exc);
    keep_cause(interp, x, exc);
    keep_members(interp, x, exc);
}

bool sspy_ties_have_stack(sspy_ties *ties)
{
    sspy_critical section;
    bool have;

    if (!ties)
        return false;
    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    have = ties->raised || ties->core.exception || ties->core.error;
    SSPY_CRITICAL_END(&section);
    return have;
}

IUnknown *sspy_ties_pin(sspy_interp *interp, const stacksplice_ties *ties, PyObject *exc)
{
    stacksplice_exception *x = ties->exception;
    IUnknown *unknown;

    if (!x)
        return NULL;
    unknown = stacksplice_exception_unknown(x);
    if (SSPY_IS_FREE_THREADED) { /* first, so that no other thread drops what is kept */
        unknown->lpVtbl->AddRef(unknown);
        keep(interp, x, exc);
    } else {
        keep(interp, x, exc);
        unknown->lpVtbl->AddRef(unknown);
    }
    return unknown;
}

IScriptErrorInfo *sspy_ties_hold(sspy_ties *ties, PyObject *exc)
{
    IUnknown *pinned = NULL;
    IScriptErrorInfo *error;
    sspy_critical section;

    if (!ties)
        return NULL;
    SSPY_CRITICAL_BEGIN(&section, (PyObject *)ties);
    error = ties->core.error;
    if (error && SSPY_IS_FREE_THREADED) /* first: pinning may let another thread change the ties */
        error->lpVtbl->AddRef(error);
    if (error)
        pinned = sspy_ties_pin(ties->interp, &ties->core, exc);
    if (error && !SSPY_IS_FREE_THREADED)
        error->lpVtbl->AddRef(error);
    SSPY_CRITICAL_END(&section);
    sspy_unknown_release(pinned); /* ERROR holds it, or another error does */
    return error;
}
