/* A language for the tests of script.h: its values are ints that count how often they were dropped.
 */
#ifndef STACKSPLICE_TEST_SCRIPT_LANGUAGE_H
#define STACKSPLICE_TEST_SCRIPT_LANGUAGE_H

#include "error_test.h"

#include <stacksplice/script.h>

static int dropped, woken; /* how often */
static void *drop_context;
static HRESULT slot_while_dropping;

static inline void drop(void *context, void *data, void *value)
{
    IRestrictedErrorInfo *in_flight = NULL;

    assert_non_null(data);
    ++*(int *)value;
    dropped++;
    drop_context = context;
    slot_while_dropping = stacksplice_peek_error(&in_flight);
    release(in_flight);
    RoOriginateError(E_ABORT, NULL); /* a destructor that fails in its own way */
}

static inline int wake(stacksplice_owner *owner)
{
    assert_non_null(stacksplice_owner_data(owner));
    woken++;
    return 1;
}

static const stacksplice_language toy = {sizeof toy, "toy", 0, drop, wake};
static const stacksplice_language free_toy = {sizeof free_toy, "free",
                                              STACKSPLICE_LANGUAGE_ANY_THREAD, drop, NULL};
static int record; /* the owner's data */

static inline stacksplice_owner *new_owner(const stacksplice_language *language)
{
    stacksplice_owner *owner = stacksplice_owner_new(language, &record);

    assert_non_null(owner);
    dropped = woken = 0;
    return owner;
}

static inline stacksplice_exception *new_exception(stacksplice_owner *owner)
{
    static const char *const types[] = {"KeyError", "LookupError"};
    static const uintptr_t frames[] = {0x1000, 0x2000};
    const stacksplice_exception_parts parts = {.size = sizeof parts,
                                               .hresult = E_BOUNDS,
                                               .types = types,
                                               .type_count = 2,
                                               .message = "no\0key",
                                               .message_length = 6,
                                               .frames = frames,
                                               .frame_count = 2};
    stacksplice_exception *x = stacksplice_exception_new(owner, &parts);

    assert_non_null(x);
    return x;
}

static inline IRestrictedErrorInfo *restricted(IScriptErrorInfo *error)
{
    return query(error, &IID_IRestrictedErrorInfo);
}

#endif
