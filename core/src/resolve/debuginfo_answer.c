/* What libdw knows of an address in one module. */
#include "resolve/debuginfo_session.h"

#include <stdlib.h>

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

/* Find a unit without an entry in .debug_aranges (clang writes none) by its own ranges. */
static Dwarf_Die *unit_of(Dwfl_Module *module, uintptr_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = ss_dw->dwfl_module_addrdie(module, address, bias);

    if (unit)
        return unit;
    while ((unit = ss_dw->dwfl_module_nextcu(module, unit, bias)) != NULL) {
        if (ss_dw->dwarf_haspc(unit, address - *bias) > 0)
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

/* SCOPES are the scopes around the address, innermost first. */
static void add_functions(Dwarf_Die *unit, Dwarf_Die *scopes, int count, ss_debug_answer *answer)
{
    for (int i = 0; i < count; i++) {
        int tag = ss_dw->dwarf_tag(&scopes[i]);
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
    if (ss_dw->dwarf_getscopes(unit, address, &around) > 0)
        count = ss_dw->dwarf_getscopes_die(&around[0], &parents);
    if (count > 0)
        add_functions(unit, parents, count, answer);
    free(parents);
    free(around);
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
