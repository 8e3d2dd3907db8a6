/*
 * Debug information through elfutils' libdw.  It is loaded when the first native address is
 * resolved and never linked, so the core works without it.
 *
 * A session (Dwfl) holds only the modules that were requested, one by one.  Reporting all modules
 * of a large process takes longer than a first answer may.
 */
#include "resolve/debuginfo.h"

#include "base/alloc.h"
#include "resolve/libdw.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct known_module {
    uintptr_t start;
    uintptr_t bias;
    Dwfl_Module *module; /* NULL: nothing usable on disk */
} known_module;

/* (LOCK of resolve.c) everything below */
static const ss_libdw *dw;
static Dwfl *session;
static uint64_t session_generation;
static known_module *known;
static size_t known_count, known_room;
typedef struct opened_file {
    int fd;
    dev_t device;
    ino_t inode;
} opened_file;
enum { OPEN_MAX_NOTED = 64 };
static opened_file opened[OPEN_MAX_NOTED]; /* separate debug files */
static size_t opened_count;
static bool broken; /* libdw ran out of memory half-way: never call it again */
static jmp_buf out_of_memory;

/* ---- Files -----------------------------------------------------------------------------------*/

/*
 * Search by build-id only: a wider search could ask a debuginfod server.  libdw keeps the file
 * open, so record it: a host that closes all descriptors, as daemons do, may reuse the number.
 */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **out)
{
    int fd = dw->dwfl_build_id_find_debuginfo(module, data, name, base, file, link, crc, out);
    struct stat status;

    if (fd < 0)
        return fd;
    if (opened_count == OPEN_MAX_NOTED || fstat(fd, &status)) {
        close(fd);
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    opened[opened_count++] = (opened_file){fd, status.st_dev, status.st_ino};
    return fd;
}

static bool are_still_ours(void)
{
    for (size_t i = 0; i < opened_count; i++) {
        struct stat status;

        if (fstat(opened[i].fd, &status) || status.st_dev != opened[i].device ||
            status.st_ino != opened[i].inode)
            return false;
    }
    return true;
}

/*
 * Whether FD can be a file that a process maps.  For an object file (ET_REL), libdw asks for the
 * address of each section, which we cannot answer.
 */
static bool can_be_mapped(int fd)
{
    unsigned char begin[EI_NIDENT + sizeof(Elf64_Half)];
    struct stat status;
    Elf64_Half type;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
        pread(fd, begin, sizeof begin, 0) != (ssize_t)sizeof begin)
        return false;
    memcpy(&type, begin + EI_NIDENT, sizeof type);
    return type == ET_EXEC || type == ET_DYN;
}

/* Map the binary itself and close its descriptor at once.  Opens only regular files. */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                    char **file, Elf **elf)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    (void)module, (void)data, (void)base, (void)file;
    if (fd < 0)
        return -1;
    if (can_be_mapped(fd)) {
        *elf = dw->elf_begin(fd, LIBELF_READ_MMAP_PRIVATE, NULL);
        if (*elf && dw->elf_cntl(*elf, LIBELF_FDREAD)) { /* no longer needs the descriptor */
            dw->elf_end(*elf);
            *elf = NULL;
        }
    }
    close(fd);
    return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debuginfo,
};

static void forget_all(void)
{
    if (session && !broken && are_still_ours())
        dw->dwfl_end(session); /* otherwise leak it: it would close a descriptor of the host */
    opened_count = 0;
    session = NULL;
    ss_free(known);
    known = NULL;
    known_count = known_room = 0;
}

void ss_debug_refresh(uint64_t generation)
{
    if (generation != session_generation)
        forget_all();
    session_generation = generation;
}

void ss_debug_close(void)
{
    forget_all();
    broken = true;
}

/* libdw ends the process when an allocation fails, unless we jump out of it. */
__attribute__((noreturn)) static void leave_libdw(void)
{
    longjmp(out_of_memory, 1);
}

static bool same_build(Dwfl_Module *found, const ss_binary *module)
{
    const unsigned char *bits;
    GElf_Addr at;
    int length = dw->dwfl_module_build_id(found, &bits, &at);

    if (length <= 0)
        return !*module->build_id;
    if (strlen(module->build_id) != 2 * (size_t)length)
        return false;
    for (int i = 0; i < length; i++) {
        if (module->build_id[2 * i] != "0123456789abcdef"[bits[i] >> 4] ||
            module->build_id[2 * i + 1] != "0123456789abcdef"[bits[i] & 15])
            return false;
    }
    return true;
}

/*
 * The file on disk may have been replaced since it was mapped; then it does not describe the
 * module.
 */
static Dwfl_Module *report(const ss_binary *module)
{
    Dwfl_Module *found;
    GElf_Addr bias;

    if (!*module->path)
        return NULL;
    dw->dwfl_report_begin_add(session);
    found = dw->dwfl_report_module(session, module->path, module->start, module->end);
    dw->dwfl_report_end(session, NULL, NULL);
    if (!found || !dw->dwfl_module_getelf(found, &bias) || bias != module->bias ||
        !same_build(found, module))
        return NULL;
    return found;
}

void ss_debug_make_room(void)
{
    known_module *grown;

    if (known_count < known_room)
        return;
    grown = ss_realloc(known, known_room + 8, sizeof *known);
    if (!grown)
        return;
    known = grown;
    known_room += 8;
}

static Dwfl_Module *module_for(const ss_binary *module)
{
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].start == module->start && known[i].bias == module->bias)
            return known[i].module;
    }
    if (!session && dw->elf_version(EV_CURRENT) != EV_NONE)
        session = dw->dwfl_begin(&callbacks);
    if (!session || known_count == known_room)
        return NULL;
    known[known_count] = (known_module){module->start, module->bias, report(module)};
    return known[known_count++].module;
}

static void find_symbol(Dwfl_Module *module, uintptr_t address, ss_debug_answer *answer)
{
    GElf_Sym symbol;
    GElf_Off offset;
    const char *name =
        dw->dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);

    if (name && *name && (!symbol.st_size || offset < symbol.st_size)) {
        answer->symbol = name;
        answer->symbol_start = address - (uintptr_t)offset;
    }
}

/* Find a unit without an entry in .debug_aranges (clang writes none) by its own ranges. */
static Dwarf_Die *unit_of(Dwfl_Module *module, uintptr_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = dw->dwfl_module_addrdie(module, address, bias);

    if (unit)
        return unit;
    while ((unit = dw->dwfl_module_nextcu(module, unit, bias)) != NULL) {
        if (dw->dwarf_haspc(unit, address - *bias) > 0)
            return unit;
    }
    return NULL;
}

static void find_line(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_frame *frame)
{
    Dwarf_Line *line = dw->dwarf_getsrc_die(unit, address);
    const char *file = line ? dw->dwarf_linesrc(line, NULL, NULL) : NULL;
    int number = 0, column = 0;

    if (!file || dw->dwarf_lineno(line, &number) || number <= 0)
        return;
    frame->file = file;
    frame->line = (uint32_t)number;
    if (!dw->dwarf_linecol(line, &column) && column > 0)
        frame->column = (uint32_t)column;
}

static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name =
        dw->dwarf_formstring(dw->dwarf_attr_integrate(die, DWARF_linkage_name, &attribute));

    return name ? name : dw->dwarf_diename(die);
}

static uint32_t number_of(Dwarf_Die *die, unsigned attribute_name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    if (dw->dwarf_formudata(dw->dwarf_attr_integrate(die, attribute_name, &attribute), &value) ||
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
    if (frame->line && !dw->dwarf_getsrcfiles(unit, &files, &count) && file < count)
        frame->file = dw->dwarf_filesrc(files, file, NULL, NULL);
}

/* SCOPES are the scopes around the address, innermost first. */
static void add_functions(Dwarf_Die *unit, Dwarf_Die *scopes, int count, ss_debug_answer *answer)
{
    for (int i = 0; i < count; i++) {
        int tag = dw->dwarf_tag(&scopes[i]);
        ss_debug_frame *frame = &answer->frames[answer->count];

        if (tag != DWARF_inlined_subroutine && tag != DWARF_subprogram)
            continue;
        frame->function = function_name(&scopes[i]);
        answer->count++;
        if (tag == DWARF_subprogram || answer->count == SS_INLINE_MAX)
            return;
        find_call(unit, &scopes[i], frame + 1);
    }
}

static void find_functions(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_answer *answer)
{
    Dwarf_Die *around = NULL, *parents = NULL;
    int count = 0;

    /*
     * The first call finds the innermost scope, but its parents are those of the source.  The
     * second call finds the parents in the machine code.
     */
    if (dw->dwarf_getscopes(unit, address, &around) > 0)
        count = dw->dwarf_getscopes_die(&around[0], &parents);
    if (count > 0)
        add_functions(unit, parents, count, answer);
    free(parents);
    free(around);
}

static void lookup(const ss_binary *module, uintptr_t address,
                   bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    Dwfl_Module *found = module_for(module);
    Dwarf_Addr bias;
    Dwarf *dwarf;
    Dwarf_Die *unit;

    if (!found)
        return;
    find_symbol(found, address, answer);
    if (is_enough && answer->symbol && is_enough(answer->symbol))
        return;
    dwarf = dw->dwfl_module_getdwarf(found, &bias);
    if (!dwarf)
        return;
    dw->dwarf_new_oom_handler(dwarf, leave_libdw);
    unit = unit_of(found, address, &bias);
    if (!unit)
        return;
    find_line(unit, address - bias, &answer->frames[0]);
    find_functions(unit, address - bias, answer);
    if (!answer->count && answer->frames[0].file)
        answer->count = 1;
}

void ss_debug_lookup(const ss_binary *module, uintptr_t address,
                     bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    if (broken)
        return;
    dw = ss_libdw_functions();
    if (setjmp(out_of_memory)) {
        broken = true; /* its structures may be half-built: never touch them again */
        memset(answer, 0, sizeof *answer);
        return;
    }
    lookup(module, address, is_enough, answer);
}
