#include "python/tasks.h"

#include "base/base.h"
#include "python/objects.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_TASKS = 1 << 13,      /* of a process */
    MAX_AWAITING = 1 << 16,   /* of all tasks */
    MAX_FUTURES = 1 << 10,    /* between a task and those who await it */
    MAX_COROUTINES = 1 << 12, /* of a task */
    MAX_OUTSIDE = 32          /* tasks on the stack of a thread, as in reports */
};

/* ---- Where things are -------------------------------------------------------------------------*/

/* The table has groups of a task (size, name, those who await it, whether it is a task, whether they
   are a set, coroutine, place in a list), of an interpreter (size, list) and of a thread (size, loop,
   task, list).  A future's state is just before whether it is a task. */
enum { TASK = 0, INTERPRETER = 7, THREAD = 9, TABLE_WORDS = 13 };

static bool read_table(uint64_t table, uint64_t size, ssi_task_layout *layout)
{
    uint64_t words[TABLE_WORDS];

    if (!ssi_read(table, words, sizeof words) || words[TASK] > 4096 || words[THREAD] > 1 << 16 ||
        words[INTERPRETER] != size || words[INTERPRETER + 1] >= size ||
        words[THREAD + 3] >= words[THREAD] || words[TASK + 3] < sizeof(uint32_t))
        return false;
    for (int i = 1; i < INTERPRETER; i++)
        if (words[TASK + i] >= words[TASK])
            return false;
    *layout = (ssi_task_layout){.state = (uint32_t)(words[TASK + 3] - sizeof(uint32_t)),
                                .coroutine = (uint32_t)words[TASK + 5],
                                .name = (uint32_t)words[TASK + 1],
                                .awaited_by = (uint32_t)words[TASK + 2],
                                .awaited_by_is_set = (uint32_t)words[TASK + 4],
                                .node = (uint32_t)words[TASK + 6],
                                .thread_tasks = (uint32_t)words[THREAD + 3],
                                .interpreter_tasks = (uint32_t)words[INTERPRETER + 1]};
    return true;
}

void ssi_task_layout_find(ssi_task_layout *layout, const sspy_layout *python, uint64_t size,
                          const uint64_t *tables, size_t count)
{
    if (python->minor < 13)
        *layout = (ssi_task_layout){.state = 88, .waiter = 128, .coroutine = 136, .name = 144};
    else if (python->minor == 13)
        *layout = (ssi_task_layout){.state = 96 + python->object_head,
                                    .waiter = 112 + python->object_head,
                                    .coroutine = 120 + python->object_head,
                                    .name = 128 + python->object_head};
    else
        while (count && !read_table(tables[count - 1], size, layout))
            count--;
}

/* ---- All tasks --------------------------------------------------------------------------------*/

enum { REFERENT = 16 /* of a weak reference */ };

static bool is_pending(const ssi_tasks *tasks, uint64_t future)
{
    uint32_t state;

    return ssi_read(future + tasks->layout->state, &state, sizeof state) && !state;
}

/* A program gave it, or it is a number from which asyncio makes one when it is asked for it. */
static const char *name_of(const ssi_tasks *tasks, uint64_t task)
{
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t name = ssi_word(task + tasks->layout->name), number;

    if (ssi_object_kind(name) == KIND_INT && ssi_object_number(layout, name, &number))
        return ssi_text_format("Task-%llu", (unsigned long long)number);
    return ssi_object_name(layout, name);
}

static void add_task(ssi_tasks *tasks, uint64_t address)
{
    ssi_scripts *scripts = tasks->frames->scripts;
    ssi_task task = {.address = address, .interpreter = tasks->interpreter};

    if (!ssi_object_is_a(address, "_asyncio.Task")) {
        tasks->foreign += ssi_object_kind(address) != KIND_NONE;
        return;
    }
    if (!is_pending(tasks, address) || ssi_map_find(&tasks->numbers, address))
        return;
    task.name = name_of(tasks, address);
    if (ssi_append(&scripts->tasks, &scripts->task_count, &scripts->task_room, &task, sizeof task))
        (void)ssi_map_put(&tasks->numbers, address, scripts->task_count - 1);
}

static bool is_full(ssi_tasks *tasks)
{
    tasks->is_cut |= tasks->frames->scripts->task_count == MAX_TASKS;
    return tasks->is_cut;
}

static void add_list(ssi_tasks *tasks, uint64_t head)
{
    uint64_t node = ssi_word(head);

    for (int i = 0; node && node != head && i <= MAX_TASKS && !is_full(tasks); i++) {
        add_task(tasks, node - tasks->layout->node);
        node = ssi_word(node);
    }
}

void ssi_tasks_collect(ssi_tasks *tasks, uint64_t thread)
{
    if (tasks->frames->scripts->with_tasks && tasks->layout->thread_tasks)
        add_list(tasks, thread + tasks->layout->thread_tasks);
}

/* Add those in the set NAME of asyncio.tasks, whose dict is MODULE; from 3.14 on it has only those
   of the class in Python. */
static void add_set(ssi_tasks *tasks, uint64_t module, const char *name)
{
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t set = ssi_dict_find(layout, module, name), key, task;
    uint64_t references = ssi_object_attribute(layout, set, "data"); /* of a WeakSet */
    ssi_items items;

    if (!ssi_items_begin(&items, layout, KIND_SET, references ? references : set))
        return;
    while (!is_full(tasks) && ssi_items_next(&items, &key, &task))
        add_task(tasks, references ? ssi_word(ssi_members(task) + REFERENT) : task);
    tasks->is_cut |= items.is_damaged;
}

/* Names are given in order: Task-2 is older than Task-10. */
static int compare_ages(const void *left, const void *right)
{
    const ssi_task *a = left, *b = right;
    const char *first = a->name ? a->name : "", *second = b->name ? b->name : "";
    size_t length = strlen(first), other = strlen(second);

    return length != other ? (length < other ? -1 : 1) : strcmp(first, second);
}

static void sort_tasks(ssi_tasks *tasks)
{
    ssi_scripts *scripts = tasks->frames->scripts;

    if (scripts->task_count > tasks->first)
        qsort(scripts->tasks + tasks->first, scripts->task_count - tasks->first,
              sizeof *scripts->tasks, compare_ages);
    for (size_t i = tasks->first; i < scripts->task_count; i++)
        (void)ssi_map_put(&tasks->numbers, scripts->tasks[i].address, i);
}

/* ---- What a task waits in ---------------------------------------------------------------------*/

enum {
    GENERATOR_STATE = 67, /* 3.11 has one word more before these */
    GENERATOR_FRAME = 72,
    DRIVEN = 16,    /* what an object that drives another has */
    STACK_TOP = 64, /* of a frame: a number of words, from 3.14 on an address */
    POINTER_TAG = 3
};

void ssi_tasks_see(ssi_tasks *tasks, const ssi_seen_frame *seen, int thread)
{
    if (tasks->frames->scripts->with_tasks && seen->owner == SSPY_FRAME_GENERATOR)
        (void)ssi_map_put(&tasks->running, seen->address,
                          (uint64_t)tasks->running.count << 32 | (uint32_t)thread);
}

/* Whether GENERATOR waits in "await" or "yield from", and not in a plain yield.  Up to 3.12 the
   instruction behind the yield says so. */
static bool awaits(unsigned minor, uint64_t generator, const ssi_seen_frame *seen)
{
    uint8_t argument = 0;
    int8_t state;

    if (!ssi_read(ssi_members(generator) + GENERATOR_STATE + (minor == 11 ? sizeof generator : 0),
                  &state, 1))
        return false;
    if (minor == 15)
        return state == 2 || state == 3;
    return state == -1 &&
           (minor > 12 || (ssi_read(seen->instruction + 3, &argument, 1) && argument >= 2));
}

/* What GENERATOR waits for: it is on its stack, from 3.15 on below a word without use. */
static uint64_t awaited_in(const sspy_layout *layout, uint64_t generator,
                           const ssi_seen_frame *seen)
{
    uint64_t top = ssi_word(seen->address + STACK_TOP);

    if (!awaits(layout->minor, generator, seen))
        return 0;
    if (layout->minor < 14)
        top = seen->address + layout->frame_variables + sizeof top * (uint32_t)top;
    return ssi_word(top - sizeof top * (layout->minor < 15 ? 1 : 2)) & ~(uint64_t)POINTER_TAG;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Add the frame of the coroutine, generator or asynchronous generator at ADDRESS; what it awaits. */
static uint64_t add_generator(ssi_tasks *tasks, ssi_task *task, uint64_t address)
{
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t frame =
        ssi_members(address) + GENERATOR_FRAME + (layout->minor == 11 ? sizeof address : 0);
    const uint64_t *thread = ssi_map_find(&tasks->running, frame);
    ssi_seen_frame seen;

    if (thread) {
        task->running = *thread;
        return 0;
    }
    if (!ssi_frame_read(layout, frame, &seen) || seen.owner != SSPY_FRAME_GENERATOR) {
        (void)ssi_frames_add_gap(&tasks->frames->scripts->frames, "a Python frame cannot be read");
        return 0;
    }
    return ssi_frame_show(tasks->frames, &seen) ? awaited_in(layout, address, &seen) : 0;
}

static void add_future(ssi_tasks *tasks, ssi_task *task, uint64_t future)
{
    const char *type = ssi_object_type(future), *dot = strrchr(type, '.');

    if (ssi_object_is_a(future, "_asyncio.Future") && !is_pending(tasks, future))
        task->is_ready = true;
    else
        task->awaits = ssi_text_format("%s", dot ? dot + 1 : type);
}

/* Add the frames of TASK, the outermost first. */
static void add_frames(ssi_tasks *tasks, ssi_task *task)
{
    static const char *const generators[] = {"coroutine", "generator", "async_generator", NULL};
    static const char *const drivers[] = {"async_generator_asend", "async_generator_athrow",
                                          "anext_awaitable", "coroutine_wrapper", NULL};
    uint64_t awaitable = ssi_word(task->address + tasks->layout->coroutine);

    for (int i = 0; awaitable && i < MAX_COROUTINES; i++) {
        const char *type = ssi_object_type(awaitable);

        if (is_one_of(type, generators)) {
            awaitable = add_generator(tasks, task, awaitable);
        } else if (is_one_of(type, drivers)) {
            awaitable = ssi_word(ssi_members(awaitable) + DRIVEN);
        } else if (!strcmp(type, "_asyncio.FutureIter")) {
            add_future(tasks, task, ssi_word(ssi_members(awaitable) + DRIVEN));
            return;
        } else {
            (void)ssi_frames_add_gap(
                &tasks->frames->scripts->frames,
                "task is waiting inside an object that does not expose its frames");
            return;
        }
    }
    if (awaitable)
        (void)ssi_frames_add_gap(&tasks->frames->scripts->frames,
                                 "the rest of this task is too long");
}

/* ---- Equal stacks -----------------------------------------------------------------------------*/

static bool are_equal(const ssi_frames *frames, const ssi_task *a, const ssi_task *b)
{
    for (size_t i = 0; i < a->count && a->count == b->count; i++) {
        const ssi_frame *one = &frames->items[a->first + i], *other = &frames->items[b->first + i];

        if (one->known.address != other->known.address || one->locals != other->locals ||
            one->known.reason != other->known.reason)
            return false;
    }
    return a->count == b->count;
}

static void reverse(ssi_frame *frames, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        ssi_frame frame = frames[i];

        frames[i] = frames[count - 1 - i];
        frames[count - 1 - i] = frame;
    }
}

/* Read the stack of the task NUMBER, which is kept once for all that have it. */
static void read_stack(ssi_tasks *tasks, size_t number)
{
    ssi_scripts *scripts = tasks->frames->scripts;
    ssi_task *task = &scripts->tasks[number];
    uint64_t sum = (uint64_t)tasks->interpreter + 1;
    const uint64_t *same;

    task->first = scripts->frames.count;
    task->group = number;
    tasks->frames->locals_left = SSI_SHOWN_FRAMES + 1;
    add_frames(tasks, task);
    task->count = scripts->frames.count - task->first;
    if (!task->count)
        return;
    reverse(scripts->frames.items + task->first, task->count);
    for (size_t i = task->first; i < scripts->frames.count; i++)
        sum = (sum ^ scripts->frames.items[i].known.address) * 0x9E3779B97F4A7C15u + 1;
    same = ssi_map_find(&tasks->stacks, sum);
    if (same && are_equal(&scripts->frames, task, &scripts->tasks[*same])) {
        scripts->frames.count = task->first;
        task->first = scripts->tasks[*same].first;
        task->group = *same;
    } else {
        (void)ssi_map_put(&tasks->stacks, sum, number);
    }
}

/* ---- Who awaits a task ------------------------------------------------------------------------*/

enum {
    FIRST_CALLBACK = 24, /* the first of a future; it and the others may be missing */
    OTHER_CALLBACKS = 40,
    BUILTIN_SELF = 24,
    METHOD_FUNCTION = 16,
    METHOD_SELF = 24,
    PARTIAL_FUNCTION = 16,
    PARTIAL_ARGUMENTS = 24,
    FUNCTION_CODE = 48,
    FUNCTION_CLOSURE = 72,
    FUNCTION_MODULE = 104,
    CELL_VALUE = 16,
    IS_FREE = 0x80, /* a kind of variable: it is in the closure */
    MAX_VARIABLES = 64,
    DEQUE_BLOCK = 24, /* the first, whose values are one word behind its beginning */
    DEQUE_INDEX = 40,
    DEQUE_PLACES = 64
};

/* OBJECT awaits: a task, or a future that something else awaits. */
static void reach(ssi_tasks *tasks, uint64_t object)
{
    ssi_scripts *scripts = tasks->frames->scripts;
    const uint64_t *number = ssi_map_find(&tasks->numbers, object);

    if (number) {
        ssi_task *awaiting = &scripts->tasks[*number];

        if (awaiting->mark == tasks->awaited || scripts->awaiting_count == MAX_AWAITING)
            return;
        awaiting->mark = tasks->awaited;
        (void)ssi_append(&scripts->awaiting, &scripts->awaiting_count, &scripts->awaiting_room,
                         number, sizeof *number);
        return;
    }
    if (tasks->future_count == MAX_FUTURES || !ssi_object_is_a(object, "_asyncio.Future") ||
        ssi_object_is_a(object, "_asyncio.Task"))
        return;
    for (size_t i = 0; i < tasks->future_count; i++)
        if (tasks->futures[i] == object)
            return;
    (void)ssi_append(&tasks->futures, &tasks->future_count, &tasks->future_room, &object,
                     sizeof object);
}

/* A callback has VALUE: what it completes, or a queue from which somebody waits to read. */
static void reach_held(ssi_tasks *tasks, uint64_t value)
{
    uint64_t getters = ssi_object_attribute(tasks->frames->layout, value, "_getters"), block, index;
    uint64_t count = getters ? ssi_word(ssi_members(getters) + SSPY_VAR_SIZE) : 0;

    if (ssi_object_is_a(value, "_asyncio.Future") && is_pending(tasks, value))
        reach(tasks, value);
    if (!ssi_object_is_a(getters, "collections.deque") ||
        !ssi_read_word(ssi_members(getters) + DEQUE_BLOCK, &block) ||
        !ssi_read_word(ssi_members(getters) + DEQUE_INDEX, &index))
        return;
    for (uint64_t i = 0; i < count && index + i < DEQUE_PLACES; i++) {
        uint64_t getter = ssi_word(block + sizeof getter * (1 + index + i));

        if (getter && is_pending(tasks, getter))
            reach(tasks, getter);
    }
}

/* The variables of FUNCTION in which asyncio's functions keep what they complete. */
static void reach_closed(ssi_tasks *tasks, uint64_t function)
{
    static const char *const completed[] = {"done", "outer", "waiter", NULL};
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t code = ssi_word(ssi_members(function) + FUNCTION_CODE), key, cell;
    uint64_t closure = ssi_word(ssi_members(function) + FUNCTION_CLOSURE);
    uint64_t names = ssi_word(ssi_members(code) + SSPY_CODE_VARIABLES),
             kinds = ssi_word(ssi_members(code) + SSPY_CODE_KINDS);
    uint64_t count = ssi_word(ssi_members(kinds) + SSPY_VAR_SIZE);
    ssi_items cells;

    if (!ssi_items_begin(&cells, layout, KIND_TUPLE, closure))
        return;
    for (uint64_t i = 0; i < count && i < MAX_VARIABLES; i++) {
        const char *name;
        uint8_t kind;

        if (!ssi_read(ssi_members(kinds) + SSPY_BYTES_DATA + i, &kind, 1) || !(kind & IS_FREE))
            continue;
        name = ssi_object_name(
            layout, ssi_word(ssi_members(names) + layout->tuple_items + sizeof names * i));
        if (!ssi_items_next(&cells, &key, &cell))
            return;
        if (name && is_one_of(name, completed))
            reach_held(tasks, ssi_word(ssi_members(cell) + CELL_VALUE));
    }
}

static bool is_of_asyncio(const sspy_layout *layout, uint64_t function)
{
    uint64_t module = ssi_word(ssi_members(function) + FUNCTION_MODULE);

    return !strcmp(ssi_object_type(function), "function") &&
           (ssi_object_is(layout, module, "asyncio.tasks") ||
            ssi_object_is(layout, module, "asyncio.taskgroups"));
}

/* FIRST_CALLBACK is called when FUTURE is done. */
static void reach_by(ssi_tasks *tasks, uint64_t future, uint64_t callback)
{
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t function = callback, owner = 0, arguments = 0, key, value;
    ssi_items items;

    if (!strcmp(ssi_object_type(callback), "builtin_function_or_method")) {
        owner =
            ssi_word(ssi_members(callback) + BUILTIN_SELF); /* a task whose wake-up this may be */
        if (ssi_map_find(&tasks->numbers, owner) &&
            ssi_word(owner + tasks->layout->waiter) == future)
            reach(tasks, owner);
        return;
    }
    if (!strcmp(ssi_object_type(callback), "functools.partial")) {
        function = ssi_word(ssi_members(callback) + PARTIAL_FUNCTION);
        arguments = ssi_word(ssi_members(callback) + PARTIAL_ARGUMENTS);
    }
    if (!strcmp(ssi_object_type(function), "method")) {
        owner = ssi_word(ssi_members(function) + METHOD_SELF);
        function = ssi_word(ssi_members(function) + METHOD_FUNCTION);
    }
    if (!is_of_asyncio(layout, function))
        return;
    reach(tasks, ssi_object_attribute(layout, owner, "_parent_task"));
    reach_held(tasks, ssi_object_attribute(layout, owner, "_done"));
    if (ssi_items_begin(&items, layout, KIND_TUPLE, arguments))
        while (ssi_items_next(&items, &key, &value))
            reach_held(tasks, value);
    reach_closed(tasks, function);
}

/* Reach who awaits FUTURE, by its callbacks. */
static void reach_called(ssi_tasks *tasks, uint64_t future)
{
    const sspy_layout *layout = tasks->frames->layout;
    uint64_t first = ssi_word(ssi_members(future) + FIRST_CALLBACK), key, pair;
    ssi_items items;

    if (first)
        reach_by(tasks, future, first);
    if (ssi_items_begin(&items, layout, KIND_LIST, ssi_word(ssi_members(future) + OTHER_CALLBACKS)))
        while (items.at < MAX_FUTURES && ssi_items_next(&items, &key, &pair))
            reach_by(tasks, future, ssi_word(ssi_members(pair) + layout->tuple_items));
}

/* Reach who awaits FUTURE, as it knows them itself; false if it knows nobody. */
static bool reach_known(ssi_tasks *tasks, uint64_t future)
{
    uint64_t awaiting, key;
    uint8_t is_set = 0;
    ssi_items items;

    if (!tasks->layout->awaited_by)
        return false;
    awaiting = ssi_word(future + tasks->layout->awaited_by);
    (void)ssi_read(future + tasks->layout->awaited_by_is_set, &is_set, 1);
    if (!is_set)
        reach(tasks, awaiting);
    else if (ssi_items_begin(&items, tasks->frames->layout, KIND_SET, awaiting))
        while (ssi_items_next(&items, &key, &awaiting))
            reach(tasks, awaiting);
    return awaiting != 0;
}

static int compare_numbers(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return *a == *b ? 0 : *a < *b ? -1 : 1;
}

/* Find who awaits the task NUMBER, directly or through futures, the oldest first. */
static void find_awaiting(ssi_tasks *tasks, size_t number)
{
    ssi_scripts *scripts = tasks->frames->scripts;
    ssi_task *task = &scripts->tasks[number];

    task->awaited_by = scripts->awaiting_count;
    tasks->awaited = number + 1;
    task->mark = tasks->awaited; /* it does not await itself */
    tasks->future_count = 0;
    if (!ssi_append(&tasks->futures, &tasks->future_count, &tasks->future_room, &task->address,
                    sizeof task->address))
        return;
    /* Up to CPython 3.14.7 as_completed() does not tell the futures for which it waits. */
    for (size_t i = 0; i < tasks->future_count; i++)
        if (!reach_known(tasks, tasks->futures[i]))
            reach_called(tasks, tasks->futures[i]);
    task->awaited_by_count = scripts->awaiting_count - task->awaited_by;
    if (task->awaited_by_count)
        qsort(scripts->awaiting + task->awaited_by, task->awaited_by_count,
              sizeof *scripts->awaiting, compare_numbers);
}

/* ---- All of it --------------------------------------------------------------------------------*/

void ssi_tasks_read(ssi_tasks *tasks, uint64_t address)
{
    ssi_scripts *scripts = tasks->frames->scripts;
    const uint64_t *module = ssi_map_find(tasks->modules, address);

    if (!scripts->with_tasks || !module)
        return;
    if (!tasks->layout->name) {
        ssi_scripts_note(scripts, "tasks unknown: _asyncio does not say where they are");
        return;
    }
    if (tasks->layout->interpreter_tasks)
        add_list(tasks, address + tasks->layout->interpreter_tasks);
    add_set(tasks, *module, tasks->frames->layout->minor == 11 ? "_all_tasks" : "_scheduled_tasks");
    add_set(tasks, *module, "_eager_tasks");
    sort_tasks(tasks);
    for (size_t i = tasks->first; i < scripts->task_count; i++)
        read_stack(tasks, i);
    for (size_t i = tasks->first; i < scripts->task_count; i++)
        find_awaiting(tasks, i);
    tasks->first = scripts->task_count;
}

static void note_missing(const ssi_tasks *tasks)
{
    ssi_scripts *scripts = tasks->frames->scripts;

    if (tasks->is_cut)
        ssi_scripts_note(scripts, ssi_text_format("only %zu tasks are shown: there are more",
                                                  scripts->task_count));
    if (scripts->awaiting_count == MAX_AWAITING)
        ssi_scripts_note(scripts, "more tasks await others than are shown");
    if (tasks->foreign)
        ssi_scripts_note(scripts, ssi_text_format("tasks unknown: %zu of classes that do not "
                                                  "derive from asyncio.Task",
                                                  tasks->foreign));
}

void ssi_tasks_free(ssi_tasks *tasks)
{
    note_missing(tasks);
    free(tasks->running.entries);
    free(tasks->numbers.entries);
    free(tasks->stacks.entries);
    free(tasks->futures);
}

/* ---- Behind the stack of a thread -------------------------------------------------------------*/

const ssi_task *ssi_task_of(const ssi_scripts *scripts, int thread)
{
    const ssi_task *found = NULL;

    for (size_t i = 0; i < scripts->task_count; i++) {
        const ssi_task *task = &scripts->tasks[i];

        if (task->running && (int)(uint32_t)task->running == thread &&
            (!found || task->running < found->running))
            found = task;
    }
    return found;
}

/* The walk from a task outward, depth first.  Tasks are counted from 1, the running one. */
typedef struct walk {
    const ssi_scripts *scripts;
    ssi_frames *out;
    uint64_t *pending; /* owned; an awaited task's count, and a task that awaits it */
    size_t count, room;
    uint64_t shown[MAX_OUTSIDE];
    size_t shown_count;
} walk;

static void add_pending(walk *w, uint64_t number)
{
    const ssi_task *task = &w->scripts->tasks[number];

    w->shown[w->shown_count++] = number;
    for (size_t i = task->awaited_by_count; i; i--) {
        uint64_t pair[2] = {w->shown_count, w->scripts->awaiting[task->awaited_by + i - 1]};

        if (!ssi_append(&w->pending, &w->count, &w->room, pair, sizeof pair))
            return;
    }
}

static void add_seam(walk *w, const char *reason, const char *name)
{
    const char *whole = name ? ssi_text_format("%s: %s", reason, name) : reason;

    (void)ssi_frames_add(w->out, &(ssi_frame){.known = {.kind = STACKSPLICE_FRAME_GAP,
                                                        .language = "python",
                                                        .asynchronous = true,
                                                        .reason = whole ? whole : reason}});
}

/* Add the task NUMBER, which awaits the one with the count AWAITED; LAST is the count of that whose
   frames come just before.  False when there are too many. */
static bool add_outside(walk *w, size_t awaited, uint64_t number, size_t last)
{
    const ssi_task *task = &w->scripts->tasks[number];
    const char *reason = "awaited by another task";
    size_t at = 0;

    while (at < w->shown_count && w->shown[at] != number)
        at++;
    if (at < w->shown_count)
        reason = ssi_text_format("task %zu (counting outward) is also awaited by task %zu", awaited,
                                 at + 1);
    else if (awaited != last)
        reason =
            ssi_text_format("task %zu (counting outward) is also awaited by another task", awaited);
    if (at == MAX_OUTSIDE) {
        add_seam(w, "more awaiting tasks omitted", NULL);
        return false;
    }
    add_seam(w, reason ? reason : "out of memory", task->name);
    if (at < w->shown_count)
        return true;
    for (size_t i = 0; i < task->count; i++)
        (void)ssi_frames_add(w->out, &w->scripts->frames.items[task->first + i]);
    add_pending(w, number);
    return true;
}

void ssi_tasks_put_awaiting(const ssi_scripts *scripts, int thread, ssi_frames *stack)
{
    const ssi_task *running = ssi_task_of(scripts, thread);
    walk w = {.scripts = scripts, .out = stack};
    size_t last = 1;

    if (running)
        add_pending(&w, (uint64_t)(running - scripts->tasks));
    while (w.count) {
        const uint64_t *pair = &w.pending[2 * --w.count];

        if (!add_outside(&w, (size_t)pair[0], pair[1], last))
            break;
        last = w.shown_count;
    }
    free(w.pending);
}
