/*
 * What Lua's own loop runs, in no call to C, so that no call site tells of it: a signal has
 * interrupted it, or its allocator captures.  It is a coroutine that the innermost site's function
 * has resumed or closes, or a state whose address lies in these frames.  Nothing else is followed.
 */
#include "frames/splice.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* Frames of the interpreter from FIRST up to END; RESUMED: lua_resume is outward of them. */
typedef struct loop {
    uint32_t first, end;
    bool resumed;
} loop;

static bool is_of_lua(const ss_lua_collection *c, uint32_t frame)
{
    uint8_t mark = ss_lua_mark_of(c, frame);

    return mark == SS_LUA_MARK_INTERNAL || mark == SS_LUA_MARK_NEAR;
}

/* The innermost frames of the interpreter, if they are inside of all sites. */
static bool find_loop(const ss_lua_collection *c, loop *found)
{
    uint32_t limit = c->walk->frame_count;
    bool is_sure = false;
    uint32_t at = 0;

    if (c->site_count) /* the frame inside of it is that of the function that it called */
        limit = c->sites[0].frame ? c->sites[0].frame - 1 : 0;
    while (at < limit && !is_of_lua(c, at))
        at++;
    for (found->first = at; at < limit && is_of_lua(c, at); at++)
        is_sure |= ss_lua_mark_of(c, at) == SS_LUA_MARK_INTERNAL;
    found->end = at;
    found->resumed = ss_lua_resumes_between(c, at, limit);
    return is_sure;
}

/* Whether a call to C that has no known site is inside of all sites. */
static bool calls_unknown(const ss_lua_collection *c, const loop *in)
{
    for (uint32_t i = 0; i < c->missed_count; i++)
        if (c->missed[i].frame < in->end && (c->missed[i].ci || !c->missed[i].may_be_none))
            return true;
    return false;
}

/*
 * COUNT words, which the kernel reads: Lua's stack may just be moving, and native frames have words
 * that nobody has written.
 */
static bool read_words(uintptr_t address, uintptr_t *words, size_t count)
{
    size_t size = count * sizeof *words;
    struct iovec to = {words, size}, from = {(void *)address, size};
    int saved_errno = errno;
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    bool may_not = got < 0 && errno != EFAULT;

    errno = saved_errno;
    for (size_t i = 0; may_not && i < count; i++)
        words[i] = ss_lua_word(address + i * sizeof *words);
    return may_not || got == (ssize_t)size;
}

static bool read_word(uintptr_t address, uintptr_t *word)
{
    return read_words(address, word, 1);
}

/* Whether L runs a function of Lua: neither suspended, nor ended, nor in a function in C. */
static bool runs_lua(lua_State *L)
{
    uintptr_t ci = lua_status(L) == LUA_OK ? ss_lua_innermost(L) : 0, slot, tag, function;

    return ci && read_word(ci + SSI_LUA_CALL_FUNCTION, &slot) &&
           read_word(slot + sizeof slot, &tag) && (uint8_t)tag == SSI_LUA_TAG_LUA &&
           read_word(slot, &function) && read_word(function, &function);
}

/* The coroutine that the function of SITE has resumed or is closing: coroutine.wrap has it as an
   upvalue, others as an argument.  None but one that runs now is in Lua code. */
static lua_State *entered_by(const ss_lua_call_site *site)
{
    lua_State *parent = site->L, *found;

    if (site->hook || ss_lua_innermost(parent) != site->ci)
        return NULL;
    found = lua_tothread(parent, lua_upvalueindex(1));
    for (int i = 1; !found && i <= lua_gettop(parent); i++)
        found = lua_tothread(parent, i);
    return found && found != parent && runs_lua(found) ? found : NULL;
}

static bool lies_in(const ss_lua_collection *c, const loop *in, lua_State *L)
{
    const stacksplice_walk *walk = c->walk;
    uintptr_t at = walk->frames[in->first].sp, end = walk->stack_high;

    if (in->end + 1 < walk->frame_count)
        end = walk->frames[in->end + 1].sp;
    if (at < walk->stack_low || end > walk->stack_high)
        return false;
    while (at + sizeof at <= end) {
        uintptr_t words[64];
        size_t count = (end - at) / sizeof at;

        count = count < 64 ? count : 64;
        if (!read_words(at, words, count))
            return false;
        for (size_t i = 0; i < count; i++)
            if (words[i] == (uintptr_t)L)
                return true;
        at += count * sizeof at;
    }
    return false;
}

static bool has_site(const ss_lua_collection *c, lua_State *L)
{
    for (uint32_t i = 0; i < c->site_count; i++)
        if (c->sites[i].L == L)
            return true;
    return false;
}

/* The only state, without a site, whose address lies in the frames. */
static lua_State *state_in(const ss_lua_collection *c, const loop *in)
{
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);
    lua_State *found = NULL;

    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE)) {
        if (!atomic_load(&state->registry) || has_site(c, state->main) ||
            !lies_in(c, in, state->main))
            continue;
        if (found)
            return NULL;
        found = state->main;
    }
    return found && runs_lua(found) ? found : NULL;
}

bool ss_lua_push_running(ss_lua_collection *c)
{
    ss_lua_call_site *site = &c->running; /* which the rest of the run may need later */
    loop in;

    if (c->capturing || !find_loop(c, &in) || calls_unknown(c, &in))
        return true;
    stacksplice_walk_refuse(c->walk); /* it depends on more than is reported */
    *site = (ss_lua_call_site){.first = true};
    if (c->site_count)
        site->L = entered_by(&c->sites[0]);
    else if (!in.resumed)
        site->L = state_in(c, &in);
    if (!site->L)
        return !in.resumed || (ss_lua_splice(c, in.first, in.end - in.first) &&
                               ss_lua_push(c, ss_lua_gap("frames of a coroutine missing: "
                                                         "not known which one runs here")));
    site->frame = in.first;
    site->interpreter = ss_lua_interpreter_of(c, site->L);
    ss_lua_log_coroutine(c, site->L);
    return ss_lua_splice(c, in.first, in.end - in.first) &&
           ss_lua_push_run_here(c, site, in.first, ss_lua_innermost(site->L),
                                STACKSPLICE_TRUST_INFERRED, 0);
}
