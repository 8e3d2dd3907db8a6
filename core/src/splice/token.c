#include "base/thread.h"
#include "splice/pool.h"
#include "splice/unloaded.h"

#include <string.h>

#define STRIDE 16
#define TOKEN_SPAN (UINTPTR_MAX >> 16) /* the upper 16 bits make an address a token */
#define OFFSET 8                       /* address - 1, which readers look up, is the same token */
#define PATIENCE_MS 50                 /* for a writer that this thread may have interrupted */

SS_LOCK(tokens_lock);
static void (*hold_all)(void);                           /* (RO) after load */
static _Thread_local const stacksplice_walk *looking_at; /* (THREAD) */

#define GAP_OF(of_trust, text)                                                        \
    {                                                                                 \
        .size = sizeof(stacksplice_token_info), .kind = STACKSPLICE_FRAME_GAP,        \
        .trust = STACKSPLICE_TRUST_##of_trust, .language = "native", .reason = (text) \
    }
#define FIXED_GAP(name, trust, text) [SS_TOKEN_##name] = GAP_OF(trust, text),
#define FIXED_END(name, text) [SS_TOKEN_END_##name] = GAP_OF(EXACT, text),

const stacksplice_token_info ss_token_fixed[SS_TOKEN_FIXED_COUNT] = {
    SS_OWN_GAPS(FIXED_GAP) SS_UNWIND_REASONS(FIXED_END)};
static const stacksplice_token_info dropped = GAP_OF(EXACT, SS_TOKEN_DROPPED_REASON);
static const stacksplice_token_info unloaded = GAP_OF(EXACT, SS_UNLOADED_REASON);
static const stacksplice_token_info unknown =
    GAP_OF(EXACT, "frame does not belong to this process");

uintptr_t ss_token_of(uint64_t id)
{
    return SS_TOKEN_BASE + (uintptr_t)(STRIDE * id) + OFFSET;
}

static uint64_t id_of(uintptr_t token)
{
    return (token - SS_TOKEN_BASE) / STRIDE;
}

bool ss_token_is(uintptr_t address)
{
    return (address ^ SS_TOKEN_BASE) < TOKEN_SPAN && address % STRIDE == OFFSET;
}

size_t ss_token_read(uintptr_t token, stacksplice_token_info *info, char *buffer, size_t capacity)
{
    ss_pool_verdict verdict = SS_POOL_UNKNOWN;
    size_t needed = 0;

    if (ss_token_is(token) && id_of(token) < SS_TOKEN_FIXED_COUNT) {
        *info = ss_token_fixed[id_of(token)];
        return 0;
    }
    if (ss_unloaded_is(token)) {
        *info = unloaded;
        return 0;
    }
    if (ss_token_is(token))
        verdict = ss_pool_read(id_of(token), info, buffer, capacity, &needed);
    if (verdict == SS_POOL_KNOWN)
        return needed;
    *info = verdict == SS_POOL_DROPPED ? dropped : unknown;
    return 0;
}

bool ss_token_is_script(uintptr_t element)
{
    stacksplice_token_info info;

    if (!ss_token_is(element))
        return false;
    (void)ss_token_read(element, &info, NULL, 0);
    return info.kind == STACKSPLICE_FRAME_SCRIPT;
}

void ss_token_set_holder(void (*holder)(void))
{
    hold_all = holder;
}

void ss_token_hold(uintptr_t element)
{
    if (ss_token_is(element))
        ss_pool_hold(id_of(element));
}

uint32_t stacksplice_token_epoch(void)
{
    return atomic_load_explicit(&ss_pool_epoch, memory_order_acquire);
}

/* ---- Adding ----------------------------------------------------------------------------------*/

void ss_token_looks_at(const stacksplice_walk *walk)
{
    looking_at = walk;
}

/*
 * Whether a signal interrupted a frame of the stack under capture.  It may have interrupted malloc,
 * for which the holder of our lock may wait while it forks.
 */
static bool in_signal_handler(void)
{
    for (uint32_t i = 0; looking_at && looking_at->frames && i < looking_at->frame_count; i++)
        if (looking_at->frames[i].flags & STACKSPLICE_NATIVE_SIGNAL)
            return true;
    return false;
}

/*
 * Find or store CONTENT under our lock.  *IS_FULL: only a sweep would make room, for which the pool
 * is not PREPARED.
 */
static uint64_t add_locked(const ss_content *content, bool prepared, bool *is_full)
{
    uint64_t id = ss_pool_find(content);
    ss_pool_state state;

    if (id)
        return id;
    state = ss_pool_prepare(content);
    *is_full = state == SS_POOL_IS_FULL && !prepared;
    if (state == SS_POOL_IS_FULL && prepared) {
        ss_pool_sweep();
        state = ss_pool_prepare(content);
    }
    return state == SS_POOL_READY ? ss_pool_add(content) : SS_TOKEN_NO_MEMORY;
}

/*
 * Add CONTENT on first sight.  A thread that may have interrupted the holder of a lock must not
 * wait for it.
 */
static uint64_t add(const ss_content *content)
{
    bool may_wait = !in_signal_handler(), prepared = false, is_full = false;
    uint64_t id;

    for (;;) {
        if (!(may_wait ? ss_lock_take(&tokens_lock)
                       : ss_lock_take_within(&tokens_lock, PATIENCE_MS)))
            return SS_TOKEN_NO_WAIT;
        id = add_locked(content, prepared, &is_full);
        ss_lock_drop(&tokens_lock);
        if (!is_full || !may_wait)
            return id;
        if (hold_all)
            hold_all();
        prepared = true;
        is_full = false;
    }
}

static stacksplice_hresult intern(const stacksplice_token_info *info, uintptr_t *token)
{
    ss_content content;
    uint64_t id;

    ss_content_of(info, &content);
    id = ss_pool_find(&content);
    if (!id)
        id = add(&content);
    *token = ss_token_of(id);
    return id < SS_TOKEN_FIXED_COUNT ? E_OUTOFMEMORY : S_OK;
}

void ss_token_prepare(void)
{
    uintptr_t token;

    (void)intern(&dropped, &token); /* any one */
}

stacksplice_hresult stacksplice_intern(const stacksplice_token_info *info, uintptr_t *token)
{
    if (!info || !token || !info->language)
        return E_POINTER;
    if (info->size != sizeof *info ||
        (info->kind != STACKSPLICE_FRAME_SCRIPT && info->kind != STACKSPLICE_FRAME_GAP) ||
        info->trust < STACKSPLICE_TRUST_EXACT || info->trust > STACKSPLICE_TRUST_TRACEBACK ||
        (info->kind == STACKSPLICE_FRAME_GAP && !info->reason))
        return E_INVALIDARG;
    return intern(info, token);
}

/* The core's own gap with this text; SS_TOKEN_FIXED_COUNT when there is none. */
static uint32_t find_fixed(const char *language, const char *reason)
{
    uint32_t id = 0;

    while (id < SS_TOKEN_FIXED_COUNT && (strcmp(ss_token_fixed[id].language, language) != 0 ||
                                         strcmp(ss_token_fixed[id].reason, reason) != 0))
        id++;
    return id;
}

uintptr_t ss_token_gap(const char *language, const char *reason)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = language,
                                   .reason = reason};
    uint32_t id = find_fixed(language, reason);
    uintptr_t token = ss_token_of(id);

    if (id == SS_TOKEN_FIXED_COUNT)
        (void)intern(&info, &token); /* on failure, too, the token gives the reason */
    return token;
}
