#include "resolve/native.h"

#include "base/alloc.h"
#include "base/loader.h"
#include "base/platform.h"
#include "base/thread.h"
#include "resolve/debuginfo.h"
#include "resolve/glue.h"
#include "resolve/large_stack.h"
#include "splice/token.h"
#include "unwind/unwind.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* __cxa_demangle: the readable form of NAME in a block from malloc, or NULL. */
typedef char *(*ss_demangler)(const char *name, char *buffer, size_t *length, int *status);

/* ---- Native answer ---------------------------------------------------------------------------*/

/* Frames of native addresses, and the blocks that keep them. */

void ss_native_frame(uintptr_t address, const ss_binary *binary, ss_frame *f)
{
    stacksplice_frame *frame = &f->frame;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->kind = STACKSPLICE_FRAME_NATIVE;
    frame->trust = STACKSPLICE_TRUST_EXACT;
    frame->language = "native";
    frame->address = address;
    if (!binary)
        return;
    frame->module = *binary->path ? binary->path : NULL;
    frame->module_offset = address - binary->start;
    frame->build_id = *binary->build_id ? binary->build_id : NULL;
}

/* Copy TEXT to *AT and advance *AT past it. */
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

/* Allocate one block with the COUNT frames and their strings; NULL when out of memory. */
static ss_native_answer *ss_native_pack(const ss_frame *frames, uint32_t count)
{
    const stacksplice_frame *first = &frames[0].frame;
    size_t bytes = sizeof(ss_native_answer) + count * sizeof *frames + bytes_of(first->module) +
                   bytes_of(first->build_id);
    const char *module, *build_id;
    ss_native_answer *a;
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

void ss_native_unref(ss_native_answer *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
        ss_free(a);
}

/* ---- Demangle --------------------------------------------------------------------------------*/

/* Demangles C++ names with the C++ run-time of the process, if it has one: the core brings none. */

static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};

static _Atomic(ss_demangler) kept; /* (ATOMIC) its library stays loaded */

static ss_demangler demangler_of(void *library)
{
    void *address = dlsym(library, "__cxa_demangle");
    ss_demangler demangler;

    memcpy(&demangler, &address, sizeof demangler);
    return demangler;
}

/* Sets DATA, a library's file name, to the name of a loaded object with that file name. */
static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
    const char **found = data;

    (void)size;
    for (size_t i = 0; i < SS_COUNT_OF(libraries) && slash && !*found; i++)
        if (!strcmp(slash + 1, libraries[i]))
            *found = libraries[i];
    return *found != NULL;
}

/*
 * Find one in a library that only its loader sees, as with extensions of interpreters.  dlopen
 * would search folders for a missing library, so look through the loaded ones first.
 */
static ss_demangler find_local(void)
{
    ss_demangler demangler = NULL;
    const char *name = NULL;
    void *library = NULL;

    (void)ss_loader_iterate(SS_LOADER_LONG, find_library, &name);
    if (name)
        library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (library)
        demangler = demangler_of(library);
    if (demangler)
        atomic_store_explicit(&kept, demangler, memory_order_relaxed);
    return demangler; /* keep LIBRARY loaded: other threads may be running in it */
}

/* NULL where no C++ run-time is loaded.  Takes the loader's lock. */
static ss_demangler ss_demangler_find(void)
{
    ss_demangler demangler = atomic_load_explicit(&kept, memory_order_relaxed);

    if (!demangler)
        demangler = demangler_of(RTLD_DEFAULT);
    return demangler ? demangler : find_local();
}

static void open_library(void *library)
{
    *(void **)library = dlopen(libraries[0], RTLD_LAZY | RTLD_LOCAL);
    if (!*(void **)library)
        *(void **)library = dlopen(libraries[1], RTLD_LAZY | RTLD_LOCAL);
}

/* The same; loads a C++ run-time where none is loaded. */
static ss_demangler ss_demangler_load(void)
{
    ss_demangler demangler = ss_demangler_find();
    void *library = NULL;

    if (demangler || !ss_large_stack_call(open_library, &library) || !library)
        return demangler;
    return ss_demangler_find();
}

/* ---- Native ----------------------------------------------------------------------------------*/

/* An address may be in any way of its set, so that those of a stack do not evict each other. */
enum { SETS_LOG2 = 9, WAYS = 4 };
typedef struct set {
    ss_native_answer *ways[WAYS]; /* the last used first */
} set;

/* Facts found before the lock is taken, because finding them takes the loader's lock. */
typedef struct native_facts {
    uintptr_t address;
    bool in_module;
    bool debug;
    bool brief;         /* no more need be found than that the frames are glue */
    const char *symbol; /* from the dynamic symbol table */
    uintptr_t symbol_start;
    ss_demangler demangle;
    ss_binary module;
} native_facts;

/* All facts about one address; its strings are borrowed. */
typedef struct finding {
    const native_facts *facts;
    ss_file_status status;
    ss_debug_answer debug;
    uint32_t count;
    ss_frame frames[SS_INLINE_MAX];
    char *owned[SS_INLINE_MAX]; /* from the demangler, or NULL */
} finding;

SS_OUTER_LOCK(lock);              /* its holder may re-enter from the host's allocator */
static set cache[1 << SETS_LOG2]; /* (LOCK) */
static uint64_t cache_generation; /* (LOCK) */
static finding current;           /* (LOCK) large, and a stack may be small */

/* Registers the lock with the fork handlers at load. */
static __attribute__((constructor)) void begin(void)
{
    if (ss_lock_take(&lock))
        ss_lock_drop(&lock);
}

static ss_native_answer **ways_of(uintptr_t address)
{
    return cache[(address * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - SETS_LOG2)].ways;
}

/* Call under the lock. */
static void empty_cache(void)
{
    for (size_t i = 0; i < sizeof cache / sizeof *cache; i++)
        for (unsigned way = 0; way < WAYS; way++) {
            ss_native_unref(cache[i].ways[way]);
            cache[i].ways[way] = NULL;
        }
}

/* Leak checkers would report debug information as lost, because it tags its pointers. */
static __attribute__((destructor)) void close_debug(void)
{
    if (!ss_lock_try(&lock))
        return; /* another thread is still resolving at exit, which is allowed */
    empty_cache();
    ss_debug_close();
    ss_lock_drop(&lock);
}

/* Call under the lock. */
static void use_generation(uint64_t generation)
{
    if (generation != cache_generation)
        empty_cache();
    cache_generation = generation;
}

/* Where the answer for ADDRESS is, or is to be, in its set.  Call under the lock. */
static unsigned way_of(ss_native_answer **ways, uintptr_t address)
{
    unsigned way = 0;

    while (way < WAYS - 1 && ways[way] && ways[way]->address != address)
        way++;
    return way;
}

/* Put A first, in place of what is in WAY; the caller has one more reference.  Call under the
   lock. */
static void put_first(ss_native_answer **ways, unsigned way, ss_native_answer *a)
{
    memmove(ways + 1, ways, way * sizeof *ways);
    ways[0] = a;
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
}

static ss_native_answer *cached(uintptr_t address, bool brief, uint64_t generation)
{
    ss_native_answer **ways = ways_of(address), *a;
    unsigned way;

    if (!ss_lock_take(&lock))
        return NULL;
    use_generation(generation);
    way = way_of(ways, address);
    a = ways[way];
    if (a && a->address == address && (brief || !a->brief))
        put_first(ways, way, a);
    else
        a = NULL;
    ss_lock_drop(&lock);
    return a;
}

/* ---- Finding ---------------------------------------------------------------------------------*/

static void gather(uintptr_t address, bool brief, native_facts *facts)
{
    uintptr_t within = address - 1; /* a call that never returns can end its function */
    Dl_info info;

    memset(facts, 0, offsetof(native_facts, module));
    facts->address = address;
    facts->in_module = address && ss_binary_find(within, &facts->module);
    if (!facts->in_module)
        return;
    facts->brief = brief;
    facts->debug = !(brief && ss_glue_is_binary(facts->module.path)) && ss_debug_load();
    if (dladdr((void *)within, &info) && info.dli_sname && info.dli_saddr) {
        facts->symbol = info.dli_sname;
        facts->symbol_start = (uintptr_t)info.dli_saddr;
    } else {
        facts->symbol_start = ss_unwind_function(address); /* in stripped binaries, too */
    }
    facts->demangle = ss_demangler_find();
}

/* The demangled form of NAME: NAME itself, or a block from malloc in *OWNED. */
static const char *readable(const native_facts *facts, const char *name, char **owned)
{
    int status = -1;

    *owned = NULL;
    if (name && facts->demangle && name[0] == '_' && name[1] == 'Z')
        *owned = facts->demangle(name, NULL, NULL, &status);
    return *owned ? *owned : name;
}

/* Build the frames of an address, innermost first, from the facts so far. */
static void draft(finding *found)
{
    const native_facts *facts = found->facts;
    const ss_debug_answer *debug = &found->debug;
    stacksplice_frame *last;
    uintptr_t start;

    found->count = debug->count ? debug->count : 1;
    for (uint32_t i = 0; i < found->count; i++) {
        stacksplice_frame *frame = &found->frames[i].frame;

        ss_native_frame(facts->address, &facts->module, &found->frames[i]);
        frame->function = debug->frames[i].function;
        frame->file = debug->frames[i].file;
        frame->line = debug->frames[i].line;
        frame->column = debug->frames[i].column;
        found->frames[i].replaced = found->status == SS_FILE_OTHER_BUILD;
    }
    last = &found->frames[found->count - 1].frame;
    start = debug->symbol ? facts->module.start + debug->symbol_start : facts->symbol_start;
    last->function_offset = start ? facts->address - start : 0;
    if (!last->function)
        last->function = debug->symbol ? debug->symbol : facts->symbol;
    for (uint32_t i = 0; i + 1 < found->count; i++)
        found->frames[i].frame.inlined =
            last->function && ss_glue_is_inside(last->function) ? SS_INLINED_INSIDE : 1;
}

/* The part that needs a large stack: it calls third-party libraries. */
static void ask_libraries(void *data)
{
    finding *found = data;
    const native_facts *facts = found->facts;

    if (facts->debug)
        found->status = ss_debug_lookup(&facts->module, facts->address - 1 - facts->module.start,
                                        facts->brief ? ss_glue_is_start_up : NULL, &found->debug);
    draft(found);
    for (uint32_t i = 0; i < found->count; i++) {
        stacksplice_frame *frame = &found->frames[i].frame;

        frame->function = readable(facts, frame->function, &found->owned[i]);
    }
}

/* Whether debug information could tell more of these frames, all of which are glue. */
static bool is_brief(const finding *found)
{
    const native_facts *facts = found->facts;

    return facts->brief && (ss_glue_is_binary(facts->module.path) ||
                            (found->debug.symbol && ss_glue_is_start_up(found->debug.symbol)));
}

/* ---- Keeping ---------------------------------------------------------------------------------*/

/* Call under the lock: the cache takes its own reference. */
static void store(ss_native_answer *a, uint64_t generation)
{
    ss_native_answer **ways = ways_of(a->address);
    unsigned way;

    if (generation != cache_generation)
        return; /* modules were unloaded during the lookup */
    way = way_of(ways, a->address);
    ss_native_unref(ways[way]);
    put_first(ways, way, a);
}

void ss_native_name(ss_frame *f)
{
    uintptr_t start;

    if (f->frame.function)
        return;
    start = ss_unwind_function(f->frame.address);
    f->frame.function = start ? ss_function_name(start) : NULL;
    f->script_named = f->frame.function != NULL;
    f->frame.function_offset = f->script_named ? f->frame.address - start : 0;
}

/* Call under the lock: strings of debug information live until it is released. */
static ss_native_answer *look_up(const native_facts *facts, uint64_t generation)
{
    finding *found = &current;
    bool asked;
    ss_frame *last;
    ss_native_answer *a;

    memset(found, 0, sizeof *found);
    found->facts = facts;
    use_generation(generation);
    asked = ss_large_stack_call(ask_libraries, found);
    if (!asked)
        draft(found);
    last = &found->frames[found->count - 1];
    ss_native_name(last);
    a = ss_native_pack(found->frames, found->count);
    if (a) {
        a->brief = is_brief(found);
        a->nameless = last->frame.function ? 0 : ss_unwind_function(facts->address);
    }
    for (uint32_t i = 0; i < found->count; i++)
        free(found->owned[i]);
    if (a && asked)
        store(a, generation);
    return a;
}

static ss_native_answer *find_anew(uintptr_t address, bool brief, uint64_t generation)
{
    native_facts *facts = ss_alloc_dirty(sizeof *facts); /* large, and a stack may be small */
    ss_native_answer *a = NULL;

    if (!facts)
        return NULL;
    gather(address, brief, facts);
    if (facts->in_module && ss_lock_take(&lock)) {
        a = look_up(facts, generation);
        ss_lock_drop(&lock);
    }
    ss_free(facts);
    return a;
}

ss_native_answer *ss_native_find(uintptr_t address, bool brief)
{
    uint64_t generation;
    ss_native_answer *a;

    if (ss_lock_is_mine(&lock))
        return NULL;
    generation = stacksplice_unloads();
    a = cached(address, brief, generation);
    if (a && !(a->nameless && ss_function_name(a->nameless)))
        return a;
    ss_native_unref(a); /* scripts have named the function since */
    return find_anew(address, brief, generation);
}

/* ---- Files -----------------------------------------------------------------------------------*/

/* Call under the lock. */
static ss_native_answer *look_up_file(const native_facts *facts, ss_file_status *status)
{
    finding *found = &current;
    ss_native_answer *a = NULL;

    memset(found, 0, sizeof *found);
    found->facts = facts;
    found->status = SS_FILE_NO_MEMORY;
    if (ss_large_stack_call(ask_libraries, found) && found->status == SS_FILE_READ)
        a = ss_native_pack(found->frames, found->count);
    *status = a || found->status != SS_FILE_READ ? found->status : SS_FILE_NO_MEMORY;
    for (uint32_t i = 0; i < found->count; i++)
        free(found->owned[i]);
    return a;
}

ss_native_answer *ss_native_find_in_file(const ss_binary *file, uintptr_t offset,
                                         ss_file_status *status)
{
    native_facts *facts = ss_alloc_dirty(sizeof *facts);
    ss_native_answer *a = NULL;

    *status = SS_FILE_NO_MEMORY;
    if (!facts)
        return NULL;
    memset(facts, 0, offsetof(native_facts, module));
    facts->address = offset;
    facts->module = *file;
    facts->debug = true;
    facts->demangle = ss_demangler_load();
    if (!ss_lock_is_mine(&lock) && ss_lock_take(&lock)) {
        a = look_up_file(facts, status);
        ss_lock_drop(&lock);
    }
    ss_free(facts);
    return a;
}
