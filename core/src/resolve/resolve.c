/*
 * Turns addresses into frames: native ones through mapped modules, symbols and debug information,
 * whose answers are kept, and tokens through their table.
 */
#include "resolve/resolve.h"

#include "base/alloc.h"
#include "base/loader.h"
#include "base/thread.h"
#include "resolve/debuginfo.h"
#include "splice/sink.h"
#include "splice/source.h"
#include "splice/token.h"
#include "unwind/modules.h"
#include "unwind/unloads.h"
#include "unwind/unwind.h"

#include <stacksplice/debugger.h>
#include <stacksplice/winrt/winerror.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* __cxa_demangle: the readable form of NAME in a block from malloc, or NULL. */
typedef char *(*demangle_function)(const char *name, char *buffer, size_t *length, int *status);

/* ---- Frames of native addresses, and the blocks that keep them --------------------------------*/

/* The frames of one native address and their strings, in one block. */
typedef struct native_answer {
    atomic_uint refs; /* (ATOMIC) of the cache and of each reader */
    uint32_t count;
    uintptr_t address;
    bool brief;                /* one frame, which is glue; a full answer may have more */
    _Atomic uint32_t searched; /* (ATOMIC) see find_unread */
    uintptr_t nameless; /* start of a nameless function, which scripts may name later; or 0 */
    ss_frame frames[];
} native_answer;

/* Fill F with what all frames of ADDRESS share; BINARY may be NULL. */
static void begin_native(uintptr_t address, const ss_binary *binary, ss_frame *f)
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
static native_answer *pack(const ss_frame *frames, uint32_t count)
{
    const stacksplice_frame *first = &frames[0].frame;
    size_t bytes = sizeof(native_answer) + count * sizeof *frames + bytes_of(first->module) +
                   bytes_of(first->build_id);
    const char *module, *build_id;
    native_answer *a;
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

        frame->module = frame->module ? module : NULL;
        frame->build_id = frame->build_id ? build_id : NULL;
        frame->function = keep(frame->function, &at);
        frame->file = keep(frame->file, &at);
    }
    return a;
}

static void unref(native_answer *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
        ss_free(a);
}

/* ---- Names of C++ and Rust, by a C++ run-time: the core brings none ---------------------------*/

static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};

static _Atomic(demangle_function) kept; /* (ATOMIC) its library stays loaded */
static atomic_bool is_missing;          /* (ATOMIC) there is none on this machine */

static demangle_function demangler_of(void *library)
{
    void *address = dlsym(library, "__cxa_demangle");
    demangle_function demangler;

    memcpy(&demangler, &address, sizeof demangler);
    return demangler;
}

/* Sets DATA, a library's file name, to the name of a loaded object with that file name. */
static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *name = ss_base_name(info->dlpi_name ? info->dlpi_name : "");
    const char **found = data;

    (void)size;
    for (size_t i = 0; i < SS_COUNT_OF(libraries) && !*found; i++)
        if (!strcmp(name, libraries[i]))
            *found = libraries[i];
    return *found != NULL;
}

/* Keeps it loaded: other threads may be running in it. */
static void open_library(void *name)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    demangle_function demangler = library ? demangler_of(library) : NULL;

    if (demangler)
        atomic_store_explicit(&kept, demangler, memory_order_relaxed);
}

/*
 * NULL where no C++ run-time is loaded, unless LOAD says to load one.  Also finds one that only its
 * loader sees, as with extensions of interpreters.  dlopen would search folders for a missing
 * library, so look through the loaded ones first.  Takes the loader's lock.
 */
static demangle_function find_demangler(bool load)
{
    demangle_function demangler = atomic_load_explicit(&kept, memory_order_relaxed);
    const char *name = NULL;

    if (!demangler)
        demangler = demangler_of(RTLD_DEFAULT);
    if (demangler)
        return demangler;
    (void)ss_loader_iterate(SS_LOADER_LONG, find_library, &name);
    if (name)
        open_library((void *)(uintptr_t)name);
    load = load && !atomic_load(&is_missing);
    for (size_t i = 0; load && i < SS_COUNT_OF(libraries) && !atomic_load(&kept); i++)
        (void)ss_large_stack_call(open_library, (void *)(uintptr_t)libraries[i]);
    if (load && !atomic_load(&kept))
        atomic_store(&is_missing, true); /* each search asks for files in many folders */
    return atomic_load_explicit(&kept, memory_order_relaxed);
}

/* ---- Native ----------------------------------------------------------------------------------*/

/* An address may be in any way of its set, so that those of a stack do not evict each other. */
enum { SETS_LOG2 = 9, WAYS = 4 };
typedef struct set {
    native_answer *ways[WAYS]; /* the last used first */
} set;

/* Facts found before the lock is taken, because finding them takes the loader's lock. */
typedef struct native_facts {
    uintptr_t address;
    bool in_module;
    bool debug;
    bool brief;         /* no more need be found than that the frames are glue */
    bool symbol_alone;  /* no more is to be found */
    const char *symbol; /* from the dynamic symbol table */
    uintptr_t symbol_start;
    demangle_function demangle;
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
static uint64_t cache_generation; /* (LOCK) of unloads */
static uint64_t cache_modules; /* (LOCK) the modules of now, if nobody unloaded one since; or 0 */
static uint32_t cache_glue;    /* (LOCK) what was added when its frames were judged */
static uint64_t numbers;       /* (LOCK) of frames, so far */
static finding current;        /* (LOCK) large, and a stack may be small */

/* Registers the lock with the fork handlers at load. */
static __attribute__((constructor)) void begin(void)
{
    if (ss_lock_take(&lock))
        ss_lock_drop(&lock);
}

static native_answer **ways_of(uintptr_t address)
{
    return cache[(address * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - SETS_LOG2)].ways;
}

/* Call under the lock. */
static void empty_cache(void)
{
    for (size_t i = 0; i < sizeof cache / sizeof *cache; i++)
        for (unsigned way = 0; way < WAYS; way++) {
            unref(cache[i].ways[way]);
            cache[i].ways[way] = NULL;
        }
}

extern __attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

/* Leak checkers would report debug information as lost, because it tags its pointers.  For others the end
   of the process must not wait for this: threads may still run then. */
static __attribute__((destructor)) void close_debug(void)
{
    const char *preloaded = getenv("LD_PRELOAD");

    if (!__lsan_do_recoverable_leak_check && !(preloaded && strstr(preloaded, "vgpreload")))
        return;
    if (!ss_lock_try(&lock))
        return; /* another thread is still resolving at exit, which is allowed */
    empty_cache();
    ss_debug_close();
    ss_lock_drop(&lock);
}

/* Call under the lock, as the next. */
static void use_glue(void)
{
    uint32_t glue = ss_glue_added();

    if (glue != cache_glue)
        empty_cache();
    cache_glue = glue;
}

static void use_generation(uint64_t generation)
{
    if (generation != cache_generation) {
        empty_cache();
        cache_modules = 0;
    }
    cache_generation = generation;
    use_glue();
}

/* Where the answer for ADDRESS is, or is to be, in its set.  Call under the lock. */
static unsigned way_of(native_answer **ways, uintptr_t address)
{
    unsigned way = 0;

    while (way < WAYS - 1 && ways[way] && ways[way]->address != address)
        way++;
    return way;
}

/* Put A first, in place of what is in WAY; the caller has one more reference.  Call under the
   lock. */
static void put_first(native_answer **ways, unsigned way, native_answer *a)
{
    memmove(ways + 1, ways, way * sizeof *ways);
    ways[0] = a;
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
}

/* That of the cache as it is, or NULL.  Call under the lock. */
static native_answer *find_cached(uintptr_t address, bool brief)
{
    native_answer **ways = ways_of(address), *a;
    unsigned way = way_of(ways, address);

    a = ways[way];
    if (!a || a->address != address || (!brief && a->brief))
        return NULL;
    put_first(ways, way, a);
    return a;
}

/* Without asking the loader: where no module came or went, none was unloaded. */
static native_answer *cached(uintptr_t address, bool brief, uint64_t modules)
{
    native_answer *a = NULL;

    if (!ss_lock_take(&lock))
        return NULL;
    if (modules == cache_modules && ss_generation_tells_unloads(modules)) {
        use_glue();
        a = find_cached(address, brief);
    }
    ss_lock_drop(&lock);
    return a;
}

/* The same for the GENERATION of unloads.  MODULES: those that stayed while that was asked for, or 0. */
static native_answer *cached_since(uintptr_t address, bool brief, uint64_t generation,
                                   uint64_t modules)
{
    native_answer *a;

    if (!ss_lock_take(&lock))
        return NULL;
    use_generation(generation);
    cache_modules = modules;
    a = find_cached(address, brief);
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
    facts->demangle = find_demangler(false);
}

static bool is_mangled(const char *name)
{
    return name && name[0] == '_' && name[1] == 'Z';
}

/* NAME without the version that static symbol tables have behind it (memcpy@@GLIBC_2.14), in a block
   from malloc; NULL: it has none. */
static char *without_version(const char *name)
{
    const char *version = name ? strchr(name, '@') : NULL;

    return version && version > name ? strndup(name, (size_t)(version - name)) : NULL;
}

/* The demangled form of NAME: NAME itself, or a block from malloc in *OWNED. */
static const char *readable(const native_facts *facts, const char *name, char **owned)
{
    char *plain = without_version(name), *demangled = NULL;
    int status = -1;

    name = plain ? plain : name;
    if (facts->demangle && is_mangled(name))
        demangled = facts->demangle(name, NULL, NULL, &status);
    if (demangled)
        free(plain);
    *owned = demangled ? demangled : plain;
    return *owned ? *owned : name;
}

/* Whether it is the mangled name of what stands within a function: debug information has no linkage name
   of it, only its own. */
static bool is_local_name(const char *symbol)
{
    return symbol && !strncmp(symbol, "_ZZ", 3);
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

        begin_native(facts->address, &facts->module, &found->frames[i]);
        frame->function = debug->frames[i].function;
        frame->file = debug->frames[i].file;
        frame->line = debug->frames[i].line;
        frame->column = debug->frames[i].column;
        found->frames[i].replaced = found->status == SS_FILE_OTHER_BUILD;
        if (debug->frames[i].is_gap) {
            begin_native(facts->address, NULL, &found->frames[i]);
            frame->kind = STACKSPLICE_FRAME_GAP;
            frame->reason = "more inlined functions than are shown";
        }
    }
    last = &found->frames[found->count - 1].frame;
    start = debug->symbol ? facts->module.start + debug->symbol_start : facts->symbol_start;
    last->function_offset = start ? facts->address - start : 0;
    if (!last->function || is_local_name(debug->symbol))
        last->function = debug->symbol ? debug->symbol : facts->symbol;
    for (uint32_t i = 0; i + 1 < found->count; i++)
        if (!debug->frames[i].is_gap)
            found->frames[i].frame.inlined =
                last->function && ss_glue_is_inside(last->function) ? SS_INLINED_INSIDE : 1;
}

static bool is_start_up(const char *symbol)
{
    return symbol && ss_glue_is_start_up(symbol);
}

static bool is_always_enough(const char *symbol)
{
    (void)symbol;
    return true;
}

/* The part that needs a large stack: it calls third-party libraries. */
static void ask_libraries(void *data)
{
    finding *found = data;
    const native_facts *facts = found->facts;
    bool (*is_enough)(const char *) = facts->brief ? is_start_up : NULL;

    if (facts->symbol_alone)
        is_enough = is_always_enough;
    if (facts->debug)
        found->status = ss_debug_lookup(&facts->module, facts->address - 1 - facts->module.start,
                                        is_enough, &found->debug);
    draft(found);
    for (uint32_t i = 0; i < found->count; i++) {
        stacksplice_frame *frame = &found->frames[i].frame;

        frame->function = readable(facts, frame->function, &found->owned[i]);
    }
}

/* ---- Keeping ---------------------------------------------------------------------------------*/

/* Set the name that scripts use for a function without a symbol, by its first address. */
static void name_by_scripts(ss_frame *f)
{
    uintptr_t start;

    if (f->frame.function)
        return;
    start = ss_unwind_function(f->frame.address);
    f->frame.function = start ? ss_function_name(start) : NULL;
    f->script_named = f->frame.function != NULL;
    f->frame.function_offset = f->script_named ? f->frame.address - start : 0;
}

/* Call under the lock, as the next: strings of debug information live until it is released.  False
   without a stack for it. */
static bool ask(const native_facts *facts)
{
    memset(&current, 0, sizeof current);
    current.facts = facts;
    current.status = SS_FILE_NO_MEMORY;
    return ss_large_stack_call(ask_libraries, &current);
}

static native_answer *pack_current(void)
{
    native_answer *a = pack(current.frames, current.count);

    for (uint32_t i = 0; i < current.count; i++)
        free(current.owned[i]);
    return a;
}

/* Call under the lock. */
static native_answer *look_up(const native_facts *facts, uint64_t generation)
{
    native_answer **ways = ways_of(facts->address), *a;
    ss_frame *last;
    unsigned way;
    bool asked;

    use_generation(generation);
    asked = ask(facts);
    if (!asked)
        draft(&current);
    last = &current.frames[current.count - 1];
    name_by_scripts(last);
    for (uint32_t i = 0; i < current.count; i++) {
        current.frames[i].number = ++numbers;
        ss_frame_judge(&current.frames[i]);
    }
    a = pack_current();
    if (!a)
        return NULL;
    /* Whether debug information could tell more of these frames, all of which are glue. */
    a->brief =
        facts->brief && (ss_glue_is_binary(facts->module.path) ||
                         (current.debug.symbol && ss_glue_is_start_up(current.debug.symbol)));
    a->nameless = last->frame.function ? 0 : ss_unwind_function(facts->address);
    if (asked && generation == cache_generation) { /* else modules were unloaded meanwhile */
        way = way_of(ways, facts->address);
        unref(ways[way]);
        put_first(ways, way, a); /* the cache takes its own reference */
    }
    return a;
}

static native_answer *locked_look_up(const native_facts *facts, uint64_t generation)
{
    native_answer *a;

    if (!ss_lock_take(&lock))
        return NULL;
    a = look_up(facts, generation);
    ss_lock_drop(&lock);
    return a;
}

/* Whether A has a name that a demangler would make readable. */
static bool wants_demangler(const native_answer *a)
{
    for (uint32_t i = 0; a && i < a->count; i++)
        if (is_mangled(a->frames[i].frame.function))
            return true;
    return false;
}

/*
 * Whether A has a name for a demangler that FACTS lack and now have.  Code of Rust, or with a C++ run-time of
 * its own, can be in a process that has none to ask.  As libdw, one is loaded once it is needed; without the
 * lock, since its constructors may come here.
 */
static bool demangler_came(native_facts *facts, const native_answer *a)
{
    if (facts->demangle || !wants_demangler(a) || atomic_load(&is_missing))
        return false;
    facts->demangle = find_demangler(true);
    return facts->demangle != NULL;
}

static native_answer *find_anew(uintptr_t address, bool brief, uint64_t generation)
{
    native_facts *facts = ss_alloc_dirty(sizeof *facts); /* large, and a stack may be small */
    native_answer *a = NULL;

    if (!facts)
        return NULL;
    gather(address, brief, facts);
    if (facts->in_module)
        a = locked_look_up(facts, generation);
    if (demangler_came(facts, a)) {
        unref(a);
        a = locked_look_up(facts, generation);
    }
    ss_free(facts);
    return a;
}

/* Whether scripts have not named the function since. */
static bool is_of_now(const native_answer *a)
{
    return a && !(a->nameless && ss_function_name(a->nameless));
}

/*
 * Resolve ADDRESS; NULL when nothing is mapped there or memory ran out.  The answer may be brief if
 * BRIEF.
 */
static native_answer *find_answer(uintptr_t address, bool brief)
{
    uint64_t modules, generation;
    native_answer *a;

    if (ss_lock_is_mine(&lock))
        return NULL;
    modules = ss_modules_generation(true);
    a = cached(address, brief, modules);
    if (is_of_now(a))
        return a;
    unref(a);
    generation = stacksplice_unloads();
    a = cached_since(address, brief, generation,
                     modules == ss_modules_generation(true) ? modules : 0);
    if (is_of_now(a))
        return a;
    unref(a);
    return find_anew(address, brief, generation);
}

/* ---- Files -----------------------------------------------------------------------------------*/

static const stacksplice_hresult results[] = {
    [SS_FILE_READ] = S_OK,
    [SS_FILE_MISSING] = __HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND),
    [SS_FILE_NO_BINARY] = __HRESULT_FROM_WIN32(ERROR_BAD_FORMAT),
    [SS_FILE_OTHER_BUILD] = __HRESULT_FROM_WIN32(ERROR_INVALID_DATA),
    [SS_FILE_NO_MEMORY] = E_OUTOFMEMORY,
};

/* Copy TEXT to TO, of CAPACITY bytes; false when it does not fit. */
static bool put_path(const char *text, char *to, size_t capacity)
{
    size_t length = strlen(text);

    if (length >= capacity)
        return false;
    memcpy(to, text, length + 1);
    return true;
}

/* What the file of FACTS says; HR says why the answer is NULL. */
static native_answer *locked_look_into(const native_facts *facts, stacksplice_hresult *hr)
{
    native_answer *a = NULL;

    *hr = E_OUTOFMEMORY;
    if (ss_lock_is_mine(&lock) || !ss_lock_take(&lock))
        return NULL;
    if (ask(facts) && current.status == SS_FILE_READ)
        a = pack_current();
    *hr = a || current.status != SS_FILE_READ ? results[current.status] : E_OUTOFMEMORY;
    ss_lock_drop(&lock);
    return a;
}

/*
 * The same for OFFSET in the file at PATH, which has that BUILD_ID ("": any) and need not be loaded;
 * no more than its symbol if SYMBOL_ALONE.  Call after ss_debug_load returned true.
 */
static native_answer *find_answer_in_file(const char *path, const char *build_id, uintptr_t offset,
                                          bool symbol_alone, stacksplice_hresult *hr)
{
    native_facts *facts = ss_alloc(1, sizeof *facts);
    native_answer *a = NULL;

    *hr = facts ? E_INVALIDARG : E_OUTOFMEMORY;
    if (facts && put_path(path, facts->module.path, sizeof facts->module.path) &&
        put_path(build_id, facts->module.build_id, sizeof facts->module.build_id)) {
        facts->address = offset;
        facts->debug = true;
        facts->symbol_alone = symbol_alone;
        facts->demangle = find_demangler(false);
        a = locked_look_into(facts, hr);
        if (demangler_came(facts, a)) {
            unref(a);
            a = locked_look_into(facts, hr);
        }
    }
    ss_free(facts);
    return a;
}

/* ---- The gap for frames of an interpreter that no frame source reads --------------------------*/

/*
 * Whether a frame source of LANGUAGE reads this copy of the interpreter, which has code at
 * ADDRESS.  Then the source's identity is in the same binary.
 */
static bool is_read(const char *language, uintptr_t address)
{
    ss_module code, interpreter;

    if (ss_module_find(address - 1, &code) != SS_MODULE_FOUND)
        return true; /* unloaded since, so we cannot tell */
    for (uint32_t i = 0; i < ss_source_count(); i++) {
        const stacksplice_source *source = ss_source_at(i);

        if (!strcmp(source->language, language) &&
            ss_module_find((uintptr_t)source->identity, &interpreter) == SS_MODULE_FOUND &&
            interpreter.headers == code.headers)
            return true;
    }
    return false;
}

/* The glue of the interpreter that one of FRAMES enters, or NULL. */
static const stacksplice_glue *entered(const ss_frame *frames, uint32_t count,
                                       _Atomic uint32_t *searched)
{
    const stacksplice_glue *glue;
    uint32_t g = atomic_load_explicit(searched, memory_order_relaxed);

    for (; (glue = ss_glue_at(g)) != NULL; g++) {
        for (uint32_t i = 0; glue->unread && i < count; i++) {
            if (!frames[i].script_named && frames[i].frame.function &&
                ss_glue_matches(frames[i].frame.function, glue->entries))
                return glue;
        }
    }
    atomic_store_explicit(searched, g, memory_order_relaxed);
    return NULL;
}

/* Why nothing reads the interpreter of GLUE in the binary NAME: a later glue may know more of it. */
static const char *reason_of(const stacksplice_glue *glue, const char *name)
{
    const stacksplice_glue *other;

    for (uint32_t g = 0; (other = ss_glue_at(g)) != NULL; g++) {
        if (other->unread && !other->entries && !strcmp(other->language, glue->language) &&
            ss_glue_matches(name, other->libraries))
            return other->unread;
    }
    return glue->unread;
}

/* Append LENGTH bytes of PART to the text in SPACE; what does not fit is left out. */
static void append(char space[SS_TOKEN_ROOM], const char *part, size_t length)
{
    size_t used = strlen(space), room = SS_TOKEN_ROOM - 1 - used;

    length = length < room ? length : room;
    memcpy(space + used, part, length);
    space[used + length] = 0;
}

/* Make F's own frame the gap that belongs inside FRAME, which calls the interpreter of GLUE. */
static void begin_unread(const stacksplice_glue *glue, const stacksplice_frame *frame, ss_frames *f)
{
    const char *name = ss_base_name(frame->module), *reason = reason_of(glue, name);
    const char *place = strstr(reason, "%s"); /* of the name */

    *f->space = 0;
    append(f->space, reason, place ? (size_t)(place - reason) : strlen(reason));
    if (place) {
        append(f->space, name, strlen(name));
        append(f->space, place + 2, strlen(place + 2));
    }
    f->own = (ss_frame){.frame = {.size = sizeof f->own.frame,
                                  .kind = STACKSPLICE_FRAME_GAP,
                                  .trust = STACKSPLICE_TRUST_EXACT,
                                  .language = glue->language,
                                  .reason = f->space,
                                  .address = frame->address}};
}

/*
 * Whether the native frames of A, of one address, call into an interpreter that no frame source
 * reads.  Then F's own frame is the gap.  A->searched caches how much of the glue cannot match these
 * frames, or that the interpreter is read; glue and sources are only ever added.
 */
static bool find_unread(native_answer *a, ss_frames *f)
{
    const stacksplice_frame *last = &a->frames[a->count - 1].frame;
    const stacksplice_glue *glue = entered(a->frames, a->count, &a->searched);

    if (!glue || !last->module)
        return false;
    if (is_read(glue->language, last->address)) {
        atomic_store_explicit(&a->searched, UINT32_MAX, memory_order_relaxed); /* it stays so */
        return false;
    }
    begin_unread(glue, last, f);
    return true;
}

/* The same for F's outer frame, in a failing process, which keeps no answer. */
static bool find_unread_failing(ss_frames *f)
{
    _Atomic uint32_t searched = 0;
    const stacksplice_glue *glue = entered(&f->outer, 1, &searched);

    if (!glue || !f->outer.frame.module || is_read(glue->language, f->outer.frame.address))
        return false;
    begin_unread(glue, &f->outer.frame, f);
    return true;
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

/*
 * Returns the room for all strings; those that do not fit into BUFFER, of at least SS_TOKEN_ROOM,
 * are cut.
 */
static size_t fill_token(uintptr_t token, ss_frame *f, char *buffer, size_t capacity)
{
    stacksplice_token_info info;
    stacksplice_frame *frame = &f->frame;
    size_t needed;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->address = token;
    if (ss_left_out_is(token)) {
        frame->kind = STACKSPLICE_FRAME_GAP;
        frame->trust = STACKSPLICE_TRUST_EXACT;
        frame->language = "native";
        frame->reason = ss_left_out_reason(token, buffer);
        return 0;
    }
    needed = ss_token_read(token, &info, buffer, capacity);
    frame->kind = info.kind;
    frame->trust = info.trust;
    frame->language = info.language;
    frame->function = info.function;
    frame->file = info.file;
    frame->line = info.line;
    frame->end_line = info.end_line;
    frame->column = info.column;
    frame->end_column = info.end_column;
    frame->reason = info.reason;
    frame->asynchronous = info.asynchronous;
    frame->interpreter = info.interpreter;
    frame->chunk = info.chunk;
    frame->calls = info.calls;
    frame->source = info.source;
    return needed;
}

static void begin_script(uintptr_t token, ss_frames *f)
{
    size_t needed = fill_token(token, &f->own, f->space, sizeof f->space);

    if (needed > sizeof f->space)
        f->more = ss_alloc_dirty(needed);
    if (f->more) /* otherwise use the cut strings */
        (void)fill_token(token, &f->own, f->more, needed);
    if (f->own.frame.kind == STACKSPLICE_FRAME_SCRIPT && (f->more || needed <= sizeof f->space))
        f->own.number = token; /* native frames begin at 1, and never come that far */
}

/* ---- Unloaded code ---------------------------------------------------------------------------*/

/* The frame of TOKEN, whose module was unloaded; false if that is not known. */
static bool fill_unloaded(uintptr_t token, ss_frame *f)
{
    uintptr_t offset;
    const ss_met_module *m = ss_unloaded_module(token, &offset);

    if (!m)
        return false;
    begin_native(token, NULL, f);
    f->frame.module = *m->path ? m->path : NULL;
    f->frame.module_offset = offset;
    f->frame.build_id = *m->build_id ? m->build_id : NULL;
    return true;
}

static void begin_token(uintptr_t token, ss_frames *f)
{
    const stacksplice_frame *old = &f->own.frame;
    stacksplice_hresult hr;

    if (!ss_unloaded_is(token) || !fill_unloaded(token, &f->own)) {
        begin_script(token, f);
        return;
    }
    /* The frames that its file has there, if its build-id tells that it is the same file. */
    if (old->build_id && old->module && ss_debug_load())
        f->answer = find_answer_in_file(old->module, old->build_id, (uintptr_t)old->module_offset,
                                        false, &hr);
    for (uint32_t i = 0; f->answer && i < f->answer->count; i++)
        f->answer->frames[i].frame.address = token;
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Without memory.  Noinline: the binary is large. */
SS_NOINLINE static void begin_poorly(uintptr_t address, ss_frames *f)
{
    stacksplice_frame *frame = &f->own.frame;
    char *at = f->space;
    ss_binary binary;
    bool found = address && ss_binary_find(address - 1, &binary);

    begin_native(address, found ? &binary : NULL, &f->own);
    if (bytes_of(frame->module) + bytes_of(frame->build_id) > sizeof f->space)
        frame->module = NULL;
    frame->module = keep(frame->module, &at);
    frame->build_id = keep(frame->build_id, &at);
}

static void begin_failing_native(uintptr_t address, ss_binary *module, ss_frames *f)
{
    stacksplice_frame *frame = &f->outer.frame;
    uintptr_t start;

    if (!address || !ss_binary_find_failfast(address - 1, module)) {
        begin_native(address, NULL, &f->outer);
        return;
    }
    begin_native(address, module, &f->outer);
    if (ss_symbol_find(address - 1, &frame->function, &start))
        frame->function_offset = address - start;
    else
        name_by_scripts(&f->outer);
}

/* Neither allocates nor waits for a lock of ours or of the loader (where the platform allows). */
static void begin_failing(uintptr_t address, ss_binary *module, ss_frames *f)
{
    if (!ss_token_is(address)) {
        begin_failing_native(address, module, f);
        f->has_outer = true;
        f->has_own = find_unread_failing(f);
    } else if (!ss_unloaded_is(address) || !fill_unloaded(address, &f->own)) {
        (void)fill_token(address, &f->own, f->space, sizeof f->space);
    }
}

void ss_frames_begin(ss_frames *f, uintptr_t address, bool brief, ss_binary *failfast)
{
    f->answer = NULL;
    f->more = NULL;
    f->has_own = true;
    f->has_outer = false;
    if (failfast) {
        begin_failing(address, failfast, f);
    } else if (ss_token_is(address)) {
        begin_token(address, f);
        f->has_own = !f->answer;
    } else {
        f->answer = find_answer(address, brief);
        if (f->answer)
            f->has_own = find_unread(f->answer, f); /* each time: sources may have registered */
        else
            begin_poorly(address, f);
    }
    f->count = f->has_own + f->has_outer + (f->answer ? f->answer->count : 0);
}

const ss_frame *ss_frames_at(const ss_frames *f, uint32_t index)
{
    if (f->has_own && !index)
        return &f->own;
    return f->has_outer ? &f->outer : &f->answer->frames[index - f->has_own];
}

void ss_frames_end(ss_frames *f)
{
    unref(f->answer);
    ss_free(f->more);
}

stacksplice_hresult stacksplice_resolve(uintptr_t frame, stacksplice_frame_callback callback,
                                        void *data)
{
    bool stopped = false;
    ss_frames f;

    if (!callback)
        return E_POINTER;
    ss_frames_begin(&f, frame, false, NULL);
    for (uint32_t i = 0; i < f.count && !stopped; i++)
        stopped = callback(&ss_frames_at(&f, i)->frame, data) != 0;
    ss_frames_end(&f);
    return stopped ? S_FALSE : S_OK;
}

const char *stacksplice_lines_missing(void)
{
    return ss_debug_load() ? NULL : ss_debug_missing();
}

/* ---- Binaries that are not loaded ------------------------------------------------------------*/

static stacksplice_hresult resolve_in_file(const char *path, const char *build_id, uint64_t offset,
                                           bool symbol_alone, stacksplice_frame_callback callback,
                                           void *data)
{
    native_answer *answer;
    stacksplice_hresult hr;

    if (!path || !callback)
        return E_POINTER;
    if (!offset || offset > UINTPTR_MAX)
        return E_INVALIDARG;
    if (!ss_debug_load())
        return ss_debug_missing() ? __HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND) : E_OUTOFMEMORY;
    answer =
        find_answer_in_file(path, build_id ? build_id : "", (uintptr_t)offset, symbol_alone, &hr);
    if (!answer)
        return hr;
    for (uint32_t i = 0; i < answer->count && hr == S_OK; i++) {
        if (callback(&answer->frames[i].frame, data))
            hr = S_FALSE;
    }
    unref(answer);
    return hr;
}

stacksplice_hresult stacksplice_resolve_file(const char *path, const char *build_id,
                                             uint64_t offset, stacksplice_frame_callback callback,
                                             void *data)
{
    return resolve_in_file(path, build_id, offset, false, callback, data);
}

stacksplice_hresult stacksplice_resolve_symbol(const char *path, const char *build_id,
                                               uint64_t offset, stacksplice_frame_callback callback,
                                               void *data)
{
    return resolve_in_file(path, build_id, offset, true, callback, data);
}
