/*
 * Native frame i owns the stack from its stack pointer to that of frame i + 1.  The run whose
 * marker lies there is what the interpreter's loop in that frame was running, and replaces it.  A
 * run that no native frame owns follows behind a gap: nothing is placed by likelihood.
 */
#include "splice/splice.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* ---- Which thread a run belongs to ------------------------------------------------------------*/

static bool is_on_stack(const ssi_target *target, const ssi_thread *thread, uint64_t marker)
{
    return marker >= thread->registers[target->machine->sp] && marker < thread->stack_end;
}

/* A process in a namespace knows its threads by other numbers, and an interpreter may run on
   another thread's stack, so the marker decides.  The number decides for a thread on a signal's
   stack. */
static int owner_of(const ssi_target *target, const ssi_run *run, int fallback)
{
    for (size_t i = 0; i < target->thread_count; i++)
        if (is_on_stack(target, &target->threads[i], run->marker))
            return target->threads[i].id;
    for (size_t i = 0; i < target->thread_count; i++)
        if (target->threads[i].own_id == fallback)
            return target->threads[i].id;
    return fallback;
}

static int compare_runs(const void *left, const void *right)
{
    const ssi_run *a = left, *b = right;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->marker != b->marker)
        return a->marker < b->marker ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

static void sort_runs(ssi_scripts *scripts)
{
    if (scripts->run_count)
        qsort(scripts->runs, scripts->run_count, sizeof *scripts->runs, compare_runs);
}

void ssi_splice_assign(const ssi_target *target, ssi_scripts *scripts)
{
    for (size_t i = 0; i < scripts->run_count; i++)
        scripts->runs[i].thread = owner_of(target, &scripts->runs[i], scripts->runs[i].thread);
    sort_runs(scripts);
}

/* ---- Merging ----------------------------------------------------------------------------------*/

typedef struct merge {
    const ssi_target *target;
    const ssi_scripts *scripts;
    const ssi_run *runs; /* of the thread */
    size_t count, next;  /* the runs before NEXT are in OUT */
    ssi_frames *out;
} merge;

static merge begin(const ssi_target *target, const ssi_scripts *scripts, int thread,
                   ssi_frames *out)
{
    merge m = {.target = target, .scripts = scripts, .out = out};
    size_t first = 0, end = scripts->run_count;

    while (first < end) { /* they are sorted */
        size_t middle = first + (end - first) / 2;

        if (scripts->runs[middle].thread < thread)
            first = middle + 1;
        else
            end = middle;
    }
    m.runs = first < scripts->run_count ? &scripts->runs[first] : NULL;
    while (first + m.count < scripts->run_count && m.runs[m.count].thread == thread)
        m.count++;
    return m;
}

static void put_run(merge *m)
{
    const ssi_run *run = &m->runs[m->next++];

    for (size_t i = 0; i < run->count; i++) {
        ssi_frame frame = m->scripts->frames.items[run->first + i];

        frame.stack_address = run->marker;
        (void)ssi_frames_add(m->out, &frame);
    }
}

/* Whether the marker of the next run lies in the native frame AT of STACK. */
static bool is_in_frame(const merge *m, const ssi_native_stack *stack, size_t at)
{
    uint64_t low = stack->frames[at].sp, high = ssi_native_end(stack, at);
    const ssi_mapping *mapping;

    if (m->next == m->count || (!high && stack->truncated)) /* where it ends is not known */
        return false;
    mapping = high ? NULL : ssi_target_mapping(m->target, low);
    if (mapping) /* the outermost: a program may run scripts on another stack, as valgrind does */
        high = mapping->end;
    return m->runs[m->next].marker >= low && m->runs[m->next].marker < high;
}

/* What ran in the frames that were left out follows behind their gap. */
static void put_left_out(merge *m, const ssi_native_stack *stack)
{
    const char *reason =
        ssi_text_format("%zu frames omitted here: stack longer than the limit", stack->left_out);

    (void)ssi_frames_add_gap(m->out, reason ? reason : "frames omitted here: out of memory");
    while (m->next < m->count && m->runs[m->next].marker >= stack->cut_sp &&
           m->runs[m->next].marker < stack->frames[stack->cut].sp)
        put_run(m);
}

/* A greenlet copies stacks away: outside of its own base, what lies there belongs to others.  The
   base is the first frame of that library outside of all Python frames; the main one has none. */
static bool is_greenlet_base(const merge *m, const ssi_frame *frame)
{
    const char *name = frame->known.module ? strrchr(frame->known.module, '/') : NULL;

    return m->count && m->next == m->count && name && !strncmp(name, "/_greenlet.", 11);
}

/* False where the rest of the stack belongs to others. */
static bool put_native(merge *m, ssi_native *native, const ssi_native_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++) {
        ssi_frame frame;

        if (stack->left_out && i == stack->cut)
            put_left_out(m, stack);
        if (is_in_frame(m, stack, i)) {
            put_run(m);
            while (is_in_frame(m, stack, i)) {
                (void)ssi_frames_add_gap(m->out, "two runs of frames in one native frame");
                put_run(m);
            }
            continue;
        }
        frame = ssi_native_describe(native, &stack->frames[i]);
        frame.stack_address = stack->frames[i].sp;
        (void)ssi_frames_add(m->out, &frame);
        if (is_greenlet_base(m, &frame)) {
            (void)ssi_frames_add_gap(m->out, "end of this greenlet's own stack");
            return false;
        }
    }
    return true;
}

/* What no native frame stands for. */
static void put_rest(merge *m, const ssi_native_stack *stack)
{
    if (stack->truncated)
        (void)ssi_frames_add_gap(m->out, stack->truncated);
    else if (m->next < m->count)
        (void)ssi_frames_add_gap(m->out, "native frames of what follows were not found");
    while (m->next < m->count)
        put_run(m);
}

void ssi_splice(const ssi_target *target, ssi_native *native, const char *why,
                const ssi_thread *thread, ssi_luas *luas, ssi_scripts *scripts, ssi_frames *out)
{
    ssi_native_stack stack = {.truncated = why};
    size_t runs = scripts->run_count;
    merge m;

    out->count = 0;
    if (native)
        ssi_native_walk(native, thread, luas->jumps, luas->jump_count, &stack);
    ssi_lua_place(target, luas, &stack, thread->id, scripts);
    if (scripts->run_count != runs)
        sort_runs(scripts);
    m = begin(target, scripts, thread->id, out);
    if (put_native(&m, native, &stack))
        put_rest(&m, &stack);
    free(stack.frames);
}
