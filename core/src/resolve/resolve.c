#include "resolve/resolve.h"

#include "base/alloc.h"
#include "resolve/debuginfo.h"
#include "splice/token.h"
#include "unwind/unwind.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_SIZE = 2048 };

/* The frames of one native address with their strings, in one block. */
typedef struct answer {
    atomic_uint refs; /* (ATOMIC) the cache's and each reader's */
    uint32_t count;
    uintptr_t address;
    uintptr_t nameless; /* start of a function without a name, which scripts may name later; or 0 */
    ss_frame frames[];
} answer;

/* What was found out before the lock is taken, since it needs the loader's. */
typedef struct native_facts {
    uintptr_t address;
    bool in_module;
    bool debug;
    const char *symbol; /* of the dynamic symbol table */
    uintptr_t symbol_start;
    char *(*demangle)(const char *, char *, size_t *, int *);
    ss_binary module;
} native_facts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;  /* (THREAD) holds the lock: the host's allocator may come back */
static _Thread_local bool forking; /* (THREAD) has the lock, too: handlers of the host run */
static answer *cache[CACHE_SIZE];  /* (LOCK) */
static uint64_t cache_generation;  /* (LOCK) */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    forking = true;
}

static void after_fork(void)
{
    forking = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static void take_lock(void)
{
    if (!forking)
        pthread_mutex_lock(&lock);
    inside = true;
}

static void drop_lock(void)
{
    inside = false;
    if (!forking)
        pthread_mutex_unlock(&lock);
}

static void answer_unref(answer *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
        ss_free(a);
}

static size_t slot_of(uintptr_t address)
{
    return (size_t)((address * (uintptr_t)0x9E3779B97F4A7C15u) >> (sizeof(uintptr_t) * 8 - 11));
}

/* Under the lock. */
static void empty_cache(void)
{
    for (size_t i = 0; i < CACHE_SIZE; i++) {
        answer_unref(cache[i]);
        cache[i] = NULL;
    }
}

/* What debug information holds looks lost to leak checkers, since it marks its pointers. */
__attribute__((destructor)) static void close_debug(void)
{
    if (pthread_mutex_trylock(&lock))
        return; /* a thread still resolves while the process ends: it may */
    empty_cache();
    ss_debug_close();
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void use_generation(uint64_t generation)
{
    if (generation != cache_generation)
        empty_cache();
    cache_generation = generation;
    ss_debug_refresh(generation);
}

static answer *cached(uintptr_t address, uint64_t generation)
{
    answer *a;

    take_lock();
    use_generation(generation);
    a = cache[slot_of(address)];
    if (a && a->address == address)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    else
        a = NULL;
    drop_lock();
    return a;
}

/* ---- Finding ---------------------------------------------------------------------------------*/

static void gather(uintptr_t address, native_facts *facts)
{
    uintptr_t within = address - 1; /* a call that never returns can end its function */
    void *demangle;
    Dl_info info;

    memset(facts, 0, offsetof(native_facts, module));
    facts->address = address;
    facts->in_module = address && ss_binary_find(within, &facts->module);
    if (!facts->in_module)
        return;
    facts->debug = ss_debug_load();
    if (dladdr((void *)within, &info) && info.dli_sname && info.dli_saddr) {
        facts->symbol = info.dli_sname;
        facts->symbol_start = (uintptr_t)info.dli_saddr;
    } else {
        facts->symbol_start = ss_unwind_function(address); /* a stripped binary has this still */
    }
    demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle"); /* a C++ run-time, if one is loaded */
    memcpy(&facts->demangle, &demangle, sizeof demangle);
}

/* The readable form of NAME: itself, or a block from malloc in *OWNED. */
static const char *readable(const native_facts *facts, const char *name, char **owned)
{
    int status = -1;

    *owned = NULL;
    if (name && facts->demangle && name[0] == '_' && name[1] == 'Z')
        *owned = facts->demangle(name, NULL, NULL, &status);
    return *owned ? *owned : name;
}

/* What all frames of one native address share. */
static void fill_shared(const native_facts *facts, ss_frame *f)
{
    stacksplice_frame *frame = &f->frame;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->kind = STACKSPLICE_FRAME_NATIVE;
    frame->trust = STACKSPLICE_TRUST_EXACT;
    frame->language = "native";
    frame->address = facts->address;
    if (!facts->in_module)
        return;
    frame->module = *facts->module.path ? facts->module.path : NULL;
    frame->module_offset = facts->address - facts->module.start;
    frame->build_id = *facts->module.build_id ? facts->module.build_id : NULL;
}

static void fill_offset(const native_facts *facts, uintptr_t start, ss_frame *f)
{
    f->has_function_offset = start != 0;
    f->function_offset = start ? facts->address - start : 0;
}

/* The frames of one address with borrowed strings; the number of them. */
static uint32_t draft(const native_facts *facts, const ss_debug_answer *found, ss_frame *frames)
{
    uint32_t count = found->count ? found->count : 1;
    const char *symbol = found->symbol ? found->symbol : facts->symbol;
    uintptr_t start = found->symbol ? found->symbol_start : facts->symbol_start;

    for (uint32_t i = 0; i < count; i++) {
        stacksplice_frame *frame = &frames[i].frame;

        fill_shared(facts, &frames[i]);
        frame->function = found->frames[i].function;
        frame->file = found->frames[i].file;
        frame->line = found->frames[i].line;
        frame->column = found->frames[i].column;
        frame->inlined = i + 1 < count;
    }
    fill_offset(facts, start, &frames[count - 1]);
    if (!frames[count - 1].frame.function)
        frames[count - 1].frame.function = symbol;
    return count;
}

/* ---- Keeping ---------------------------------------------------------------------------------*/

/* Copies TEXT to *AT and moves *AT behind it. */
static const char *keep(const char *text, char **at)
{
    char *copy = *at;
    size_t bytes;

    if (!text)
        return NULL;
    bytes = strlen(text) + 1;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

static size_t bytes_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* One block with the COUNT frames and their strings; NULL without memory. */
static answer *pack(const ss_frame *frames, uint32_t count)
{
    const stacksplice_frame *first = &frames[0].frame;
    size_t bytes = sizeof(answer) + count * sizeof *frames + bytes_of(first->module) +
                   bytes_of(first->build_id);
    const char *module, *build_id;
    answer *a;
    char *at;

    for (uint32_t i = 0; i < count; i++)
        bytes += bytes_of(frames[i].frame.function) + bytes_of(frames[i].frame.file);
    a = ss_alloc(1, bytes);
    if (!a)
        return NULL;
    atomic_init(&a->refs, 1);
    a->count = count;
    a->address = first->address;
    memcpy(a->frames, frames, count * sizeof *frames);
    at = (char *)(a->frames + count);
    module = keep(first->module, &at);
    build_id = keep(first->build_id, &at);
    for (uint32_t i = 0; i < count; i++) {
        stacksplice_frame *frame = &a->frames[i].frame;

        frame->module = module;
        frame->build_id = build_id;
        frame->function = keep(frame->function, &at);
        frame->file = keep(frame->file, &at);
    }
    return a;
}

/* Under the lock: the cache takes a reference of its own. */
static void store(answer *a, uint64_t generation)
{
    answer **slot = &cache[slot_of(a->address)];

    if (generation != cache_generation)
        return; /* modules went while this was looked up */
    answer_unref(*slot);
    *slot = a;
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
}

/* A function without a symbol may have a name in scripts, known by its first address. */
static void name_by_scripts(ss_frame *f)
{
    uintptr_t start;

    if (f->frame.function)
        return;
    start = ss_unwind_function(f->frame.address);
    f->frame.function = start ? ss_function_name(start) : NULL;
    f->script_named = f->frame.function != NULL;
    f->has_function_offset = f->script_named;
    f->function_offset = f->frame.address - start;
}

/* Under the lock: strings of the debug information live as long as it is held. */
static answer *look_up(const native_facts *facts, uint64_t generation)
{
    ss_debug_answer found;
    ss_frame frames[SS_INLINE_MAX];
    char *owned[SS_INLINE_MAX];
    uint32_t count;
    answer *a;

    memset(&found, 0, sizeof found);
    use_generation(generation);
    if (facts->debug)
        ss_debug_lookup(&facts->module, facts->address - 1, &found);
    count = draft(facts, &found, frames);
    for (uint32_t i = 0; i < count; i++)
        frames[i].frame.function = readable(facts, frames[i].frame.function, &owned[i]);
    name_by_scripts(&frames[count - 1]);
    a = pack(frames, count);
    if (a && !frames[count - 1].frame.function)
        a->nameless = ss_unwind_function(facts->address);
    for (uint32_t i = 0; i < count; i++)
        free(owned[i]);
    if (a)
        store(a, generation);
    return a;
}

static stacksplice_hresult deliver(const ss_frame *frames, uint32_t count,
                                   ss_frame_callback callback, void *data)
{
    for (uint32_t i = 0; i < count; i++) {
        if (callback(&frames[i], data))
            return S_FALSE;
    }
    return S_OK;
}

/* All that is known of ADDRESS: NULL when that is what FACTS holds. */
static answer *find(uintptr_t address, native_facts *facts)
{
    uint64_t generation = ss_binary_generation();
    answer *a = inside ? NULL : cached(address, generation);

    if (a && !(a->nameless && ss_function_name(a->nameless)))
        return a;
    answer_unref(a); /* scripts have named the function since */
    gather(address, facts);
    if (!facts->in_module || inside)
        return NULL;
    take_lock();
    a = look_up(facts, generation);
    drop_lock();
    return a;
}

static stacksplice_hresult resolve_native(uintptr_t address, ss_frame_callback callback, void *data)
{
    stacksplice_hresult hr;
    native_facts facts;
    answer *a = find(address, &facts);

    if (!a) { /* nothing mapped there, or no memory: say what is known without any */
        ss_frame poor;

        fill_shared(&facts, &poor);
        return deliver(&poor, 1, callback, data);
    }
    hr = deliver(a->frames, a->count, callback, data);
    answer_unref(a);
    return hr;
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

static void fill_token(uintptr_t token, ss_frame *f)
{
    const stacksplice_token_info *info = ss_token_info(token);
    stacksplice_frame *frame = &f->frame;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->address = token;
    if (!info) { /* from another process, or never interned */
        frame->kind = STACKSPLICE_FRAME_GAP;
        frame->trust = STACKSPLICE_TRUST_EXACT;
        frame->language = "native";
        frame->reason = "unknown token";
        return;
    }
    frame->kind = info->kind;
    frame->trust = info->trust;
    frame->language = info->language;
    frame->function = info->function;
    frame->file = info->file;
    frame->line = info->line;
    frame->end_line = info->end_line;
    frame->column = info->column;
    frame->end_column = info->end_column;
    frame->reason = info->reason;
    frame->asynchronous = info->asynchronous;
    frame->interpreter = info->interpreter;
    frame->chunk = info->chunk;
}

stacksplice_hresult ss_resolve(uintptr_t address, ss_frame_callback callback, void *data)
{
    ss_frame frame;

    if (!ss_token_is(address))
        return resolve_native(address, callback, data);
    fill_token(address, &frame);
    return deliver(&frame, 1, callback, data);
}

stacksplice_hresult ss_resolve_failfast(uintptr_t address, ss_binary *module,
                                        ss_frame_callback callback, void *data)
{
    ss_frame f;

    memset(&f, 0, sizeof f);
    if (ss_token_is(address)) {
        fill_token(address, &f);
    } else {
        f.frame.size = sizeof f.frame;
        f.frame.kind = STACKSPLICE_FRAME_NATIVE;
        f.frame.trust = STACKSPLICE_TRUST_EXACT;
        f.frame.language = "native";
        f.frame.address = address;
        if (address && ss_binary_find_failfast(address - 1, module)) {
            f.frame.module = *module->path ? module->path : NULL;
            f.frame.module_offset = address - module->start;
            f.frame.build_id = *module->build_id ? module->build_id : NULL;
            name_by_scripts(&f);
        }
    }
    return deliver(&f, 1, callback, data);
}

/* ---- Public ----------------------------------------------------------------------------------*/

typedef struct public_callback {
    stacksplice_frame_callback callback;
    void *data;
} public_callback;

static int call_public(const ss_frame *frame, void *data)
{
    const public_callback *p = data;

    return p->callback(&frame->frame, p->data);
}

stacksplice_hresult stacksplice_resolve(uintptr_t frame, stacksplice_frame_callback callback,
                                        void *data)
{
    public_callback p = {callback, data};

    if (!callback)
        return E_POINTER;
    return ss_resolve(frame, call_public, &p);
}
