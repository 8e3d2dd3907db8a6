#include "python/activity.h"

/* A lock is believed only if it looks like one: 3.11 and 3.12 do not say where it is. */
static void read_lock(const ssi_memory *memory, uint64_t lock, ssi_python_activity *activity)
{
    uint64_t holder;
    int32_t held;

    if (!ssi_read(memory, lock + SSI_LOCK_HELD, &held, sizeof held) || held < -1 || held > 1 ||
        !ssi_read_word(memory, lock + SSI_LOCK_HOLDER, &holder))
        return;
    activity->lock = lock;
    if (held == 1)
        activity->holder = holder;
}

void ssi_python_activity_read(ssi_python_activity *activity, const ssi_memory *memory,
                              const ssi_python_layout *layout, uint64_t runtime)
{
    uint64_t lock = runtime + layout->runtime_lock, at = activity->interpreter;
    int32_t collects = 0;

    if (layout->interpreter_lock)
        (void)ssi_read_word(memory, at + layout->interpreter_lock, &lock);
    read_lock(memory, lock, activity);
    (void)ssi_read(memory, at + layout->interpreter_collecting, &collects, sizeof collects);
    activity->collects = collects == 1;
    if (activity->collects && layout->interpreter_collector)
        (void)ssi_read_word(memory, at + layout->interpreter_collector, &activity->frame);
}

void ssi_python_attach(ssi_python_activity *activity, ssi_scripts *scripts, uint64_t address,
                       int thread, const char *name, bool began)
{
    if (activity->collects && (began || !activity->frame)) {
        activity->collectors++;
        activity->collector = scripts->attached_count;
    }
    (void)ssi_scripts_add_attached(scripts, &(ssi_attached){.thread = thread,
                                                            .interpreter = activity->number,
                                                            .name = name,
                                                            .lock = activity->lock,
                                                            .holds = activity->holder == address});
}

void ssi_python_mark_collector(ssi_scripts *scripts, const ssi_python_activity *activity)
{
    if (activity->collectors == 1 && activity->collector < scripts->attached_count)
        scripts->attached[activity->collector].collects = true;
}
