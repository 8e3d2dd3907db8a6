/*
 * Names of tokens for debuggers that know nothing of us, by gdb's interface for compilers that make
 * code at run time: an ELF file in memory, whose symbols are the tokens, is linked into a list that
 * the debugger knows by name.  It stops at a function that we call when the list changes.
 */
#include "base/alloc.h"
#include "base/keep.h"
#include "base/thread.h"
#include "splice/hash.h"
#include "splice/pool.h"
#include "splice/token.h"
#include "splice/unloaded.h"

#include <stacksplice/debugger.h>
#include <elf.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if UINTPTR_MAX > 0xffffffffu

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

/* ---- The interface of the debugger, whose names and layout are fixed -------------------------*/

enum { JIT_VERSION = 1, JIT_REGISTER = 1, JIT_UNREGISTER = 2 };

typedef struct jit_entry {
    struct jit_entry *next, *previous;
    const void *file;
    uint64_t size;
} jit_entry;

typedef struct jit_descriptor {
    uint32_t version, action;
    jit_entry *relevant, *first;
} jit_descriptor;

/* Not exported, so that no compiler in this process shares them without sharing our lock. */
extern jit_descriptor __jit_debug_descriptor;
extern void __jit_debug_register_code(void);

__attribute__((used)) jit_descriptor __jit_debug_descriptor = {.version = JIT_VERSION};

__attribute__((used, noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

/* ---- The file --------------------------------------------------------------------------------*/

enum { TEXT = 1, SYMBOLS, STRINGS, SECTION_NAMES, SECTIONS };

static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

typedef struct image {
    jit_entry entry;
    Elf64_Ehdr header;
    Elf64_Shdr sections[SECTIONS];
    char section_names[sizeof section_names];
    _Alignas(8) Elf64_Sym symbols[];
    /* then the strings */
} image;

typedef struct filling {
    image *into; /* NULL: count only */
    size_t symbols, most_symbols;
    size_t bytes, most_bytes; /* of strings; the first is empty, as is the first symbol */
    uintptr_t low, high;
} filling;

static char *strings_of(const filling *f)
{
    return (char *)&f->into->symbols[f->most_symbols];
}

static size_t name_of(uintptr_t token, char *out, size_t size)
{
    char buffer[SS_TOKEN_ROOM];
    stacksplice_token_info info;
    int length;

    (void)ss_token_read(token, &info, buffer, sizeof buffer);
    if (info.kind == STACKSPLICE_FRAME_GAP)
        length = snprintf(out, size, "[gap: %s]", info.reason ? info.reason : "?");
    else
        length = snprintf(out, size, "%s (%s:%u)", info.function ? info.function : "?",
                          info.file ? info.file : "?", (unsigned)info.line);
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

/* Add TOKEN; what was recorded since the room was counted is left out. */
static void add(filling *f, uintptr_t token)
{
    char name[SS_TOKEN_ROOM + 64];
    size_t length = name_of(token, name, sizeof name) + 1;

    if (f->into && (f->symbols == f->most_symbols || length > f->most_bytes - f->bytes))
        return;
    if (f->into) {
        memcpy(strings_of(f) + f->bytes, name, length);
        f->into->symbols[f->symbols] = (Elf64_Sym){.st_name = (Elf64_Word)f->bytes,
                                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                                   .st_shndx = TEXT,
                                                   .st_value = token,
                                                   .st_size = 1};
    }
    f->symbols++;
    f->bytes += length;
    f->low = token < f->low ? token : f->low;
    f->high = token > f->high ? token : f->high;
}

static void add_all(filling *f)
{
    f->symbols = f->bytes = 1;
    f->low = UINTPTR_MAX;
    for (uint64_t id = 0; id < SS_TOKEN_FIXED_COUNT; id++)
        add(f, ss_token_of(id));
    for (uint32_t i = 0; i < SS_POOL_CELLS; i++) {
        const ss_cell *cell = ss_row_cell(i);
        uint64_t state = cell ? atomic_load_explicit(&cell->state, memory_order_acquire) : 0;

        if (state & 1)
            add(f, ss_token_of((state >> 1) * SS_POOL_CELLS + i));
    }
}

/* Where MEMBER is in the file, which begins with its header. */
static Elf64_Off offset_of(const image *made, const void *member)
{
    return (Elf64_Off)((const char *)member - (const char *)&made->header);
}

static void describe(image *made, const filling *f)
{
    Elf64_Shdr *s = made->sections;

    made->header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = MACHINE,
        .e_version = EV_CURRENT,
        .e_shoff = offset_of(made, made->sections),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = SECTIONS,
        .e_shstrndx = SECTION_NAMES};
    memcpy(made->section_names, section_names, sizeof section_names);
    s[TEXT] = (Elf64_Shdr){.sh_name = 1,
                           .sh_type = SHT_NOBITS,
                           .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                           .sh_addr = f->low,
                           .sh_size = f->high - f->low + 1,
                           .sh_addralign = 1};
    s[SYMBOLS] = (Elf64_Shdr){.sh_name = 7,
                              .sh_type = SHT_SYMTAB,
                              .sh_offset = offset_of(made, made->symbols),
                              .sh_size = f->symbols * sizeof(Elf64_Sym),
                              .sh_link = STRINGS,
                              .sh_info = 1,
                              .sh_addralign = 8,
                              .sh_entsize = sizeof(Elf64_Sym)};
    s[STRINGS] = (Elf64_Shdr){.sh_name = 15,
                              .sh_type = SHT_STRTAB,
                              .sh_offset = offset_of(made, strings_of(f)),
                              .sh_size = f->bytes,
                              .sh_addralign = 1};
    s[SECTION_NAMES] = (Elf64_Shdr){.sh_name = 23,
                                    .sh_type = SHT_STRTAB,
                                    .sh_offset = offset_of(made, made->section_names),
                                    .sh_size = sizeof section_names,
                                    .sh_addralign = 1};
    made->entry.file = &made->header;
    made->entry.size = offset_of(made, strings_of(f)) + f->most_bytes;
}

/* The file of all tokens; NULL without memory. */
static image *make(void)
{
    filling f = {0};

    add_all(&f);
    f.most_symbols = f.symbols;
    f.most_bytes = f.bytes;
    f.into = ss_alloc(1, sizeof *f.into + f.most_symbols * sizeof(Elf64_Sym) + f.most_bytes);
    if (!f.into)
        return NULL;
    add_all(&f);
    describe(f.into, &f);
    return f.into;
}

/* ---- The list --------------------------------------------------------------------------------*/

SS_LOCK(names_lock);
static image *registered; /* (LOCK names_lock) the one file in the list */

static void tell(uint32_t action, image *about)
{
    __jit_debug_descriptor.action = action;
    __jit_debug_descriptor.relevant = &about->entry;
    __jit_debug_register_code();
}

stacksplice_hresult stacksplice_register_debugger_names(void)
{
    image *made = make(), *old;

    if (!made)
        return E_OUTOFMEMORY;
    if (!ss_lock_take(&names_lock)) {
        ss_free(made);
        return E_FAIL; /* a signal came in the middle of a call */
    }
    old = registered;
    registered = made;
    __jit_debug_descriptor.first = NULL;
    if (old)
        tell(JIT_UNREGISTER, old);
    __jit_debug_descriptor.first = &made->entry;
    tell(JIT_REGISTER, made);
    ss_lock_drop(&names_lock);
    ss_free(old);
    return S_OK;
}

#else /* gdb takes no 64-bit file in a process of 32 bits, and tokens are elsewhere there */

stacksplice_hresult stacksplice_register_debugger_names(void)
{
    return E_NOTIMPL;
}

#endif

/* ---- Function name ---------------------------------------------------------------------------*/

/* The names scripts use for machine code. */

enum { BUCKETS = 1 << 14, MAX_NAMES = 1 << 20, LONGEST_NAME = 4095 };

/* Never changed or freed, so readers need no lock. */
typedef struct entry {
    struct entry *next;
    uintptr_t function;
    uint64_t epoch; /* of its code: see ss_settle */
    char name[];
} entry;

static _Atomic(entry *) buckets[BUCKETS]; /* (ATOMIC) grow only, at their heads */
static _Atomic uint32_t count;            /* (ATOMIC) */

static _Atomic(entry *) *bucket_of(uintptr_t function)
{
    return &buckets[ss_hash_words(&function, 1) % BUCKETS];
}

/* Whether the code that E names is still the one at its address. */
static bool stays(const entry *e)
{
    uintptr_t inside = e->function + 1;

    (void)ss_settle(&inside, 1, e->epoch);
    return inside == e->function + 1;
}

/* Search from E to END. */
static const entry *find(const entry *e, const entry *end, uintptr_t function)
{
    while (e != end && !(e->function == function && stays(e)))
        e = e->next;
    return e != end ? e : NULL;
}

static const entry *look_up(uintptr_t function)
{
    return find(atomic_load_explicit(bucket_of(function), memory_order_acquire), NULL, function);
}

const char *ss_function_name(uintptr_t function)
{
    const entry *found = look_up(function);

    return found && *found->name ? found->name : NULL;
}

stacksplice_hresult stacksplice_name_function(uintptr_t function, const char *language,
                                              const char *name)
{
    _Atomic(entry *) *bucket = bucket_of(function);
    const entry *seen = NULL; /* all entries from here on are of other functions */
    uint64_t epoch;
    size_t size;
    entry *e;

    if (!function || !language || !name)
        return E_POINTER;
    epoch = ss_code_epoch();
    if (look_up(function))
        return S_FALSE;
    if (atomic_fetch_add(&count, 1) >= MAX_NAMES) {
        atomic_fetch_sub(&count, 1);
        return E_OUTOFMEMORY;
    }
    size = strnlen(name, LONGEST_NAME);
    e = ss_keep(sizeof *e + size + 1);
    if (!e) {
        atomic_fetch_sub(&count, 1);
        return E_OUTOFMEMORY;
    }
    e->function = function;
    e->epoch = epoch;
    memcpy(e->name, name, size);
    e->name[size] = 0;
    e->next = atomic_load(bucket);
    do {
        if (find(e->next, seen, function)) {
            atomic_fetch_sub(&count, 1);
            return S_FALSE;
        }
        seen = e->next;
    } while (!atomic_compare_exchange_weak(bucket, &e->next, e));
    return S_OK;
}
