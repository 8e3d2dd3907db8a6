/*
 * libdw unwinds; registers and memory are ours.  So a living process is unwound when it runs again,
 * from what was copied, and a core file goes the same way.
 */
#include "native/native.h"

#include "base/list.h"
#include "base/texts.h"
#include "native/modules.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 1 << 15, MAX_VDSO = 1 << 16 };

struct ssi_native {
    const ssi_libdw *dw;
    const ssi_target *target;
    Dwfl *dwfl;
    ssi_modules modules;
    char *vdso; /* its image */
    const ssi_thread *thread;
    uint64_t registers[SSI_REGISTERS]; /* from which the walk begins */
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
    if (current->vdso && ssi_read(&current->target->memory, base, current->vdso, size))
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

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *out, void *data)
{
    ssi_native *native = data;

    (void)dwfl;
    return ssi_read(&native->target->memory, address, out, sizeof *out);
}

static bool set_registers(Dwfl_Thread *thread, void *data)
{
    ssi_native *native = data;

    return native->dw->dwfl_thread_state_registers(thread, 0, SSI_REGISTERS, native->registers);
}

/* ---- Frames -----------------------------------------------------------------------------------*/

static bool is_code(const ssi_native *native, uint64_t address)
{
    const ssi_mapping *mapping = ssi_target_mapping(native->target, address);

    return mapping && mapping->executable;
}

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
    static const unsigned numbers[SSI_SAVED] = {3, 6, 12, 13, 14, 15};

    for (unsigned i = 0; i < SSI_SAVED; i++)
        if (!native->dw->dwfl_frame_reg(state, numbers[i], &frame->saved[i]))
            frame->known |= 1u << i;
}

/* A stack that is damaged can lead in circles; only a signal's frame leads to another stack. */
static bool is_further(const ssi_native *native, const ssi_native_frame *last, uint64_t sp)
{
    return sp > last->sp ||
           ssi_target_mapping(native->target, sp) != ssi_target_mapping(native->target, last->sp);
}

static int stop(ssi_native_stack *stack, const char *why)
{
    stack->truncated = why;
    return 1;
}

static int on_frame(Dwfl_Frame *state, void *data)
{
    ssi_native *native = data;
    ssi_native_stack *stack = native->stack;
    const ssi_native_frame *last = stack->count ? &stack->frames[stack->count - 1] : NULL;
    ssi_native_frame frame = {0};
    bool interrupted = false;
    Dwarf_Addr pc;

    if (!native->dw->dwfl_frame_pc(state, &pc, &interrupted) ||
        native->dw->dwfl_frame_reg(state, SSI_SP, &frame.sp))
        return stop(stack, "registers of the caller are not known");
    if (!pc)
        return 1;
    if (last && !is_further(native, last, frame.sp))
        return stop(stack, "native part truncated: the stack is damaged");
    if (stack->count >= MAX_FRAMES)
        return stop(stack, "native part truncated: too many frames");
    frame.address = pc + interrupted;
    frame.inferred = last && (last->inferred || !last->described);
    frame.described = is_described(native, &frame);
    read_saved(native, state, &frame);
    if (!ssi_grow(&stack->frames, stack->count, &stack->room, sizeof frame))
        return stop(stack, "native part truncated: out of memory");
    stack->frames[stack->count++] = frame;
    return 0;
}

/* A call of what is no code has only pushed its return address, so the caller can be had.  False
   without memory. */
static bool step_out_of_no_code(ssi_native *native)
{
    uint64_t *r = native->registers, caller = 0;
    ssi_native_stack *stack = native->stack;

    if (is_code(native, r[SSI_PC]) || !ssi_read_word(&native->target->memory, r[SSI_SP], &caller) ||
        !is_code(native, caller))
        return true;
    if (!ssi_grow(&stack->frames, stack->count, &stack->room, sizeof *stack->frames))
        return false;
    stack->frames[stack->count++] =
        (ssi_native_frame){.address = r[SSI_PC], .sp = r[SSI_SP], .described = true};
    r[SSI_PC] =
        caller - 1; /* in the call: libdw takes it for the instruction that was interrupted */
    r[SSI_SP] += sizeof caller;
    return true;
}

void ssi_native_walk(ssi_native *native, const ssi_thread *thread, ssi_native_stack *stack)
{
    stack->count = 0;
    stack->truncated = NULL;
    if (!thread->has_registers) {
        stack->truncated = thread->why;
        return;
    }
    native->thread = thread;
    native->stack = stack;
    current = native;
    memcpy(native->registers, thread->registers, sizeof native->registers);
    if (!step_out_of_no_code(native)) {
        stack->truncated = "native part truncated: out of memory";
        return;
    }
    if (native->dw->dwfl_getthread_frames(native->dwfl, thread->id, on_frame, native) < 0) {
        const char *why = native->dw->dwfl_errmsg(-1);

        stack->truncated = ssi_text_format("native part truncated: %s", why);
        if (!stack->truncated)
            stack->truncated = "native part truncated: out of memory";
    }
}

ssi_frame ssi_native_describe(ssi_native *native, const ssi_native_frame *frame)
{
    const ssi_module *module = ssi_modules_find(&native->modules, frame->address - 1);
    ssi_frame described = {.kind = SSI_NATIVE,
                           .language = "native",
                           .inferred = frame->inferred,
                           .address = frame->address};

    if (module) {
        described.module = module->path;
        described.build_id = module->build_id;
        described.module_offset = frame->address - module->start;
    }
    return described;
}

/* ---- Life -------------------------------------------------------------------------------------*/

ssi_native *ssi_native_new(const ssi_target *target, const char **why)
{
    static const Dwfl_Callbacks files = {find_elf, find_debuginfo, NULL, NULL};
    static const Dwfl_Thread_Callbacks threads = {next_thread,   get_thread, read_memory,
                                                  set_registers, NULL,       NULL};
    const ssi_libdw *dw = ssi_libdw_load(why);
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
        ssi_modules_report(dw, native->dwfl, target, &native->modules);
    if (native->dwfl &&
        dw->dwfl_attach_state(native->dwfl, NULL, target->process, &threads, native))
        return native;
    *why = ssi_text_format("native frames cannot be unwound: %s", dw->dwfl_errmsg(-1));
    ssi_native_free(native);
    return NULL;
}

const char *ssi_native_missing(const ssi_native *native)
{
    if (!native->modules.missing)
        return NULL;
    return ssi_text_format("%zu binaries of the process were not found here, or are other ones by "
                           "their build-ids, the first is %.200s: nothing is known of what runs in "
                           "them",
                           native->modules.missing, native->modules.first_missing);
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
