/*
 * A host that starts Python and ends it again, many times, while errors of the last one live on.
 *
 * Arguments: the number of rounds, a script for each round, which finds the module `host`; then "sub"
 * to run it in a sub-interpreter.  Prints by how many bytes malloc's
 * blocks grew in a round, after ten rounds to warm up: run it with PYTHONMALLOC=malloc.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stacksplice/python.h>
#include <string.h>

enum { WARM_UP = 10 };

/* ---- The module host --------------------------------------------------------------------------*/

static IUnknown *held;

static void release_held(void)
{
    if (held)
        held->lpVtbl->Release(held);
    held = NULL;
}

/* Of the last exception only: that of the round before goes. */
static PyObject *hold(PyObject *self, PyObject *exc)
{
    release_held();
    CHECK(stacksplice_python_import() == S_OK);
    CHECK(stacksplice_python_exception(exc, &held) == S_OK);
    Py_RETURN_NONE;
}

/* A thread that lives as long as the program, for its slot. */
static sem_t asked, answered;
static PyObject *to_call;

static void *serve(void *unused)
{
    for (;;) {
        PyGILState_STATE state;
        PyObject *result;

        CHECK(sem_wait(&asked) == 0);
        state = PyGILState_Ensure();
        result = PyObject_CallNoArgs(to_call);
        CHECK(result);
        Py_DECREF(result);
        PyGILState_Release(state);
        CHECK(sem_post(&answered) == 0);
    }
    return unused;
}

static PyObject *call_in_thread(PyObject *self, PyObject *function)
{
    to_call = function;
    Py_BEGIN_ALLOW_THREADS CHECK(sem_post(&asked) == 0 && sem_wait(&answered) == 0);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"hold", hold, METH_O, NULL},
    {"call_in_thread", call_in_thread, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "host",
                                        .m_methods = functions};

static PyObject *init_host(void)
{
    return PyModuleDef_Init(&definition);
}

/* ---- The rounds -------------------------------------------------------------------------------*/

static void run_in_sub_interpreter(const char *script)
{
    PyThreadState *main_state = PyThreadState_Get(), *state = Py_NewInterpreter();

    CHECK(state);
    CHECK(PyRun_SimpleString(script) == 0);
    Py_EndInterpreter(state);
    PyThreadState_Swap(main_state);
}

int main(int count, char **arguments)
{
    int rounds = count > 2 ? atoi(arguments[1]) : 0;
    size_t before = 0;
    pthread_t thread;

    CHECK(rounds > WARM_UP && PyImport_AppendInittab("host", init_host) == 0);
    CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
    for (int round = 0; round < rounds; round++) {
        Py_InitializeEx(0);
        if (count > 3)
            run_in_sub_interpreter(arguments[2]);
        else
            CHECK(PyRun_SimpleString(arguments[2]) == 0);
        CHECK(Py_FinalizeEx() == 0);
        if (round == WARM_UP - 1)
            before = mallinfo2().uordblks;
    }
    printf("%ld\n", ((long)mallinfo2().uordblks - (long)before) / (rounds - WARM_UP));
    release_held();
    RoClearError();
    return 0;
}
