#include "resolve/lua_api.h"

#include "splice/source.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/*
 * What follows "lua_".  Hosts like to name their own functions lua_open_window; those are not of
 * the API.  The first ones run functions of scripts, metamethods among them, whoever calls them.
 */
static const char *const entries[] = {
    "arith",    "call",      "callk",    "close",    "closeslot", "closethread", "compare",
    "concat",   "cpcall",    "equal",    "gc",       "getfield",  "getglobal",   "geti",
    "gettable", "len",       "lessthan", "pcall",    "pcallk",    "resetthread", "resume",
    "setfield", "setglobal", "seti",     "settable",
};

/* These may run finalizers. */
static const char *const others[] = {
    "checkstack",   "createtable",  "dump",        "error",         "getinfo",     "getiuservalue",
    "getuservalue", "load",         "newstate",    "newthread",     "newuserdata", "newuserdatauv",
    "next",         "pushcclosure", "pushfstring", "pushlstring",   "pushstring",  "pushvfstring",
    "rawset",       "rawseti",      "rawsetp",     "setiuservalue", "setlocal",    "setmetatable",
    "settop",       "setuservalue", "toclose",     "tolstring",     "warning",     "xmove",
    "yield",        "yieldk",
};

/* Whether NAME is "lua_" and one of NAMES, or a part of it: lua_callk, lua_callk.cold. */
static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    static const char prefix[] = "lua_";

    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);

        if (!strncmp(name, names[i], length) && (!name[length] || name[length] == '.'))
            return true;
    }
    return false;
}

static bool is_entry(const char *name)
{
    return is_one_of(name, entries, SS_COUNT_OF(entries));
}

bool ss_lua_api_is(const char *name)
{
    return is_entry(name) || is_one_of(name, others, SS_COUNT_OF(others));
}

/* Whether a frame source reads the copy of Lua that has code at ADDRESS: its identity is beside. */
static bool is_read(uintptr_t address)
{
    Dl_info code, interpreter;

    if (!dladdr((void *)(address - 1), &code))
        return true; /* unloaded since: nobody can say */
    for (uint32_t i = 0; i < ss_source_count(); i++) {
        const stacksplice_source *source = ss_source_at(i);

        if (!strcmp(source->language, "lua") && dladdr(source->identity, &interpreter) &&
            interpreter.dli_fbase == code.dli_fbase)
            return true;
    }
    return false;
}

bool ss_lua_gap_find(const ss_frame *frames, uint32_t count, ss_lua_gap *gap)
{
    const stacksplice_frame *last = &frames[count - 1].frame;
    bool enters = false;

    for (uint32_t i = 0; i < count; i++)
        enters |= !frames[i].script_named && frames[i].frame.function &&
                  is_entry(frames[i].frame.function);
    if (!enters || !last->module || is_read(last->address))
        return false;
    memset(gap, 0, sizeof *gap);
    (void)snprintf(gap->reason, sizeof gap->reason,
                   "these Lua frames are not known: no stacksplice module is loaded in %s; require "
                   "\"stacksplice\" in that Lua",
                   ss_base_name(last->module));
    gap->frame.frame = (stacksplice_frame){.size = sizeof gap->frame.frame,
                                           .kind = STACKSPLICE_FRAME_GAP,
                                           .trust = STACKSPLICE_TRUST_EXACT,
                                           .language = "lua",
                                           .reason = gap->reason,
                                           .address = last->address};
    return true;
}
