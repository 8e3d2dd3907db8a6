/*
 * Debug information through elfutils' libdw.  It is loaded when the first native address is
 * resolved and never linked, so the core works without it.
 *
 * Each file has a session (Dwfl) of its own, in which it lies as if it were loaded: at the addresses
 * that its program headers name.  Only files that are asked for are opened: all modules of a large
 * process would take longer than a first answer may.
 */
#include "base/alloc.h"
#include "resolve/debuginfo.h"
#include "resolve/libdw.h"
#include "resolve/resolve.h"
#include "splice/unloaded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * Whether a file on disk is the one that was loaded, where no build-id tells.  The kernel names a
 * mapping as it names an open file, with a mark behind what was deleted or replaced.
 */

enum { LONGEST = SS_BINARY_PATH_MAX + 128 };

/* The kernel's name of the file at PATH; false if it cannot be opened. */
static bool name_of_file(const char *path, char name[LONGEST])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char link[32];
    ssize_t length;

    if (fd < 0)
        return false;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, name, LONGEST - 1);
    close(fd);
    name[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* Whether ADDRESS has a mapping of the file NAME; true where the kernel does not tell. */
static bool is_mapped_at(uintptr_t address, const char *name)
{
    static char line[2 * LONGEST]; /* (LOCK of resolve.c) */
    FILE *maps = fopen("/proc/self/maps", "re");
    bool is_same = true;

    while (maps && fgets(line, sizeof line, maps)) {
        char *at;
        uintptr_t start = strtoul(line, &at, 16);
        int skipped = 0;

        if (address < start || *at != '-' || address >= strtoul(at + 1, &at, 16))
            continue;
        (void)sscanf(at, "%*s %*s %*s %*s %n", &skipped); /* rights, offset, device, inode */
        line[strcspn(line, "\n")] = 0;
        is_same = !strcmp(at + skipped, name);
        break;
    }
    if (maps)
        (void)fclose(maps);
    return is_same;
}

/* ---- What is kept of a file -------------------------------------------------------------------*/

enum { SS_FILES = 64, SS_DEBUG_FILES = 8, PAGE = 4096 }; /* a stack has seldom code of more */

/* A file in libdw, and the separate debug files that libdw keeps open for it. */
typedef struct kept_file {
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: libdw cannot read it */
    uint64_t start;      /* its load address, as libdw counts */
    uint64_t size;
    struct stat status;  /* another one is another file */
    uintptr_t mapped_at; /* where the mapping is known to be of this file, or 0 */
    uint32_t opened_count;
    struct {
        int fd;
        dev_t device;
        ino_t inode;
    } opened[SS_DEBUG_FILES];
    char path[SS_BINARY_PATH_MAX];
} kept_file;

/* (LOCK of resolve.c) */
static kept_file kept[SS_FILES];
static uint32_t next_file;
static kept_file *reading; /* which libdw reads now */

/* ---- Loading libdw ----------------------------------------------------------------------------*/

#define NAME(result, name, parameters) #name,
static const char *const names[] = {LIBDW_FUNCTIONS(NAME)};

static _Atomic(ss_libdw *) loaded; /* (ATOMIC) lives as long as the process */
static atomic_bool missing;        /* (ATOMIC) it is not installed */

/* Fill FUNCTIONS from LIBRARY; false if one is missing. */
static bool find_functions_of(void *library, ss_libdw *functions)
{
    for (size_t i = 0; i < SS_COUNT_OF(names); i++) {
        void *function = dlsym(library, names[i]);

        if (!function)
            return false;
        memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    }
    return true;
}

static void open_libdw(void *library)
{
    *(void **)library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
}

bool ss_debug_load(void)
{
    ss_libdw *functions, *none = NULL;
    void *library;

    if (atomic_load_explicit(&loaded, memory_order_acquire))
        return true;
    if (atomic_load_explicit(&missing, memory_order_relaxed))
        return false;
    functions = ss_alloc(1, sizeof *functions);
    if (!functions)
        return false;
    if (!ss_large_stack_call(open_libdw, &library)) {
        ss_free(functions);
        return false;
    }
    if (!library || !find_functions_of(library, functions)) {
        atomic_store_explicit(&missing, true, memory_order_relaxed);
        ss_free(functions);
        return false;
    }
    /* Two threads may get here; both tables are the same. */
    if (!atomic_compare_exchange_strong(&loaded, &none, functions))
        ss_free(functions);
    return true;
}

/* In the words of a system that usually has this C library. */
#ifdef __GLIBC__
#define PACKAGE "Debian package: libdw1"
#else
#define PACKAGE "Alpine package: elfutils"
#endif

const char *ss_debug_missing(void)
{
    return atomic_load_explicit(&missing, memory_order_relaxed) ? "libdw.so.1 not found (" PACKAGE
                                                                  ")"
                                                                : NULL;
}

/* ---- Calls that may run out of memory ---------------------------------------------------------*/

static const ss_libdw *ss_dw; /* (LOCK of resolve.c), as everything below */
static bool broken;           /* libdw ran out of memory half-way: never call it again */
static jmp_buf out_of_memory;

/* libdw ends the process when an allocation fails, unless this leaves it for ss_debug_lookup. */
static __attribute__((noreturn)) void leave(void)
{
    longjmp(out_of_memory, 1);
}

/* ---- Debug files that are open ----------------------------------------------------------------*/

/*
 * Note FD, which libdw is going to keep open: a host that closes all descriptors, as daemons do,
 * may reuse the number.  Returns FD, or -1 after closing it.
 */
static int note_opened(kept_file *file, int fd)
{
    struct stat status;

    if (fd < 0)
        return fd;
    if (file->opened_count == SS_DEBUG_FILES || fstat(fd, &status)) {
        close(fd);
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    file->opened[file->opened_count].fd = fd;
    file->opened[file->opened_count].device = status.st_dev;
    file->opened[file->opened_count].inode = status.st_ino;
    file->opened_count++;
    return fd;
}

static bool are_still_ours(const kept_file *file)
{
    for (uint32_t i = 0; i < file->opened_count; i++) {
        struct stat status;

        if (fstat(file->opened[i].fd, &status) || status.st_dev != file->opened[i].device ||
            status.st_ino != file->opened[i].inode)
            return false;
    }
    return true;
}

/* Forget FILE, and close what libdw has of it, unless that would close a descriptor of the host. */
static void forget(kept_file *file)
{
    if (file->dwfl && !broken && are_still_ours(file))
        ss_dw->dwfl_end(file->dwfl); /* otherwise leak it: it would close what is the host's */
    memset(file, 0, offsetof(kept_file, path) + 1);
}

/* ---- Files -----------------------------------------------------------------------------------*/

/* A descriptor of the regular file at PATH, or -1. */
static int open_regular(const char *path, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd >= 0 && (fstat(fd, status) || !S_ISREG(status->st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The addresses that the segments of a file take. */
typedef struct extent {
    uint64_t low, high;
} extent;

static bool is_ours(const Elf64_Ehdr *header)
{
    const uint16_t one = 1;
    const unsigned char order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

    return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == order &&
           (header->e_type == ET_DYN || header->e_type == ET_EXEC) &&
           header->e_phentsize == sizeof(Elf64_Phdr);
}

/* Read which addresses FD's segments take; false when it is no binary that can be loaded. */
static bool read_extent(int fd, extent *out)
{
    Elf64_Ehdr header;

    *out = (extent){UINT64_MAX, 0};
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || !is_ours(&header))
        return false;
    for (uint16_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);

        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type != PT_LOAD)
            continue;
        if (segment.p_memsz > UINT64_MAX - segment.p_vaddr)
            return false;
        if (segment.p_vaddr < out->low)
            out->low = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_memsz > out->high)
            out->high = segment.p_vaddr + segment.p_memsz;
    }
    out->low &= ~(uint64_t)(PAGE - 1); /* as in binary.c */
    return out->low < out->high;
}

/*
 * A Dwfl_Callbacks.find_elf: maps the binary itself and closes its descriptor at once.  Opens only
 * regular files.
 */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                    char **file, Elf **elf)
{
    struct stat status;
    extent addresses;
    int fd = open_regular(name, &status);

    (void)module, (void)data, (void)base, (void)file;
    if (fd < 0)
        return -1;
    if (read_extent(fd, &addresses)) { /* libdw would ask for addresses in an object file */
        *elf = ss_dw->elf_begin(fd, LIBELF_READ_MMAP_PRIVATE, NULL);
        if (*elf && ss_dw->elf_cntl(*elf, LIBELF_FDREAD)) { /* no longer needs the descriptor */
            ss_dw->elf_end(*elf);
            *elf = NULL;
        }
    }
    close(fd);
    return -1;
}

/* Whether FOUND has this build-id, in lower-case hexadecimal; empty is none. */
static bool has_build_id(Dwfl_Module *found, const char *build_id)
{
    const unsigned char *bits;
    GElf_Addr at;
    int length = ss_dw->dwfl_module_build_id(found, &bits, &at);

    if (length <= 0)
        return !*build_id;
    if (strlen(build_id) != 2 * (size_t)length)
        return false;
    for (int i = 0; i < length; i++) {
        if (build_id[2 * i] != "0123456789abcdef"[bits[i] >> 4] ||
            build_id[2 * i + 1] != "0123456789abcdef"[bits[i] & 15])
            return false;
    }
    return true;
}

/* ---- What libdw knows of an address in one module ---------------------------------------------*/

static void find_symbol(Dwfl_Module *module, uintptr_t address, ss_debug_answer *answer)
{
    GElf_Sym symbol;
    GElf_Off offset;
    const char *name =
        ss_dw->dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);

    if (name && *name && (!symbol.st_size || offset < symbol.st_size)) {
        answer->symbol = name;
        answer->symbol_start = address - (uintptr_t)offset;
    }
}

static bool has_address(Dwarf_Die *entry, Dwarf_Addr address)
{
    return ss_dw->dwarf_haspc(entry, address) > 0;
}

static bool has_ranges(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;

    return ss_dw->dwarf_attr_integrate(unit, DWARF_ranges, &attribute) ||
           ss_dw->dwarf_attr_integrate(unit, DWARF_low_pc, &attribute);
}

/*
 * The table of .debug_aranges has no entries for some units (clang writes none), and libdw takes
 * the unit before an address that is in no entry.  So the unit's own ranges decide.
 */
static Dwarf_Die *unit_of(Dwfl_Module *module, uintptr_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = ss_dw->dwfl_module_addrdie(module, address, bias);

    if (unit && (has_address(unit, address - *bias) || !has_ranges(unit)))
        return unit;
    unit = NULL;
    while ((unit = ss_dw->dwfl_module_nextcu(module, unit, bias)) != NULL) {
        if (has_address(unit, address - *bias))
            return unit;
    }
    return NULL;
}

static void find_line(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_frame *frame)
{
    Dwarf_Line *line = ss_dw->dwarf_getsrc_die(unit, address);
    const char *file = line ? ss_dw->dwarf_linesrc(line, NULL, NULL) : NULL;
    int number = 0, column = 0;

    if (!file || ss_dw->dwarf_lineno(line, &number) || number <= 0)
        return;
    frame->file = file;
    frame->line = (uint32_t)number;
    if (!ss_dw->dwarf_linecol(line, &column) && column > 0)
        frame->column = (uint32_t)column;
}

static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name =
        ss_dw->dwarf_formstring(ss_dw->dwarf_attr_integrate(die, DWARF_linkage_name, &attribute));

    return name ? name : ss_dw->dwarf_diename(die);
}

static uint32_t number_of(Dwarf_Die *die, unsigned attribute_name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (ss_dw->dwarf_formudata(ss_dw->dwarf_attr_integrate(die, attribute_name, &attribute),
                               &value) ||
        value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

/* Find where INLINED, an inlined function, was called: the location in the frame around it. */
static void find_call(Dwarf_Die *unit, Dwarf_Die *inlined, ss_debug_frame *frame)
{
    uint32_t file = number_of(inlined, DWARF_call_file);
    Dwarf_Files *files;
    size_t count;

    frame->line = number_of(inlined, DWARF_call_line);
    frame->column = number_of(inlined, DWARF_call_column);
    if (frame->line && !ss_dw->dwarf_getsrcfiles(unit, &files, &count) && file < count)
        frame->file = ss_dw->dwarf_filesrc(files, file, NULL, NULL);
}

/* ---- Functions around an address -------------------------------------------------------------*/

enum { NESTED = 256 }; /* scopes without a function between two functions */

/*
 * A walk down the entries of a unit.  Each comes behind all that were met before, as in the file; a
 * damaged file could send the walk back, and round for ever.
 */
typedef struct walk {
    Dwarf_Addr address;
    const void *last; /* the entry met last */
    uint32_t nested;
    bool everywhere;                    /* look into what does not have the address, too */
    uint32_t count;                     /* of functions around the address */
    Dwarf_Die functions[SS_INLINE_MAX]; /* the innermost of them, one after the other in a ring */
    Dwarf_Die outermost[2]; /* the function in machine code, and what is inlined there */
} walk;

static bool advance(walk *w, const Dwarf_Die *entry)
{
    if (entry->addr <= w->last)
        return false;
    w->last = entry->addr;
    return true;
}

/* Whether ENTRY is no function with the address, but functions in it may have it. */
static bool can_be_around(const walk *w, Dwarf_Die *entry, int tag)
{
    switch (tag) {
    case DWARF_namespace:
    case DWARF_module:
        return true;
    case DWARF_lexical_block:
    case DWARF_try_block:
    case DWARF_catch_block:
        return w->everywhere || has_address(entry, w->address);
    case DWARF_subprogram:
    case DWARF_class_type:
    case DWARF_structure_type:
    case DWARF_union_type:
        return w->everywhere;
    default:
        return false;
    }
}

/* Find the next function with the address within the entry WITHIN.  Blocks may overlap. */
static bool find_function(walk *w, Dwarf_Die *within, Dwarf_Die *found)
{
    Dwarf_Die entry;
    int end = ss_dw->dwarf_child(within, &entry);

    for (; !end && advance(w, &entry); end = ss_dw->dwarf_siblingof(&entry, &entry)) {
        int tag = ss_dw->dwarf_tag(&entry);
        bool inside = false;

        if ((tag == DWARF_subprogram || tag == DWARF_inlined_subroutine) &&
            has_address(&entry, w->address)) {
            *found = entry;
            return true;
        }
        if (w->nested < NESTED && can_be_around(w, &entry, tag)) {
            w->nested++;
            inside = find_function(w, &entry, found);
            w->nested--;
        }
        if (inside)
            return true;
    }
    return false;
}

static void add_met(walk *w, const Dwarf_Die *function)
{
    if (w->count < SS_COUNT_OF(w->outermost))
        w->outermost[w->count] = *function;
    w->functions[w->count++ % SS_INLINE_MAX] = *function;
}

/* Where each function was called is the location in the frame around it.  Of too many the innermost
   and the outermost are kept, with a gap between them. */
static void add_functions(Dwarf_Die *unit, walk *w, ss_debug_answer *answer)
{
    uint32_t inner = w->count <= SS_INLINE_MAX ? w->count : SS_INLINE_MAX - 2;

    for (; inner; inner--) {
        Dwarf_Die *function = &w->functions[--w->count % SS_INLINE_MAX];
        ss_debug_frame *frame = &answer->frames[answer->count++];

        frame->function = function_name(function);
        if (w->count)
            find_call(unit, function, frame + 1);
    }
    if (!w->count)
        return;
    answer->frames[answer->count++] = (ss_debug_frame){.is_gap = true};
    find_call(unit, &w->outermost[1], &answer->frames[answer->count]);
    answer->frames[answer->count++].function = function_name(&w->outermost[0]);
}

/*
 * libdw's dwarf_getscopes does not find functions in namespaces, where clang puts them, and none
 * around an inlined function of another unit, which link-time optimisation makes.  The functions of a
 * local class, and of a lambda that is passed as a plain pointer, lie where g++ read them: within the
 * function around them in the source, which does not have their addresses.
 */
static void find_functions(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_answer *answer)
{
    walk w = {.address = address};
    Dwarf_Die within = *unit;
    bool found = find_function(&w, &within, &within);

    if (!found) {
        w = (walk){.address = address, .everywhere = true};
        found = find_function(&w, &within, &within);
        w.everywhere = false;
    }
    for (; found; found = find_function(&w, &within, &within)) {
        if (ss_dw->dwarf_tag(&within) == DWARF_subprogram)
            w.count = 0; /* nested in the source only: nothing called it here */
        add_met(&w, &within);
    }
    add_functions(unit, &w, answer);
}

/* ---- Functions that are described in a file of their own ---------------------------------------*/

/* The name of the .dwo file of UNIT, made with -gsplit-dwarf; NULL for any other unit. */
static const char *split_name(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    const char *name =
        ss_dw->dwarf_formstring(ss_dw->dwarf_attr_integrate(unit, DWARF_dwo_name, &attribute));

    return name ? name
                : ss_dw->dwarf_formstring(
                      ss_dw->dwarf_attr_integrate(unit, DWARF_GNU_dwo_name, &attribute));
}

/* Whether the file NAME, as seen from the first LENGTH bytes of FOLDER, is a regular one or none. */
static bool is_harmless(const char *folder, size_t length, const char *name)
{
    static char path[2 * SS_BINARY_PATH_MAX]; /* (LOCK of resolve.c) */
    struct stat status;
    int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);

    return written > 0 && (size_t)written < sizeof path &&
           (stat(path, &status) || S_ISREG(status.st_mode));
}

/*
 * Find the description of UNIT's functions in the .dwo file NAME.  libdw looks for it beside the binary
 * and where it was compiled, and opens what is there: nothing but regular files, as everywhere.
 */
static bool open_split(Dwarf_Die *unit, const char *name, Dwarf_Die *split)
{
    const char *slash = strrchr(reading->path, '/');
    Dwarf_Attribute attribute;
    const char *folder =
        ss_dw->dwarf_formstring(ss_dw->dwarf_attr_integrate(unit, DWARF_comp_dir, &attribute));

    if ((*name == '/' && !is_harmless("", 0, name)) ||
        (folder && !is_harmless(folder, strlen(folder), name)) ||
        (slash && !is_harmless(reading->path, (size_t)(slash - reading->path), name)))
        return false;
    memset(split, 0, sizeof *split);
    if (ss_dw->dwarf_cu_info(unit->cu, NULL, NULL, NULL, split, NULL, NULL, NULL) || !split->addr ||
        !split->cu)
        return false;
    ss_dw->dwarf_new_oom_handler(ss_dw->dwarf_cu_getdwarf(split->cu), leave);
    return true;
}

/*
 * Find lines and functions of ADDRESS in UNIT.  The line alone is that of the innermost inlined function:
 * beside the name of a symbol it would be another function's.
 */
static void describe(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_answer *answer)
{
    const char *name = split_name(unit);
    Dwarf_Die split;

    find_line(unit, address, &answer->frames[0]);
    find_functions(name && open_split(unit, name, &split) ? &split : unit, address, answer);
    if (answer->count || !answer->frames[0].file)
        return;
    if (name)
        answer->frames[0] = (ss_debug_frame){.function = NULL};
    else
        answer->count = 1;
}

/* Find symbol, functions and lines of ADDRESS; see ss_debug_lookup. */
static void answer_from(Dwfl_Module *module, uintptr_t address,
                        bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    Dwarf_Addr bias;
    Dwarf *dwarf;
    Dwarf_Die *unit;

    find_symbol(module, address, answer);
    if (is_enough && is_enough(answer->symbol))
        return;
    dwarf = ss_dw->dwfl_module_getdwarf(module, &bias);
    if (!dwarf)
        return;
    ss_dw->dwarf_new_oom_handler(dwarf, leave);
    unit = unit_of(module, address, &bias);
    if (!unit)
        return;
    describe(unit, address - bias, answer);
}

/*
 * Separate debug files by the name and the checksum that a stripped binary has in .gnu_debuglink:
 * beside it, in .debug beside it, and below /usr/lib/debug.
 */

/* The checksum of Ethernet and zlib. */
static bool has_checksum(int fd, uint32_t wanted)
{
    static uint32_t table[256];    /* (LOCK of resolve.c) */
    static uint8_t bytes[1 << 16]; /* likewise */
    uint32_t sum = UINT32_MAX;
    ssize_t got;

    for (uint32_t i = 0; i < SS_COUNT_OF(table); i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 0xff];
    }
    return !got && ~sum == wanted && !lseek(fd, 0, SEEK_SET);
}

/* A descriptor of the debug file that BINARY names by LINK and CHECKSUM, or -1. */
static int ss_debuglink_open(const char *binary, const char *link, uint32_t checksum)
{
    static const char *const forms[] = {"%.*s%s", "%.*s.debug/%s", "/usr/lib/debug%.*s%s"};
    static char path[2 * SS_BINARY_PATH_MAX]; /* (LOCK of resolve.c) */
    const char *slash = binary ? strrchr(binary, '/') : NULL;
    struct stat status;
    int fd = -1;

    if (!link || !*link || strchr(link, '/') || !slash)
        return -1;
    for (size_t i = 0; i < SS_COUNT_OF(forms) && fd < 0; i++) {
        int length = snprintf(path, sizeof path, forms[i], (int)(slash + 1 - binary), binary, link);

        if (length > 0 && (size_t)length < sizeof path && strcmp(path, binary) != 0)
            fd = open_regular(path, &status);
        if (fd >= 0 && !has_checksum(fd, checksum)) {
            close(fd);
            fd = -1;
        }
    }
    return fd;
}

/* ---- Files ------------------------------------------------------------------------------------*/

/* Search by build-id, then by name: libdw's own wider search could ask a debuginfod server. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **out)
{
    int fd = ss_dw->dwfl_build_id_find_debuginfo(module, data, name, base, file, link, crc, out);

    return note_opened(reading, fd < 0 ? ss_debuglink_open(name, link, crc) : fd);
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debuginfo,
};

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* The kept file at PATH with that BUILD_ID, whatever is there now; or, if STATUS is not NULL, that
   one. */
static kept_file *find_kept(const char *path, const char *build_id, const struct stat *status)
{
    for (size_t i = 0; i < SS_FILES; i++) {
        kept_file *file = &kept[i];

        if (!strcmp(file->path, path) &&
            (status ? is_same(&file->status, status)
                    : *build_id && file->module && has_build_id(file->module, build_id)))
            return file;
    }
    return NULL;
}

/* Have libdw open FILE, whose segments are at ADDRESSES. */
static void begin(kept_file *file, const extent *addresses)
{
    Dwfl_Module *found;
    GElf_Addr bias;

    if (ss_dw->elf_version(EV_CURRENT) != EV_NONE)
        file->dwfl = ss_dw->dwfl_begin(&callbacks);
    if (!file->dwfl)
        return;
    ss_dw->dwfl_report_begin_add(file->dwfl);
    found = ss_dw->dwfl_report_module(file->dwfl, file->path, addresses->low, addresses->high);
    ss_dw->dwfl_report_end(file->dwfl, NULL, NULL);
    if (!found || !ss_dw->dwfl_module_getelf(found, &bias))
        return;
    file->module = found;
    file->start = addresses->low + bias;
    file->size = addresses->high - addresses->low;
}

/* Find what is at PATH now among the kept files, or open it in place of the oldest one. */
static ss_file_status open_file(const char *path, kept_file **out)
{
    struct stat status;
    extent addresses;
    bool readable;
    int fd;

    /* A report names what it likes, and to open a device is to act on it. */
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return SS_FILE_MISSING;
    *out = find_kept(path, "", &status);
    if (*out)
        return (*out)->module ? SS_FILE_READ : SS_FILE_NO_BINARY;
    fd = open_regular(path, &status);
    if (fd < 0)
        return SS_FILE_MISSING;
    readable = read_extent(fd, &addresses);
    close(fd);
    if (!readable)
        return SS_FILE_NO_BINARY;
    *out = &kept[next_file++ % SS_FILES];
    forget(*out);
    memcpy((*out)->path, path, strlen(path) + 1);
    (*out)->status = status;
    reading = *out;
    begin(*out, &addresses);
    return (*out)->module ? SS_FILE_READ : SS_FILE_NO_BINARY;
}

/* Whether FILE is the one that MODULE is of.  Without a build-id each fits that is not loaded. */
static bool is_of_module(kept_file *file, const ss_binary *module)
{
    static char name[LONGEST]; /* (LOCK of resolve.c) */

    if (!module->start && !*module->build_id)
        return true;
    if (!has_build_id(file->module, module->build_id))
        return false;
    if (*module->build_id)
        return true;
    if (!ss_met_file_stays(module->start + 1) ||
        (file->mapped_at != module->start && name_of_file(module->path, name) &&
         !is_mapped_at(module->start, name)))
        return false;
    file->mapped_at = module->start;
    return true;
}

/* ---- Looking up ------------------------------------------------------------------------------*/

typedef struct question {
    const ss_binary *module;
    uint64_t offset;
    bool (*is_enough)(const char *symbol);
    ss_debug_answer *answer;
    ss_file_status status;
} question;

static void look_up(question *q)
{
    kept_file *file = find_kept(q->module->path, q->module->build_id, NULL);

    q->status = file ? SS_FILE_READ : open_file(q->module->path, &file);
    if (q->status != SS_FILE_READ)
        return;
    reading = file;
    if (!is_of_module(file, q->module))
        q->status = SS_FILE_OTHER_BUILD;
    else if (q->offset < file->size)
        answer_from(file->module, file->start + q->offset, q->is_enough, q->answer);
    if (q->answer->symbol)
        q->answer->symbol_start -= file->start;
}

/* After libdw ran out of memory its structures may be half-built, and it is never called again. */
ss_file_status ss_debug_lookup(const ss_binary *module, uint64_t offset,
                               bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    question q = {module, offset, is_enough, answer, SS_FILE_READ};

    ss_dw = atomic_load_explicit(&loaded, memory_order_acquire);
    if (!broken) {
        if (!setjmp(out_of_memory)) { /* alone, as the C standard wants it */
            look_up(&q);
            return q.status;
        }
        broken = true;
    }
    memset(answer, 0, sizeof *answer);
    return SS_FILE_NO_MEMORY;
}

void ss_debug_forget(void)
{
    for (size_t i = 0; i < SS_FILES; i++)
        forget(&kept[i]);
}

void ss_debug_close(void)
{
    ss_debug_forget();
    broken = true; /* let nothing call libdw from now on */
}
