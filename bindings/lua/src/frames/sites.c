/* Finds the interpreter's call sites among the native frames, and their coroutines. */
#include "frames/collection.h"

#include <sys/mman.h>

static bool read_place(const stacksplice_walk *walk, uint32_t frame, ss_lua_place place,
                       uintptr_t *value)
{
    uintptr_t address;

    if (place.kind == SS_LUA_REGISTER)
        return stacksplice_walk_register(walk, frame, place.at, value) != 0;
    address = walk->frames[frame].sp + place.at;
    if (address < walk->stack_low || address > walk->stack_high - sizeof *value)
        return false;
    *value = ss_lua_word(address);
    return true;
}

/* The lua_State and the CallInfo at a site. */
static bool read_site(const stacksplice_walk *walk, uint32_t frame, const ss_lua_site *site,
                      uintptr_t found[2])
{
    const uint32_t registers[2] = {site->state.at, site->ci.at};
    bool both = site->state.kind == SS_LUA_REGISTER && site->ci.kind == SS_LUA_REGISTER;

    if (both ? !stacksplice_walk_registers(walk, frame, registers, 2, found)
             : !read_place(walk, frame, site->state, &found[0]) ||
                   !read_place(walk, frame, site->ci, &found[1]))
        return false;
    return found[0] && found[1];
}

ss_lua_interpreter *ss_lua_interpreter_of(ss_lua_collection *c, lua_State *L)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
    ss_lua_interpreter *interpreter;

    for (uint32_t i = 0; i < c->interpreter_count; i++)
        if (c->interpreters[i].registry == registry)
            return &c->interpreters[i];
    if (c->interpreter_count == SS_LUA_INTERPRETERS) {
        c->interpreters[SS_LUA_INTERPRETERS] = (ss_lua_interpreter){0};
        return &c->interpreters[SS_LUA_INTERPRETERS];
    }
    interpreter = &c->interpreters[c->interpreter_count++];
    *interpreter =
        (ss_lua_interpreter){.registry = registry, .record = ss_lua_state_of_registry(registry)};
    if (!interpreter->record) {
        atomic_store_explicit(ss_lua_known_place(L), NULL, memory_order_relaxed);
        return interpreter;
    }
    interpreter->cache = ss_lua_cache_of(interpreter->record);
    interpreter->cache->captured = true;
    interpreter->rest = interpreter->record->capturing;
    if (interpreter->rest && !c->capturing)
        c->capturing = interpreter->rest;
    if (!c->log)
        c->log = ss_lua_cache_of(interpreter->record)->log;
    return interpreter;
}

/* Whether CI is an activation of L, whose innermost one it mostly is. */
static bool is_activation(lua_State *L, uintptr_t ci)
{
    uintptr_t at = ss_lua_innermost(L);

    for (uint32_t i = 0; at && at != ci && i < SS_LUA_RUN_LIMIT; i++)
        at = ss_lua_outer(at);
    return at != 0;
}

/* Link the site to the next one further in of the same coroutine, if there is one. */
static void link_site(ss_lua_collection *c, uint16_t index)
{
    ss_lua_call_site *site = &c->sites[index];
    uint16_t *chain = &c->threads[((uintptr_t)site->L >> 4) % SS_LUA_THREAD_CHAINS];
    uint16_t first = *chain;

    while (first != SS_LUA_NO_SITE && c->sites[first].L != site->L)
        first = c->sites[first].next_thread;
    site->first = first == SS_LUA_NO_SITE;
    if (!site->first) {
        site->interpreter = c->sites[first].interpreter;
        c->sites[c->sites[first].latest].stop = site->ci;
        c->sites[first].latest = index;
        site->latest = first;
        return;
    }
    site->interpreter = ss_lua_interpreter_of(c, site->L);
    site->closed = !is_activation(site->L, site->ci);
    site->latest = index;
    site->next_thread = *chain;
    *chain = index;
}

/* Whether a frame continues what the last site hides; then it is hidden too. */
static inline bool hide(ss_lua_collection *c, uint32_t frame)
{
    ss_lua_call_site *last = &c->sites[c->site_count];

    if (c->site_count == 0 || frame != last[-1].frame + last[-1].hidden)
        return false;
    last[-1].hidden++;
    return true;
}

/* The frame inside of a site is the C function that it called: never the interpreter's. */
static inline void keep_callee(ss_lua_collection *c, uint32_t frame)
{
    ss_lua_call_site *last = &c->sites[c->site_count];

    if (c->site_count > 0 && frame == last[-1].frame + last[-1].hidden && last[-1].hidden > 1)
        last[-1].hidden--;
}

static bool add_site(ss_lua_collection *c, uint32_t frame, const ss_lua_site *site)
{
    uintptr_t found[2];

    if (!read_site(c->walk, frame, site, found)) {
        (void)hide(c, frame);
        return true;
    }
    if (c->site_count == c->site_room) {
        c->too_many = true;
        return false;
    }
    keep_callee(c, frame);
    c->sites[c->site_count] = (ss_lua_call_site){.frame = frame,
                                                 .hidden = 1,
                                                 .hook = site->hook,
                                                 .L = (lua_State *)found[0],
                                                 .ci = found[1]};
    link_site(c, (uint16_t)c->site_count++);
    return true;
}

/* Whether MARK is that of a frame which add_site takes. */
static bool is_site(uint8_t mark)
{
    return mark && mark != SS_LUA_MARK_INTERNAL && mark != SS_LUA_MARK_NEAR &&
           mark != SS_LUA_MARK_API;
}

/* For many sites, map memory: a signal may have interrupted the allocator.  Without it keep the near
   sites and leave a gap for the rest. */
static void make_room(ss_lua_collection *c, uint32_t end)
{
    uint32_t wanted = 0;
    void *map;

    c->sites = c->near_sites;
    c->site_room = SS_LUA_NEAR_SITES;
    if (end <= SS_LUA_NEAR_SITES)
        return;
    for (uint32_t i = 0; i < end && wanted < SS_LUA_CAPTURE_SITES; i++)
        wanted += is_site(ss_lua_mark_of(c, c->marks ? c->walk->marked[i] : i));
    if (wanted <= SS_LUA_NEAR_SITES)
        return;
    map = mmap(NULL, wanted * sizeof *c->sites, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    if (map == MAP_FAILED)
        return;
    c->sites = map;
    c->site_room = wanted;
}

void ss_lua_end_sites(ss_lua_collection *c)
{
    if (c->sites != c->near_sites)
        (void)munmap(c->sites, c->site_room * sizeof *c->sites);
}

void ss_lua_find_sites(ss_lua_collection *c)
{
    uint32_t end = c->marks ? c->walk->marked_count : c->walk->frame_count;

    make_room(c, end);
    for (uint32_t i = 0; i < end; i++) {
        uint32_t frame = c->marks ? c->walk->marked[i] : i;
        uint8_t mark = ss_lua_mark_of(c, frame);

        if (mark == SS_LUA_MARK_INTERNAL) {
            if (!hide(c, frame))
                ss_lua_missed_note(c, frame);
        } else if (mark == SS_LUA_MARK_NEAR) {
            (void)hide(c, frame);
        } else if (is_site(mark) && !add_site(c, frame, &c->layout->sites[mark - 1])) {
            return;
        }
    }
}
