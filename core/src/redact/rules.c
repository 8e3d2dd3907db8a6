/* The rules of this process. */
#include "redact/redact.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

static const ss_rules usual = {.rules = STACKSPLICE_REDACT_DEFAULT};

/* Rules that were replaced while somebody read them. */
typedef struct replaced {
    ss_rules rules; /* first: what CURRENT points to */
    struct replaced *next;
} replaced;

SS_LOCK(lock);
static replaced *old;                     /* (LOCK lock) */
static _Atomic(const ss_rules *) current; /* NULL: the usual ones */
static atomic_uint readers;

const ss_rules *ss_rules_enter(void)
{
    const ss_rules *rules;

    atomic_fetch_add(&readers, 1);
    rules = atomic_load(&current);
    return rules ? rules : &usual;
}

void ss_rules_leave(void)
{
    atomic_fetch_sub(&readers, 1);
}

/* Copy NAME in lower case without '_' and '-'; false if it is none. */
static bool copy_name(const char *name, char to[STACKSPLICE_REDACT_NAME_MAX + 1])
{
    size_t length = 0;

    for (; name && *name; name++) {
        uint32_t c = ss_lower((unsigned char)*name);

        if (c == '_' || c == '-')
            continue;
        if (!ss_is_alnum(c) || length == STACKSPLICE_REDACT_NAME_MAX)
            return false;
        to[length++] = (char)c;
    }
    to[length] = 0;
    return length != 0;
}

static bool copy(const stacksplice_redaction *from, ss_rules *to)
{
    const uint32_t all = STACKSPLICE_REDACT_DEFAULT | STACKSPLICE_REDACT_EMAILS;

    if (from->size != sizeof *from || from->rules & ~all ||
        from->name_count > STACKSPLICE_REDACT_NAMES_MAX || (from->name_count && !from->names))
        return false;
    to->rules = from->rules;
    to->hook = from->hook;
    to->hook_data = from->hook_data;
    for (; to->name_count < from->name_count; to->name_count++) {
        if (!copy_name(from->names[to->name_count], to->names[to->name_count]))
            return false;
    }
    return true;
}

/* Make NEXT, or NULL for the usual ones, the rules; free what nobody reads any more. */
static bool replace(replaced *next)
{
    replaced *before, *unused = NULL;

    if (!ss_lock_take(&lock))
        return false;
    before = (replaced *)(uintptr_t)atomic_exchange(&current, next ? &next->rules : NULL);
    if (before) {
        before->next = old;
        old = before;
    }
    if (!atomic_load(&readers)) { /* whoever comes later reads the new ones */
        unused = old;
        old = NULL;
    }
    ss_lock_drop(&lock);
    while (unused) {
        before = unused->next;
        ss_free(unused);
        unused = before;
    }
    return true;
}

stacksplice_hresult stacksplice_set_redaction(const stacksplice_redaction *redaction)
{
    replaced *made = NULL;

    if (redaction) {
        made = ss_alloc(1, sizeof *made);
        if (!made)
            return E_OUTOFMEMORY;
        if (!copy(redaction, &made->rules)) {
            ss_free(made);
            return E_INVALIDARG;
        }
    }
    if (replace(made))
        return S_OK;
    ss_free(made);
    return E_UNEXPECTED;
}

const char *stacksplice_redact_name(const char *name)
{
    ss_text text = {name ? name : "", NULL, name ? strlen(name) : 0};
    const ss_rules *rules = ss_rules_enter();
    const ss_secret_name *found = rules->rules & STACKSPLICE_REDACT_NAMED
                                      ? ss_secret_name_of(rules, &text, 0, text.length)
                                      : NULL;

    ss_rules_leave();
    return found && !found->encoded ? found->kind : NULL;
}
