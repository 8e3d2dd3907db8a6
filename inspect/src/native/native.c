#include "native/native.h"

#include "base/base.h"
#include "target/binary.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The parts of elfutils' libdw with which stacks are unwound.  The library is opened at run time,
 * and the build needs none of its headers.
 */

typedef struct Elf Elf;
typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Thread Dwfl_Thread;
typedef struct Dwfl_Frame Dwfl_Frame;
typedef struct Dwarf_CFI_s Dwarf_CFI;
typedef struct Dwarf_Frame_s Dwarf_Frame;
typedef Elf64_Addr Dwarf_Addr;
typedef Elf64_Xword Dwarf_Word;

typedef struct {
    int (*find_elf)(Dwfl_Module *, void **, const char *, Dwarf_Addr, char **, Elf **);
    int (*find_debuginfo)(Dwfl_Module *, void **, const char *, Dwarf_Addr, const char *,
                          const char *, Elf64_Word, char **);
    int (*section_address)(void); /* not used */
    char **debuginfo_path;
} Dwfl_Callbacks;

typedef struct {
    pid_t (*next_thread)(Dwfl *, void *, void **);
    bool (*get_thread)(Dwfl *, pid_t, void *, void **);
    bool (*memory_read)(Dwfl *, Dwarf_Addr, Dwarf_Word *, void *);
    bool (*set_initial_registers)(Dwfl_Thread *, void *);
    void (*detach)(Dwfl *, void *);
    void (*thread_detach)(Dwfl_Thread *, void *);
} Dwfl_Thread_Callbacks;

/* X(result, name, (parameters)) */
#define LIBDW_FUNCTIONS(X)                                                                         \
    X(int, dwarf_cfi_addrframe, (Dwarf_CFI *, Dwarf_Addr, Dwarf_Frame **))                         \
    X(Dwfl_Module *, dwfl_addrmodule, (Dwfl *, Dwarf_Addr))                                        \
    X(bool, dwfl_attach_state, (Dwfl *, Elf *, pid_t, const Dwfl_Thread_Callbacks *, void *))      \
    X(Dwfl *, dwfl_begin, (const Dwfl_Callbacks *))                                                \
    X(void, dwfl_end, (Dwfl *))                                                                    \
    X(const char *, dwfl_errmsg, (int))                                                            \
    X(bool, dwfl_frame_pc, (Dwfl_Frame *, Dwarf_Addr *, bool *))                                   \
    X(int, dwfl_frame_reg, (Dwfl_Frame *, unsigned, Dwarf_Word *))                                 \
    X(int, dwfl_getthread_frames, (Dwfl *, pid_t, int (*)(Dwfl_Frame *, void *), void *))          \
    X(Dwarf_CFI *, dwfl_module_eh_cfi, (Dwfl_Module *, Dwarf_Addr *))                              \
    X(void, dwfl_report_begin, (Dwfl *))                                                           \
    X(Dwfl_Module *, dwfl_report_elf, (Dwfl *, const char *, const char *, int, Dwarf_Addr, bool)) \
    X(int, dwfl_report_end,                                                                        \
      (Dwfl *, int (*)(Dwfl_Module *, void *, const char *, Dwarf_Addr, void *), void *))          \
    X(Dwfl_Module *, dwfl_report_module, (Dwfl *, const char *, Dwarf_Addr, Dwarf_Addr))           \
    X(void, dwfl_thread_state_register_pc, (Dwfl_Thread *, Dwarf_Word))                            \
    X(bool, dwfl_thread_state_registers, (Dwfl_Thread *, int, unsigned, const Dwarf_Word *))       \
    X(Elf *, elf_memory, (char *, size_t))                                                         \
    X(unsigned int, elf_version, (unsigned int))

#define LIBDW_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct libdw {
    LIBDW_FUNCTIONS(LIBDW_MEMBER)
} libdw;

#define NAME(result, name, parameters) #name,
static const char *const names[] = {LIBDW_FUNCTIONS(NAME)};

/* In the words of a system that usually has this C library. */
#ifdef __GLIBC__
#define PACKAGE "Debian package: libdw1"
#else
#define PACKAGE "Alpine package: elfutils"
#endif

/* The functions, or NULL: *WHY then says what is missing and what to install. */
static const libdw *load_libdw(const char **why)
{
    static libdw functions;
    void *library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);

    *why = "libdw.so.1 not found (" PACKAGE ")";
    if (!library)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(library, names[i]);

        *why = "libdw.so.1 is older than elfutils 0.188, which stacks need";
        if (!function)
            return NULL;
        memcpy((char *)&functions + i * sizeof function, &function, sizeof function);
    }
    functions.elf_version(EV_CURRENT);
    *why = NULL;
    return &functions;
}

/* ---- Binaries ---------------------------------------------------------------------------------*/

/* The binaries of a target, as libdw knows them. */
typedef struct binary_module {
    uint64_t start, end;
    const char *path;
    const char *build_id; /* NULL: none */
} binary_module;

typedef struct binary_modules {
    binary_module *items; /* by address */
    size_t count, room;
    size_t missing; /* so many have no file that can be used */
    const char *first_missing;
} binary_modules;

/* Sets the build-id of the binary at MAPPING, whose file is FD or, at -1, cannot be read.  False if
   that is not the file that was mapped; without a build-id in memory nobody can say. */
static bool find_build_id(const ssi_mapping *mapping, int fd, const char **build_id)
{
    char there[SSI_BUILD_ID_ROOM], here[SSI_BUILD_ID_ROOM];
    bool said = ssi_build_id(-1, mapping->start, there);
    bool found = fd >= 0 && ssi_build_id(fd, 0, here);

    if (said || found)
        *build_id = ssi_text(said ? there : here, strlen(said ? there : here));
    return fd >= 0 && (!said || (found && !strcmp(there, here)));
}

static void report(const libdw *dw, Dwfl *dwfl, const ssi_target *target, size_t first,
                   binary_modules *modules)
{
    const ssi_mapping *mapping = &target->mappings[first];
    binary_module module = {mapping->start, ssi_target_binary_end(target, first),
                            ssi_text(mapping->path, strlen(mapping->path)), NULL};
    int fd = ssi_target_open(target, mapping);
    Dwfl_Module *reported = NULL;
    Elf64_Ehdr header;

    /* Debuggers do not say what was executable: it may be no binary. */
    if (!module.path || (fd >= 0 && !ssi_elf_header(fd, &header))) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (find_build_id(mapping, fd, &module.build_id))
        /* A name, for libdw does not learn the machine from one that ends in " (deleted)". */
        reported = dw->dwfl_report_elf(dwfl, "binary", module.path, fd, mapping->start, false);
    if (!reported && fd >= 0)
        close(fd); /* it is libdw's otherwise */
    if (!reported && !modules->missing++)
        modules->first_missing = module.path;
    /* A file that cannot be read still has a name. */
    (void)ssi_append(&modules->items, &modules->count, &modules->room, &module, sizeof module);
}

/* Report all binaries of TARGET to DWFL, and list them. */
static void report_modules(const libdw *dw, Dwfl *dwfl, const ssi_target *target,
                           binary_modules *modules)
{
    dw->dwfl_report_begin(dwfl);
    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (ssi_target_binary_end(target, i))
            report(dw, dwfl, target, i, modules);
        else if (m->path && !strcmp(m->path, "[vdso]"))
            (void)dw->dwfl_report_module(dwfl, "[vdso]", m->start, m->end);
    }
    (void)dw->dwfl_report_end(dwfl, NULL, NULL);
}

static const binary_module *find_module(const binary_modules *modules, uint64_t address)
{
    for (size_t i = 0; i < modules->count; i++)
        if (modules->items[i].start <= address && address < modules->items[i].end)
            return &modules->items[i];
    return NULL;
}

/* The native frames of one thread: all, or both ends of a long stack. */

enum {
    MAX_FRAMES = 1 << 15,
    END = MAX_FRAMES / 2 /* frames of a longer stack that are kept at each end */
};

static const ssi_native_frame *last_of(const ssi_native_stack *stack)
{
    return stack->count ? &stack->frames[stack->count - 1] : NULL;
}

/* Leave out what is between both ends. */
static void cut(ssi_native_stack *stack)
{
    size_t middle = stack->count - 2 * END;

    if (!stack->left_out)
        stack->cut_sp = stack->frames[END].sp;
    memmove(&stack->frames[END], &stack->frames[END + middle], END * sizeof *stack->frames);
    stack->count -= middle;
    stack->left_out += middle;
    stack->cut = END;
}

static bool put(ssi_native_stack *stack, const ssi_native_frame *frame)
{
    if (stack->frames && stack->count == 2 * MAX_FRAMES)
        cut(stack);
    return ssi_append(&stack->frames, &stack->count, &stack->room, frame, sizeof *frame);
}

uint64_t ssi_native_end(const ssi_native_stack *stack, size_t at)
{
    if (stack->left_out && at + 1 == stack->cut)
        return stack->cut_sp;
    return at + 1 < stack->count ? stack->frames[at + 1].sp : 0;
}

/*
 * libdw unwinds; registers and memory are ours.  So a living process is unwound when it runs again,
 * from what was copied, and a core file goes the same way.
 */

enum {
    MAX_VDSO = 1 << 16,
    MAX_WALKED = 1 << 23, /* frames of all threads; a gigabyte of stacks has not more */
    MAX_RETURNS = 64      /* from one stack to another */
};

struct ssi_native {
    const libdw *dw;
    const ssi_target *target;
    Dwfl *dwfl;
    binary_modules modules;
    char *vdso; /* its image */
    const ssi_thread *thread;
    uint64_t registers[SSI_MAX_REGISTERS]; /* from which the walk begins, or goes on */
    bool unread;      /* a word that the caller of the last frame is found by could not be read */
    bool goes_on;     /* with what a signal interrupted, or outside of a forwarder */
    bool is_call;     /* the register of the ip is in a call, of which there is a frame */
    unsigned returns; /* to stacks at lower addresses */
    size_t walked;    /* frames so far */
    const ssi_native_jump *jumps;
    size_t jump_count;
    ssi_native_stack *stack;
};

/* ---- What libdw asks --------------------------------------------------------------------------*/

/* libdw hands nothing of ours to this callback. */
static ssi_native *current;

/* The code that the kernel gives each process has no file. */
static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                    char **file, Elf **elf)
{
    const ssi_mapping *mapping = ssi_target_mapping(current->target, base);
    size_t size = mapping ? (size_t)(mapping->end - mapping->start) : 0;

    (void)module, (void)user, (void)file;
    if (strcmp(name, "[vdso]") != 0 || current->vdso || !size || size > MAX_VDSO)
        return -1;
    current->vdso = malloc(size);
    if (current->vdso && ssi_read(base, current->vdso, size))
        *elf = current->dw->elf_memory(current->vdso, size);
    return -1;
}

/* Unwinding needs what is in the binary itself; debug files would only take time. */
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, Elf64_Word crc, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc,
        (void)found;
    return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *data, void **thread)
{
    (void)dwfl, (void)data, (void)thread;
    return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t id, void *data, void **thread)
{
    ssi_native *native = data;

    (void)dwfl;
    *thread = native;
    return id == native->thread->id;
}

static bool is_code(const ssi_native *native, uint64_t address)
{
    const ssi_mapping *mapping = ssi_target_mapping(native->target, address);

    return mapping && mapping->executable;
}

/* What VALUE is without a signature, if it is the signed address of code. */
static uint64_t without_signature(const ssi_native *native, uint64_t value)
{
    uint64_t address = ssi_machine_address(native->target->machine, value);

    return address != value && is_code(native, address) ? address : value;
}

/* libdw reads return addresses from the stack, and its versions before 0.192 take them as they
   are. */
static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *out, void *data)
{
    ssi_native *native = data;

    (void)dwfl;
    native->unread = !ssi_read(address, out, sizeof *out);
    if (native->unread)
        return false;
    *out = without_signature(native, *out);
    return true;
}

static bool set_registers(Dwfl_Thread *thread, void *data)
{
    ssi_native *native = data;
    const ssi_machine *machine = native->target->machine;

    native->dw->dwfl_thread_state_register_pc(thread, native->registers[machine->pc]);
    return native->dw->dwfl_thread_state_registers(thread, 0, machine->numbered, native->registers);
}

/* ---- Frames -----------------------------------------------------------------------------------*/

/* Whether the code of FRAME has a description, by which its caller is found.  Where there is none,
   libdw tries the frame pointer. */
static bool is_described(const ssi_native *native, const ssi_native_frame *frame)
{
    uint64_t pc = frame->address - 1;
    Dwfl_Module *module = native->dw->dwfl_addrmodule(native->dwfl, pc);
    Dwarf_Addr bias = 0;
    Dwarf_CFI *cfi = module ? native->dw->dwfl_module_eh_cfi(module, &bias) : NULL;
    Dwarf_Frame *found = NULL;
    bool described = cfi && !native->dw->dwarf_cfi_addrframe(cfi, pc - bias, &found);

    free(found);
    return described;
}

static void read_saved(const ssi_native *native, Dwfl_Frame *state, ssi_native_frame *frame)
{
    const ssi_machine *machine = native->target->machine;

    for (unsigned i = 0; i < machine->saved_count; i++)
        if (!native->dw->dwfl_frame_reg(state, machine->saved[i], &frame->saved[i]))
            frame->known |= 1u << i;
}

/* A stack that is damaged can lead in circles.  Only signals' frames lead to other stacks, and only
   what was interrupted can be without a frame, where a call pushes nothing. */
static bool is_further(ssi_native *native, const ssi_native_frame *last, uint64_t sp)
{
    const ssi_target *target = native->target;

    if (sp > last->sp || (sp == last->sp && last->interrupted && target->machine->link))
        return true;
    return ssi_target_mapping(target, sp) != ssi_target_mapping(target, last->sp) &&
           native->returns++ < MAX_RETURNS;
}

/* Whether FRAME, at PC, returns from a signal's handler by code that no unwind data describes
   completely; the registers are then those that the signal interrupted. */
static bool restore_interrupted(ssi_native *native, const ssi_native_frame *frame, uint64_t pc)
{
    const ssi_machine *machine = native->target->machine;
    uint64_t code;

    return machine->sigreturn && ssi_read_word(pc, &code) && code == machine->sigreturn &&
           ssi_read(frame->sp + machine->interrupted, native->registers,
                    machine->registers * sizeof *native->registers);
}

/*
 * Whether FRAME is of a forwarder: fixed instructions that an interpreter generates for a function
 * of its language, so that a profiler sees that function.  Nobody wrote them, and no frame is shown
 * for them.  The registers are then those of the caller.
 */
static bool step_out_of_forwarder(ssi_native *native, const ssi_native_frame *frame)
{
    const ssi_machine *machine = native->target->machine;
    const ssi_forwarder *f = machine->forwarders;
    uint8_t code[SSI_FORWARDER_SIZE];
    uint64_t caller, *r = native->registers;

    while (f->size && !(ssi_read(frame->address - f->before, code, f->size) &&
                        !memcmp(code, f->code, f->size)))
        f++;
    if (!f->size || !ssi_read_word(frame->sp + sizeof caller, &caller))
        return false;
    for (unsigned i = 0; i < machine->saved_count; i++)
        r[machine->saved[i]] = frame->known >> i & 1 ? frame->saved[i] : 0;
    if (f->keeps_fp && !ssi_read_word(frame->sp, &r[machine->fp]))
        return false;
    r[machine->sp] = frame->sp + 2 * sizeof caller;
    r[machine->pc] = without_signature(native, caller) - 1; /* in the call */
    native->is_call = true;
    return true;
}

/* The loop's frame that FRAME is of compiled code inside of, or *IS_PART of; NULL: neither. */
static const ssi_native_jump *jump_of(const ssi_native *native, const ssi_native_frame *frame,
                                      bool *is_part)
{
    enum { MAX_MOVED = 2048 };
    const ssi_native_jump *found = NULL;

    *is_part = false;
    for (size_t i = 0; i < native->jump_count; i++) {
        const ssi_native_jump *j = &native->jumps[i];
        bool is_loop = frame->address - 1 - j->code < j->size;

        if (ssi_native_is_made(j, frame))
            return j;
        if (is_loop && j->sp == frame->sp)
            return NULL;
        if (is_loop && j->sp - frame->sp <= MAX_MOVED && (!found || j->sp < found->sp))
            found = j;
    }
    *is_part = found;
    return found;
}

/* Whether the walk goes on behind FRAME in the loop's own, on top of which x86-64's compiled code keeps two
   registers.  A part of the loop has the others as the loop does. */
static bool jump(ssi_native *native, ssi_native_frame *frame, bool *is_part)
{
    enum { R12 = 12, R13 = 13 };
    const ssi_native_jump *j = jump_of(native, frame, is_part);
    uint64_t *r = native->registers;

    if (!j)
        return false;
    memset(r, 0, sizeof native->registers);
    for (unsigned i = 0; *is_part && i < native->target->machine->saved_count; i++)
        if (frame->known >> i & 1)
            r[native->target->machine->saved[i]] = frame->saved[i];
    if (!*is_part || j->sp - frame->sp >= 2 * sizeof *r) {
        r[R12] = ssi_word(j->sp);
        r[R13] = ssi_word(j->sp - sizeof *r);
    }
    r[native->target->machine->sp] = j->sp;
    r[native->target->machine->pc] = j->pc;
    frame->described = native->is_call = native->goes_on = true;
    return true;
}

static int stop(ssi_native_stack *stack, const char *why)
{
    stack->truncated = why;
    return 1;
}

/* The caller of LAST, which ends at SP, is at 0, by which some stacks end.  Only at calls is unwind data sure to
   be right: assembly that moves the stack pointer in between may not say so, and its word is then another
   one, unless that lies where a stack begins, as that of a fiber. */
static int end_at_none(const ssi_native *native, const ssi_native_frame *last, uint64_t sp)
{
    enum { MOST_ABOVE_FIRST = 1024 };

    if (!last || !last->interrupted || native->thread->stack_end - sp <= MOST_ABOVE_FIRST)
        return 1;
    return stop(native->stack, "native part truncated: the caller is unknown");
}

static int on_frame(Dwfl_Frame *state, void *data)
{
    ssi_native *native = data;
    ssi_native_stack *stack = native->stack;
    const ssi_native_frame *last = last_of(stack);
    ssi_native_frame frame = {0};
    bool interrupted = false, jumps, is_part = false;
    Dwarf_Addr pc;

    native->unread = false;
    if (!native->dw->dwfl_frame_pc(state, &pc, &interrupted) ||
        native->dw->dwfl_frame_reg(state, native->target->machine->sp, &frame.sp))
        return stop(stack, "registers of the caller are not known");
    if (!pc)
        return end_at_none(native, last, frame.sp);
    if (native->walked++ >= MAX_WALKED)
        return stop(stack, "native part truncated: the threads have too many frames in all");
    if (last && !is_further(native, last, frame.sp))
        return stop(stack, "native part truncated: the stack is damaged");
    frame.interrupted = interrupted && !native->is_call;
    frame.address = pc + interrupted;
    native->is_call = false;
    frame.inferred = last && (last->inferred || !last->described);
    frame.described = is_described(native, &frame);
    read_saved(native, state, &frame);
    if (!frame.described && !frame.interrupted && step_out_of_forwarder(native, &frame)) {
        native->goes_on = true;
        return 1;
    }
    jumps = jump(native, &frame, &is_part);
    if (jumps && is_part)
        return 1;
    if (!put(stack, &frame))
        return stop(stack, "native part truncated: out of memory");
    if (jumps)
        return 1;
    native->goes_on = restore_interrupted(native, &frame, pc);
    return native->goes_on;
}

/* A call of what is no code has only left its return address, so the caller can be had.  False
   without memory. */
static bool step_out_of_no_code(ssi_native *native)
{
    const ssi_machine *machine = native->target->machine;
    uint64_t *r = native->registers, *pc = &r[machine->pc], *sp = &r[machine->sp];
    uint64_t caller = machine->link ? r[machine->link] : 0;
    const ssi_native_frame frame = {
        .address = *pc, .sp = *sp, .described = true, .interrupted = true};

    if (is_code(native, *pc) || (!machine->link && !ssi_read_word(*sp, &caller)) ||
        !is_code(native, caller))
        return true;
    if (!put(native->stack, &frame))
        return false;
    *pc = caller - 1; /* in the call: libdw takes it for the instruction that was interrupted */
    *sp += machine->link ? 0 : sizeof caller;
    return true;
}

/* Walk from the registers on. */
static void walk_on(ssi_native *native)
{
    unsigned link = native->target->machine->link;
    const char *why;

    native->goes_on = native->unread = false;
    if (link && !native->is_call)
        native->registers[link] = without_signature(native, native->registers[link]);
    if (!native->is_call && !step_out_of_no_code(native)) {
        native->stack->truncated = "native part truncated: out of memory";
        return;
    }
    if (native->dw->dwfl_getthread_frames(native->dwfl, native->thread->id, on_frame, native) >=
        0) {
        /* libdw takes it for the end. */
        if (native->unread && !native->goes_on && !native->stack->truncated)
            native->stack->truncated =
                ssi_budget_is_spent() ? "native part truncated: reading takes too long"
                                      : "native part truncated: memory of the stack is not there";
        return;
    }
    why = ssi_text_format("native part truncated: %s", native->dw->dwfl_errmsg(-1));
    native->stack->truncated = why ? why : "native part truncated: out of memory";
}

void ssi_native_walk(ssi_native *native, const ssi_thread *thread, const ssi_native_jump *jumps,
                     size_t count, ssi_native_stack *stack)
{
    stack->count = stack->left_out = 0;
    stack->truncated = NULL;
    if (!thread->has_registers) {
        stack->truncated = thread->why;
        return;
    }
    native->thread = thread;
    native->stack = stack;
    current = native;
    native->jumps = jumps;
    native->jump_count = count;
    native->returns = 0;
    native->is_call = false;
    memcpy(native->registers, thread->registers, sizeof native->registers);
    do
        walk_on(native);
    while (native->goes_on);
    if (stack->count > MAX_FRAMES)
        cut(stack);
}

ssi_frame ssi_native_describe(ssi_native *native, const ssi_native_frame *frame)
{
    const binary_module *module = find_module(&native->modules, frame->address - 1);
    ssi_frame described = {
        .known = {.kind = STACKSPLICE_FRAME_NATIVE,
                  .language = "native",
                  .trust = frame->inferred ? STACKSPLICE_TRUST_INFERRED : STACKSPLICE_TRUST_EXACT,
                  .address = frame->address}};

    if (module) {
        described.known.module = module->path;
        described.known.build_id = module->build_id;
        described.known.module_offset = frame->address - module->start;
    }
    return described;
}

/* ---- Life -------------------------------------------------------------------------------------*/

const char *ssi_native_missing(const ssi_native *native)
{
    if (!native->modules.missing)
        return NULL;
    return ssi_text_format("%zu binaries of the process were not found here, or are other ones by "
                           "their build-ids, the first is %.200s: nothing is known of what runs in "
                           "them",
                           native->modules.missing, native->modules.first_missing);
}

ssi_native *ssi_native_new(const ssi_target *target, const char **why)
{
    static const Dwfl_Callbacks files = {find_elf, find_debuginfo, NULL, NULL};
    static const Dwfl_Thread_Callbacks threads = {next_thread,   get_thread, read_memory,
                                                  set_registers, NULL,       NULL};
    const libdw *dw = load_libdw(why);
    ssi_native *native = dw ? calloc(1, sizeof *native) : NULL;

    if (!dw)
        return NULL;
    *why = "out of memory";
    if (!native)
        return NULL;
    current = native;
    native->dw = dw;
    native->target = target;
    native->dwfl = dw->dwfl_begin(&files);
    if (native->dwfl)
        report_modules(dw, native->dwfl, target, &native->modules);
    if (native->dwfl &&
        dw->dwfl_attach_state(native->dwfl, NULL, target->process, &threads, native))
        return native;
    *why = ssi_native_missing(native); /* libdw knows the machine by the binaries */
    if (!*why)
        *why = ssi_text_format("native frames cannot be unwound: %s", dw->dwfl_errmsg(-1));
    ssi_native_free(native);
    return NULL;
}

void ssi_native_free(ssi_native *native)
{
    if (!native)
        return;
    if (native->dwfl)
        native->dw->dwfl_end(native->dwfl);
    free(native->modules.items);
    free(native->vdso);
    free(native);
}
