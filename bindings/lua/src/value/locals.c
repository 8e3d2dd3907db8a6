#include "value/locals.h"

#include "value/safe_text.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 };

ss_lua_locals *ss_lua_locals_new(const ss_lua_state *state)
{
    bool wanted = state->shows_locals ||
                  atomic_load_explicit(&ss_lua_the_shared->shows_locals, memory_order_relaxed);
    ss_lua_locals *locals = wanted ? malloc(sizeof *locals) : NULL;

    if (!locals)
        return NULL;
    locals->count = 0;
    locals->texts = (ss_lua_gathered){0};
    locals->log = (ss_lua_activation_log){.seen = locals->seen, .capacity = SS_LUA_LOCAL_SEEN};
    return locals;
}

void ss_lua_locals_free(ss_lua_locals *locals)
{
    if (locals)
        ss_lua_gathered_free(&locals->texts);
    free(locals);
}

/* The place of NAME among those of this activation, from BEGIN on: a variable hides an earlier one
   of its name.  NULL: there are too many. */
static stacksplice_kept_local *place_of(ss_lua_locals *locals, uint32_t begin, const char *name)
{
    for (uint32_t i = begin; i < locals->count; i++) {
        if (!strcmp(locals->all[i].local.name, name))
            return &locals->all[i];
    }
    return locals->count - begin < SS_LUA_LOCAL_VARIABLES ? &locals->all[locals->count++] : NULL;
}

/* Until the texts have their place, a text is its offset. */
static void add(ss_lua_locals *locals, uint32_t begin, uint32_t element, const char *name,
                lua_State *L)
{
    stacksplice_kept_local *place = place_of(locals, begin, name);
    ss_value_text text;

    if (!place)
        return;
    ss_value_text_init(&text, false);
    ss_lua_safe_text(L, -1, &text);
    place->element = element;
    place->local.name = name;
    place->local.value = (stacksplice_told_text){(const char *)locals->texts.length, text.length};
    (void)ss_lua_gather(text.bytes, text.length, &locals->texts);
}

static int by_name(const void *left, const void *right)
{
    const stacksplice_kept_local *a = left, *b = right;

    return strcmp(a->local.name, b->local.name);
}

/* Lua's own values among them have a name in brackets. */
static void take_frame(ss_lua_locals *locals, uint32_t element, const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};
    uint32_t begin = locals->count;
    const char *name;

    if (!lua_checkstack(seen->L, SLOTS))
        return;
    for (int n = 1; (name = lua_getlocal(seen->L, &activation, n)) != NULL; n++) {
        if (*name != '(')
            add(locals, begin, element, name, seen->L);
        lua_pop(seen->L, 1);
    }
    qsort(locals->all + begin, locals->count - begin, sizeof *locals->all, by_name);
}

void ss_lua_locals_take(ss_lua_locals *locals, stacksplice_exception_parts *parts)
{
    uint32_t seen = 0, at = 0, frames = 0, before;
    uint32_t most = locals->log.capacity / 2;
    uint32_t inner = locals->log.count < most ? locals->log.count : most;

    for (; seen < inner && frames < SS_LUA_LOCAL_FRAMES; seen++) {
        const ss_lua_seen *one = ss_lua_seen_at(&locals->log, seen);
        uint32_t found = at;

        while (found < parts->frame_count && parts->frames[found] != one->element)
            found++;
        if (found == parts->frame_count)
            continue;
        before = locals->count;
        take_frame(locals, found, one);
        frames += locals->count > before; /* C functions have no variables */
        at = found + 1;
    }
    if (locals->texts.failed)
        return; /* an error without them is still an error */
    for (uint32_t i = 0; i < locals->count; i++) {
        stacksplice_told_text *value = &locals->all[i].local.value;

        value->text = locals->texts.text + (size_t)value->text;
    }
    parts->locals = locals->all;
    parts->local_count = locals->count;
}
