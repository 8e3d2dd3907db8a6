/* What libdw knows of an address in one module. */
#include "resolve/debuginfo_session.h"

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
    uint32_t count;                     /* of functions around the address */
    Dwarf_Die functions[SS_INLINE_MAX]; /* the innermost of them, one after the other in a ring */
} walk;

static bool advance(walk *w, const Dwarf_Die *entry)
{
    if (entry->addr <= w->last)
        return false;
    w->last = entry->addr;
    return true;
}

/* Whether ENTRY is none of a function, but functions in it may have the address. */
static bool can_be_around(const walk *w, Dwarf_Die *entry, int tag)
{
    if (tag == DWARF_namespace || tag == DWARF_module)
        return true;
    return (tag == DWARF_lexical_block || tag == DWARF_try_block || tag == DWARF_catch_block) &&
           has_address(entry, w->address);
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

/* Where each function was called is the location in the frame around it. */
static void add_functions(Dwarf_Die *unit, walk *w, ss_debug_answer *answer)
{
    while (w->count && answer->count < SS_INLINE_MAX) {
        Dwarf_Die *function = &w->functions[--w->count % SS_INLINE_MAX];
        ss_debug_frame *frame = &answer->frames[answer->count++];

        frame->function = function_name(function);
        if (!w->count || answer->count == SS_INLINE_MAX)
            return;
        find_call(unit, function, frame + 1);
    }
}

/*
 * libdw's dwarf_getscopes does not find functions in namespaces, where clang puts them, and none
 * around an inlined function of another unit, which link-time optimisation makes.
 */
static void find_functions(Dwarf_Die *unit, Dwarf_Addr address, ss_debug_answer *answer)
{
    walk w = {.address = address};
    Dwarf_Die within = *unit;

    while (find_function(&w, &within, &within)) {
        if (ss_dw->dwarf_tag(&within) == DWARF_subprogram)
            w.count = 0; /* nested in the source only: nothing called it here */
        w.functions[w.count++ % SS_INLINE_MAX] = within;
    }
    add_functions(unit, &w, answer);
}

void ss_debug_answer_from(Dwfl_Module *module, uintptr_t address,
                          bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    Dwarf_Addr bias;
    Dwarf *dwarf;
    Dwarf_Die *unit;

    find_symbol(module, address, answer);
    if (is_enough && answer->symbol && is_enough(answer->symbol))
        return;
    dwarf = ss_dw->dwfl_module_getdwarf(module, &bias);
    if (!dwarf)
        return;
    ss_dw->dwarf_new_oom_handler(dwarf, ss_debug_leave);
    unit = unit_of(module, address, &bias);
    if (!unit)
        return;
    find_line(unit, address - bias, &answer->frames[0]);
    find_functions(unit, address - bias, answer);
    if (!answer->count && answer->frames[0].file)
        answer->count = 1;
}
