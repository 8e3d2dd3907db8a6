/* A language exception as a binding makes it: two counts, and a stack if asked for. */
#ifndef STACKSPLICE_TEST_ERROR_DOUBLE_H
#define STACKSPLICE_TEST_ERROR_DOUBLE_H

#include <stacksplice/debugger.h>
#include <stacksplice/script.h>

#include <stdatomic.h>

/* The state is the test's and outlives the object, which has no memory of its own unless ENDED. */
typedef struct error_double {
    IScriptException IScriptException_iface; /* also IUnknown */
    ILanguageExceptionStackBackTrace ILanguageExceptionStackBackTrace_iface;
    ILanguageExceptionTransform ILanguageExceptionTransform_iface;
    atomic_int outside;
    atomic_int inside;
    atomic_int waking;                        /* how often outside went from 0 to 1 */
    void (*ended)(struct error_double *self); /* once both counts are 0; NULL: nothing to do */
    int is_script, is_interrupt;              /* answers IScriptException; what that says */
    const char *language, *type, *message;    /* "double", "DoubleError", "two" unless set */
    size_t message_length;
    int has_stack;
    const uintptr_t *frames;
    uint32_t frame_count;
    uint32_t claimed; /* what it says it stored, unless 0 */
    uint32_t room;    /* what it was asked for */
    uint32_t asked;   /* how often */
    uint32_t at_most; /* what it gives when it is asked again, unless 0 */
    HRESULT stack_hr;
    IRestrictedErrorInfo *cause; /* borrowed; answers ILanguageExceptionTransform if not NULL */
    stacksplice_relation relation;
    IRestrictedErrorInfo *const *members; /* borrowed */
    uint32_t member_count, members_left_out;
    const char *const *notes;
    uint32_t note_count;
} error_double;

/* One outside reference. */
void error_double_init(error_double *self, int is_script);
IUnknown *error_double_unknown(error_double *self);

#endif
