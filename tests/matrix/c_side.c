/* C: steps that hand HRESULTs on, in the ways that C code does. */
#include "matrix.h"

#include <pthread.h>
#include <stdlib.h>

/* Fails, where C is the origin. */
MATRIX_NODE HRESULT matrix_c_origin(void)
{
    static const WCHAR wide[] = {'C', ' ', 's', 'a', 'i', 'd', ' ', 0xdf};

    matrix_enter();
    switch (matrix.kind) {
    case 'W':
        (void)RoOriginateErrorW(E_ACCESSDENIED, sizeof wide / sizeof *wide, wide);
        return E_ACCESSDENIED;
    case 'B': /* no error object: the next language makes one */
        return E_NOTIMPL;
    default:
        (void)stacksplice_originate(E_BOUNDS, "C said so", 9, NULL, NULL);
        return E_BOUNDS;
    }
}

/* Clean-up that fails itself is put between save and restore. */
static void clean_up(void)
{
    stacksplice_saved_error saved;

    (void)stacksplice_save_error(&saved);
    (void)stacksplice_originate(E_ABORT, "clean-up", 8, NULL, NULL);
    stacksplice_restore_error(&saved);
}

/* The error is taken and put back, as code does that looks at it. */
static void take_and_put_back(void)
{
    IRestrictedErrorInfo *error = NULL;

    if (GetRestrictedErrorInfo(&error) != S_OK)
        return;
    (void)SetRestrictedErrorInfo(error);
    error->lpVtbl->Release(error);
}

/* ---- Threads ----------------------------------------------------------------------------------*/

typedef struct handed {
    int step;
    HRESULT hr;
    IRestrictedErrorInfo *error;
} handed;

MATRIX_NODE void *matrix_c_in_thread(void *data)
{
    handed *h = data;

    matrix_log_add('t', "", 0);
    matrix_enter();
    h->hr = matrix_step(h->step);
    (void)GetRestrictedErrorInfo(&h->error);
    matrix_check_slot();
    return NULL;
}

HRESULT matrix_c_thread(int i)
{
    handed h = {i, S_OK, NULL};
    void *unlocked = matrix_unlock();
    pthread_t thread;

    if (pthread_create(&thread, NULL, matrix_c_in_thread, &h) != 0 ||
        pthread_join(thread, NULL) != 0)
        abort();
    matrix_lock(unlocked);
    if (h.error) {
        (void)SetRestrictedErrorInfo(h.error);
        h.error->lpVtbl->Release(h.error);
    }
    return h.hr;
}

/* ---- The step ---------------------------------------------------------------------------------*/

static int sorting;
static HRESULT sorted;

MATRIX_NODE int matrix_c_compare(const void *a, const void *b)
{
    matrix_enter();
    sorted = matrix_step(sorting);
    MATRIX_AFTER();
    return *(const char *)a - *(const char *)b;
}

/* By a function of the C library. */
static HRESULT sort(int i)
{
    char pair[] = {2, 1};

    sorting = i;
    qsort(pair, 2, 1, matrix_c_compare);
    return sorted;
}

MATRIX_NODE HRESULT matrix_c_recurse(int i, int left)
{
    HRESULT hr;

    matrix_enter();
    hr = left ? matrix_c_recurse(i, left - 1) : matrix_step(i);
    MATRIX_AFTER();
    return hr;
}

static HRESULT call_unlocked(int i)
{
    void *unlocked = matrix_unlock();
    HRESULT hr = matrix_step(i);

    matrix_lock(unlocked);
    return hr;
}

MATRIX_NODE HRESULT matrix_c_step(int i)
{
    char style = matrix.styles[i];
    HRESULT hr;

    matrix_enter();
    matrix_border(i);
    if (i == matrix.length - 1)
        hr = matrix_c_origin();
    else if (matrix.modes[i] == 't')
        hr = matrix_c_thread(i + 1);
    else if (matrix.modes[i] == 'q')
        hr = sort(i + 1);
    else if (matrix.modes[i] == 'r')
        hr = matrix_c_recurse(i + 1, 3);
    else if (style == '0' && i)
        hr = call_unlocked(i + 1);
    else
        hr = matrix_step(i + 1);
    matrix_passed(hr);
    if (style == '1')
        take_and_put_back();
    else if (style == '2')
        clean_up();
    else if (style == '3' && i < matrix.length - 1)
        (void)stacksplice_propagate(hr, NULL);
    if (i == 0) {
        matrix_collect(hr);
        hr = S_OK;
    }
    return hr;
}
