#include "unwind/modules.h"
#include "unwind/stack.h"
#include "unwind/walk.h"

#include <string.h>

/* ---- By a compact rule ------------------------------------------------------------------------*/

static bool read_return(const ss_unwind *walk, const ss_rule *rule, uintptr_t slots_base,
                        ss_caller *next)
{
    uintptr_t base = SS_RETURN_SAVED < 0 ? next->sp : slots_base;
    bool found;

    if (ss_rule_kind_of(rule->cfa) == SS_RULE_LEAF)
        found = ss_any_register(walk, walk->count - 1, SS_REGISTER_RA, &next->ip);
    else
        found = ss_read_word(walk, base - SS_WORD * ss_rule_return_slot(rule->slots), &next->ip);
    next->ip = ss_arch_code(next->ip);
    return found;
}

ss_verdict ss_step_compact(const ss_unwind *walk, const ss_rule *rule, ss_caller *next)
{
    uint32_t frame = walk->count - 1;
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);
    uintptr_t base = walk->frames[frame].sp;

    /* A call overwrites the link register: a frame that has made one has no return address there. */
    if (kind == SS_RULE_LEAF && frame && !(walk->frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL))
        return SS_STEP_BROKEN;
    *next = (ss_caller){.may_stay = kind == SS_RULE_LEAF};
    if (kind >= SS_RULE_FRAME && kind <= SS_RULE_AT_SAVED &&
        !ss_any_register(walk, frame, ss_saved_registers[ss_rule_base(rule->cfa)], &base))
        return SS_STEP_BROKEN;
    next->sp = base + ss_rule_offset(rule->cfa);
    if (kind != SS_RULE_AT_SAVED)
        base = next->sp;
    else if (!ss_read_word(walk, next->sp, &next->sp))
        return SS_STEP_BROKEN;
    return read_return(walk, rule, base, next) ? SS_STEP_ON : SS_STEP_BROKEN;
}

/* ---- Files ------------------------------------------------------------------------------------*/

/* An empty file for the caller; incrementing file_count commits it.  NULL without room. */
static ss_register_file *new_file(ss_unwind *walk)
{
    ss_register_file *file = &walk->table->files[walk->table->file_count];

    if (walk->table->file_count == walk->table->room.files)
        return NULL;
    file->frame = walk->count - 1;
    file->known = 0;
    return file;
}

/* ---- At the code that a signal handler returns to ---------------------------------------------*/

bool ss_is_sigreturn(uintptr_t address)
{
    return ss_is_readable(address) && ss_is_readable(address + SS_SIGRETURN_SIZE - 8) &&
           memcmp((const void *)address, ss_arch_sigreturn, SS_SIGRETURN_SIZE) == 0;
}

/*
 * The kernel's own page and musl have no unwind data for this code.  But the code is always the
 * same, and so is the layout of what the kernel saved above the stack pointer.
 */
static SS_COLD ss_verdict step_signal(ss_unwind *walk, ss_caller *next)
{
    const stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    ss_register_file *file = new_file(walk);

    if (!file)
        return SS_STEP_NO_ROOM;
    if (!ss_is_sigreturn(frame->ip))
        return SS_STEP_NO_DATA;
    *next = (ss_caller){.may_jump = true, .flags = STACKSPLICE_NATIVE_SIGNAL};
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (!ss_read_word(walk, frame->sp + ss_arch_signal_offset[i], &file->value[i]))
            return SS_STEP_BROKEN;
    if (!ss_read_word(walk, frame->sp + SS_SIGNAL_PC, &next->ip))
        return SS_STEP_BROKEN;
    next->ip++;
    next->sp = file->value[SS_REGISTER_SP];
    file->known = UINT32_MAX;
    walk->table->file_count++;
    return SS_STEP_ON;
}

/* ---- By a whole row ---------------------------------------------------------------------------*/

static bool get_register(const void *data, uint64_t number, uintptr_t *value)
{
    const ss_unwind *walk = data;

    return ss_any_register(walk, walk->count - 1, number, value);
}

/*
 * Code that switches stacks may keep what it restores on either stack, and no frame of the walk
 * covers the other one.  So check that memory before reading it.
 */
static bool get_memory(const void *data, uintptr_t address, uintptr_t *value)
{
    ss_unwind other = {.stack_count = 1};

    return ss_read_word(data, address, value) ||
           (ss_stack_find(address, &other.stacks[0]) && ss_is_readable(address) &&
            ss_read_word(&other, address, value));
}

static bool row_cfa(const ss_cfi_values *values, const ss_cfi_row *row, uintptr_t *cfa)
{
    if (row->cfa_expression.at)
        return ss_cfi_evaluate(row->cfa_expression, values, NULL, cfa);
    if (!values->get_register(values->data, row->cfa_register, cfa))
        return false;
    *cfa += (uintptr_t)row->cfa_offset;
    return true;
}

/* The caller's value of register NUMBER. */
static bool row_register(const ss_cfi_values *values, const ss_cfi_row *row, unsigned number,
                         uintptr_t cfa, uintptr_t *value)
{
    uintptr_t address = cfa + (uintptr_t)row->value[number];

    switch (row->kind[number]) {
    case SS_CFI_UNCHANGED:
        if (number == SS_REGISTER_SP) {
            *value = cfa;
            return true;
        }
        return (number != SS_REGISTER_RA || SS_RETURN_SAVED >= 0) &&
               values->get_register(values->data, number, value);
    case SS_CFI_AT_CFA:
        return values->get_memory(values->data, address, value);
    case SS_CFI_IN_REGISTER:
        return values->get_register(values->data, (uint64_t)row->value[number], value);
    case SS_CFI_AT_EXPRESSION:
        return ss_cfi_evaluate(ss_cfi_expression(row, number), values, &cfa, &address) &&
               values->get_memory(values->data, address, value);
    default:
        return false;
    }
}

ss_verdict ss_step_row(ss_unwind *walk, const ss_fde *fde, const ss_cfi_row *row, ss_caller *next)
{
    ss_cfi_values values = {get_register, get_memory, walk};
    bool switches = row->kind[SS_REGISTER_SP] == SS_CFI_AT_CFA; /* as setcontext does */
    ss_register_file *file = new_file(walk);
    uintptr_t cfa;

    if (!file)
        return SS_STEP_NO_ROOM;
    *next = (ss_caller){.may_jump = fde->signal_frame || switches};
    if (!row_cfa(&values, row, &cfa) || fde->return_register >= SS_REGISTER_COUNT)
        return SS_STEP_BROKEN;
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row_register(&values, row, i, cfa, &file->value[i]))
            file->known |= UINT32_C(1) << i;
    if (!(file->known >> fde->return_register & 1) || !(file->known >> SS_REGISTER_SP & 1))
        return SS_STEP_BROKEN;
    next->ip = ss_arch_code(file->value[fde->return_register]);
    next->sp = file->value[SS_REGISTER_SP];
    if (fde->signal_frame && next->ip) {
        next->ip++;
        next->flags = STACKSPLICE_NATIVE_SIGNAL;
    }
    walk->table->file_count++;
    return SS_STEP_ON;
}

static SS_COLD ss_verdict step_full(ss_unwind *walk, uintptr_t pc, ss_caller *next)
{
    ss_fde fde;
    ss_cfi_row row;
    ss_verdict found = ss_find_fde(pc, &fde);

    if (found != SS_STEP_ON)
        return found;
    if (SS_SIGNAL_MISLEADS && fde.signal_frame && step_signal(walk, next) == SS_STEP_ON)
        return SS_STEP_ON;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return SS_STEP_BROKEN;
    return ss_step_row(walk, &fde, &row, next);
}

ss_verdict ss_step(ss_unwind *walk, const ss_rule *rule, ss_caller *next)
{
    switch (ss_rule_kind_of(rule->cfa)) {
    case SS_RULE_END:
        return SS_STEP_END;
    case SS_RULE_FULL:
        return step_full(walk, walk->frames[walk->count - 1].ip - 1, next);
    default:
        return ss_step_compact(walk, rule, next);
    }
}

/* ---- Without unwind data ----------------------------------------------------------------------*/

/* SS_STEP_ON if a call in a loaded module returns to ADDRESS. */
static ss_verdict check_return_address(uintptr_t address)
{
    const uint8_t *low;

    switch (ss_module_code(address - 1, &low)) {
    case SS_MODULE_FOUND:
        return ss_arch_is_after_call(low, (const uint8_t *)address) ? SS_STEP_ON : SS_STEP_NO_DATA;
    case SS_MODULE_NONE:
        return SS_STEP_NO_DATA;
    default:
        return SS_STEP_UNASKED;
    }
}

/* ---- By the call before a return address ------------------------------------------------------*/

/*
 * Code without unwind data still lies in the function that was called.  So a word of the stack is its
 * return address if the call right before that address called just this function.
 */
enum {
    LEAF_SIZE = 256, /* how far into a leaf a signal may be: it is short */
    SEARCHED_WORDS = 256
};

/* The word at SLOT of a loaded module; 0: there is none. */
static uintptr_t word_of_module(uintptr_t slot)
{
    const uint8_t *low, *high;
    ss_module module;

    if (slot % SS_WORD || ss_module_find(slot, &module) != SS_MODULE_FOUND ||
        !ss_module_segment(&module, slot, 0, &low, &high) || (uintptr_t)high - slot < SS_WORD)
        return 0;
    return *(const uintptr_t *)slot;
}

/* The function that the call before ADDRESS called, if the call names it or a word of the loader; else 0. */
static uintptr_t called_before(uintptr_t address)
{
    const uint8_t *low;
    uintptr_t slot = 0, function;

    if (ss_module_code(address - 1, &low) != SS_MODULE_FOUND)
        return 0;
    function = ss_arch_called(low, (const uint8_t *)address, &slot);
    if (!slot && ss_module_code(function, &low) == SS_MODULE_FOUND &&
        ss_module_code(function + SS_STUB_SIZE, &low) == SS_MODULE_FOUND)
        slot = ss_arch_stub_slot((const uint8_t *)function);
    return slot ? word_of_module(slot) : function;
}

/* Whether FUNCTION and the code before IP, at most SIZE bytes behind, are of one segment. */
static bool may_hold(uintptr_t function, uintptr_t ip, uintptr_t size)
{
    const uint8_t *one, *other;

    return function && ip - 1 - function < size &&
           ss_module_code(function, &one) == SS_MODULE_FOUND &&
           ss_module_code(ip - 1, &other) == SS_MODULE_FOUND && one == other;
}

/*
 * In a leaf that a signal interrupted, the return address is where the call put it, and all registers
 * are still the caller's.
 */
static ss_verdict step_leaf(ss_unwind *walk, ss_caller *next)
{
    uint32_t frame = walk->count - 1;
    const stacksplice_native_frame *here = &walk->frames[frame];
    ss_register_file *file = new_file(walk);
    uintptr_t function;

    *next = (ss_caller){.sp = here->sp, .may_stay = true};
    if (!file || !(here->flags & STACKSPLICE_NATIVE_SIGNAL))
        return SS_STEP_NO_DATA;
    if (SS_RETURN_SAVED < 0) {
        if (!ss_read_word(walk, here->sp, &next->ip))
            return SS_STEP_NO_DATA;
        next->sp += SS_WORD;
    } else if (!ss_any_register(walk, frame, SS_REGISTER_RA, &next->ip)) {
        return SS_STEP_NO_DATA;
    }
    next->ip = ss_arch_code(next->ip);
    if (check_return_address(next->ip) != SS_STEP_ON)
        return SS_STEP_NO_DATA;
    function = called_before(next->ip);
    if (!may_hold(function, here->ip, LEAF_SIZE) || ss_arch_pushes((const void *)function))
        return SS_STEP_NO_DATA;
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (ss_any_register(walk, frame, ss_saved_registers[i],
                            &file->value[ss_saved_registers[i]]))
            file->known |= UINT32_C(1) << ss_saved_registers[i];
    walk->table->file_count++;
    return SS_STEP_ON;
}

/*
 * In an exported function it is the first such word outward of the frame's end: only a call of that very
 * function is trusted, for words that earlier calls left lie there too.  What the function saved is not
 * known: its caller has no registers but the stack pointer.
 */
static ss_verdict step_called(ss_unwind *walk, ss_caller *next)
{
    const stacksplice_native_frame *here = &walk->frames[walk->count - 1];
    ss_register_file *file = new_file(walk);
    uintptr_t at = here->sp, function;
    const char *name;
    ss_range own;

    *next = (ss_caller){.flags = 0};
    /* On other machines the stack pointer does not follow from where the return address is. */
    if (!file || SS_RETURN_SAVED >= 0 || !ss_symbol_find(here->ip - 1, &name, &function))
        return SS_STEP_NO_DATA;
    for (uint32_t i = 0; i < SEARCHED_WORDS && ss_read_word(walk, at, &next->ip); i++) {
        at += SS_WORD;
        /* Most words are no code, and many of them lie in this very stack. */
        if (next->ip < SS_READABLE_STEP || ss_own_stack_find(next->ip, &own) ||
            check_return_address(next->ip) != SS_STEP_ON || called_before(next->ip) != function)
            continue;
        next->sp = at;
        walk->table->file_count++;
        return SS_STEP_ON;
    }
    return SS_STEP_NO_DATA;
}

/* ---- By frame pointers -------------------------------------------------------------------------*/

/*
 * A frame pointer may point to words within the frame, as on aarch64.  Then only the caller's own
 * rule tells where the caller's frame starts.  Its frame pointer FP points to the like words of its
 * own, which lie at a known distance from its stack pointer:
 *
 *      CFA = FP + 8 * slot of the frame pointer,  sp = CFA - offset
 */
static bool sp_by_description(const ss_fde *fde, uintptr_t ip, uintptr_t fp, uintptr_t *sp)
{
    int saved = ss_saved_index(SS_REGISTER_FP);
    ss_cfi_row row;
    ss_rule rule;
    unsigned slot;

    if (!ss_cfi_row_at(fde, ip - 1, &row))
        return false;
    rule = ss_rule_from_row(fde, ip - 1, &row);
    slot = ss_rule_slot(rule.slots, saved);
    if (ss_rule_kind_of(rule.cfa) != SS_RULE_SP)
        return ss_rule_kind_of(rule.cfa) == SS_RULE_END ||
               (ss_rule_kind_of(rule.cfa) == SS_RULE_SAVED && ss_rule_base(rule.cfa) == saved);
    if (slot > SS_SLOT_MAX || slot != ss_rule_return_slot(rule.slots) + 1 ||
        fp + SS_WORD * slot - ss_rule_offset(rule.cfa) < *sp)
        return false;
    *sp = fp + SS_WORD * slot - ss_rule_offset(rule.cfa);
    return true;
}

static ss_verdict sp_by_rule(uintptr_t ip, uintptr_t fp, uintptr_t *sp)
{
    ss_fde fde;
    ss_verdict found = ss_find_fde(ip - 1, &fde);

    if (found == SS_STEP_NO_DATA)
        return SS_STEP_ON; /* only its frame pointer is needed later, not its stack pointer */
    if (found == SS_STEP_ON && !sp_by_description(&fde, ip, fp, sp))
        return SS_STEP_NO_DATA;
    return found;
}

/* Read the words that FP points to: the caller's frame pointer and the return address. */
static ss_verdict step_record(ss_unwind *walk, uintptr_t fp, ss_caller *next)
{
    ss_register_file *file = new_file(walk);
    ss_verdict found;
    uintptr_t *outer;

    if (!file)
        return SS_STEP_NO_DATA;
    outer = &file->value[SS_REGISTER_FP];
    *next = (ss_caller){.sp = fp + 2 * SS_WORD};
    if (!ss_read_word(walk, fp, outer) || !ss_read_word(walk, fp + SS_WORD, &next->ip))
        return SS_STEP_NO_DATA;
    next->ip = ss_arch_code(next->ip);
    found = check_return_address(next->ip);
    if (found == SS_STEP_ON)
        found = sp_by_rule(next->ip, *outer, &next->sp);
    if (found != SS_STEP_ON)
        return found;
    file->known = UINT32_C(1) << SS_REGISTER_FP;
    walk->table->file_count++;
    return SS_STEP_ON;
}

/*
 * Step by the frame pointer, if all evidence agrees: it points into the stack beyond this frame,
 * and the word above it is a return address that follows a call, which called no other code if it tells.
 * The word at it proves nothing, since the caller may use the register for something else.
 */
static ss_verdict step_frame_pointer(ss_unwind *walk, ss_caller *next)
{
    const stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    uintptr_t fp, called;
    ss_verdict found;

    if (!ss_any_register(walk, walk->count - 1, SS_REGISTER_FP, &fp) || fp % SS_WORD ||
        fp < frame->sp)
        return SS_STEP_NO_DATA;
    if (!SS_RECORD_IS_TOP)
        return step_record(walk, fp, next);
    if (ss_step_compact(walk, &walk->table->rules[0], next) != SS_STEP_ON)
        return SS_STEP_NO_DATA;
    found = check_return_address(next->ip);
    called = found == SS_STEP_ON ? called_before(next->ip) : 0;
    return called && !may_hold(called, frame->ip, UINTPTR_MAX) ? SS_STEP_NO_DATA : found;
}

/*
 * What makes a fiber's stack leaves no more than a record of its own above the code that enters the
 * fiber, as boost.context does.  That code is assembly, often without unwind data.
 */
#define MOST_ABOVE_FIRST 1024

SS_COLD bool ss_begins_added_stack(const ss_unwind *walk, uintptr_t sp, uintptr_t high)
{
    uintptr_t word;

    if (sp > high || high - sp > MOST_ABOVE_FIRST || !ss_stack_is_added(sp - 1))
        return false;
    for (; high - sp >= SS_WORD; sp += SS_WORD)
        if (!ss_read_word(walk, sp, &word) ||
            (word && check_return_address(ss_arch_code(word)) != SS_STEP_NO_DATA))
            return false;
    return true;
}

/* ---- Where the C library called the program ---------------------------------------------------*/

/*
 * musl describes none of its code.  It calls main and the functions of threads, next to the end of
 * their stacks, and outward of such a call no code is but the C library's and the program's entry.
 */
enum {
    OUTERMOST_WORDS = 64, /* what those callers use, a few times over */
    ENTRY_SIZE = 128 /* of the program's entry: the C runtime's next functions call nothing here */
};

/* Whether AT is what the kernel put there: the number of arguments, each of them further out, NULL. */
static bool is_program_start(const ss_unwind *walk, uintptr_t at)
{
    uintptr_t count, word;

    if (!ss_read_word(walk, at, &count) || !count)
        return false;
    for (uintptr_t i = 1; i <= count; i++)
        if (!ss_read_word(walk, at + i * SS_WORD, &word) || word <= at)
            return false;
    return ss_read_word(walk, at + (count + 1) * SS_WORD, &word) && !word;
}

/* Whether ADDRESS lies in the first instructions of MODULE, where the loader enters it. */
static bool is_entry(const ss_module *module, uintptr_t address)
{
    for (uint32_t i = 0; i < module->header_count; i++) {
        const ElfW(Phdr) *segment = &module->headers[i];
        const ElfW(Ehdr) *header = (const void *)(module->bias + segment->p_vaddr);

        if (segment->p_type == PT_LOAD && !segment->p_offset && segment->p_flags & PF_R &&
            segment->p_filesz >= sizeof *header)
            return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_entry &&
                   address - (module->bias + header->e_entry) < ENTRY_SIZE;
    }
    return false;
}

/* Whether WORD, which lies outward of a function of LIBRARY, speaks of no other caller. */
static bool is_of_start(const ss_module *library, uintptr_t word)
{
    ss_module module;

    switch (check_return_address(word)) {
    case SS_STEP_ON:
        return ss_module_find(word - 1, &module) == SS_MODULE_FOUND &&
               (module.bias == library->bias || is_entry(&module, word));
    case SS_STEP_NO_DATA:
        return true;
    default:
        return false;
    }
}

static bool is_outermost(const ss_unwind *walk)
{
    const stacksplice_native_frame *frame = &walk->frames[walk->count - 1];
    uintptr_t at = frame->sp, word;
    ss_module code, library;
    ss_range stack;

    if (!ss_own_stack_find(at, &stack) || ss_module_find(frame->ip - 1, &code) != SS_MODULE_FOUND ||
        ss_module_find((uintptr_t)&memcmp, &library) != SS_MODULE_FOUND ||
        code.bias != library.bias)
        return false;
    for (uint32_t i = 0; i < OUTERMOST_WORDS && at < stack.high; i++, at += SS_WORD) {
        if (is_program_start(walk, at))
            return true;
        if (!ss_read_word(walk, at, &word) || (word && !is_of_start(&library, ss_arch_code(word))))
            return false;
    }
    return at >= stack.high;
}

SS_COLD ss_verdict ss_step_without_data(ss_unwind *walk, ss_caller *next)
{
    uint32_t rule = walk->frames[walk->count - 1].rule; /* of a forwarder, or 0 */
    ss_verdict found =
        rule ? ss_step_compact(walk, &walk->table->rules[rule], next) : step_signal(walk, next);

    if (found != SS_STEP_NO_DATA || rule)
        return found;
    if (is_outermost(walk))
        return SS_STEP_END;
    found = step_leaf(walk, next);
    if (found != SS_STEP_ON)
        found = step_frame_pointer(walk, next);
    if (found != SS_STEP_ON)
        found = step_called(walk, next);
    next->flags = STACKSPLICE_NATIVE_INFERRED;
    return found;
}

/* ---- The words of the stack that a walk depended on -------------------------------------------*/

/*
 * Only for what recurring captures consist of: frames that a compact rule describes, on one stack.
 */

/*
 * Where the value of register SAVED in FRAME is: in the slot of the nearest frame further in that
 * saved it.  0 if it is not in one.
 */
static uintptr_t slot_of(const ss_unwind *walk, uint32_t frame, int saved)
{
    while (frame-- > 0) {
        const ss_rule *rule = &walk->table->rules[walk->frames[frame].rule];
        unsigned slot = ss_rule_slot(rule->slots, saved);

        if (ss_rule_kind_of(rule->cfa) > SS_RULE_SAVED || slot == SS_SLOT_LOST)
            return 0;
        if (slot != SS_SLOT_UNCHANGED)
            return walk->frames[frame + 1].sp - SS_WORD * slot;
    }
    return 0;
}

static bool report_saved(const ss_unwind *walk, uint32_t frame, int saved, ss_word_report report,
                         void *data)
{
    uintptr_t address = slot_of(walk, frame, saved), value;

    if (!address || !ss_read_word(walk, address, &value))
        return false;
    report(data, address, value);
    return true;
}

/* Report what the caller of FRAME follows from, besides its sp; *LAST: there is no caller. */
static bool report_rule(const ss_unwind *walk, uint32_t frame, bool *last, ss_word_report report,
                        void *data)
{
    const ss_rule *rule = &walk->table->rules[walk->frames[frame].rule];
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);

    *last = kind == SS_RULE_END;
    if (kind == SS_RULE_SP || kind == SS_RULE_END)
        return true;
    return kind <= SS_RULE_SAVED &&
           report_saved(walk, frame, ss_rule_base(rule->cfa), report, data);
}

/* Report the return address of 0 at which the walk ended. */
static bool report_end(const ss_unwind *walk, ss_word_report report, void *data)
{
    const ss_rule *rule = &walk->table->rules[walk->frames[walk->count - 1].rule];
    ss_caller next;

    if (ss_step_compact(walk, rule, &next) != SS_STEP_ON || next.ip)
        return false;
    report(data, next.sp - SS_WORD * SS_RETURN_SLOT, 0);
    return true;
}

/* Whether the walk used nothing but the rules and one stack. */
static bool is_plain(const ss_unwind *walk)
{
    return SS_RETURN_SAVED < 0 && walk->table && walk->stack_count == 1 && !walk->inferred &&
           !walk->forwards && !walk->end_reason && !walk->table->file_count;
}

bool ss_unwind_words(const ss_unwind *walk, uint32_t first, uint32_t count, ss_word_report report,
                     void *data)
{
    uint32_t end = first + count;
    bool last = false;

    if (!is_plain(walk) || !first || end > walk->count)
        return false;
    for (uint32_t i = first; i < end; i++) {
        const stacksplice_native_frame *frame = &walk->frames[i];

        if (frame->flags & (STACKSPLICE_NATIVE_SIGNAL | STACKSPLICE_NATIVE_INFERRED) || last)
            return false;
        report(data, frame->sp - SS_WORD * SS_RETURN_SLOT, frame->ip);
        if (!report_rule(walk, i, &last, report, data))
            return false;
    }
    if (end < walk->count)
        return true;
    return !walk->has_more && (last || report_end(walk, report, data));
}

bool ss_unwind_register_word(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                             ss_word_report report, void *data)
{
    int saved = ss_saved_index(dwarf_register);

    return is_plain(walk) && frame < walk->count && saved >= 0 &&
           report_saved(walk, frame, saved, report, data);
}
