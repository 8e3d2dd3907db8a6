/*
 * Debug information through elfutils' libdw.  It is loaded when the first native address is
 * resolved and never linked, so the core works without it.
 *
 * A session (Dwfl) holds only the modules that were requested, one by one.  Reporting all modules
 * of a large process takes longer than a first answer may.
 */
#include "resolve/debuginfo_session.h"

#include "base/alloc.h"

#include <string.h>

typedef struct known_module {
    uintptr_t start;
    uintptr_t bias;
    Dwfl_Module *module; /* NULL: nothing usable on disk */
    bool replaced;       /* because there is another file */
} known_module;

/* (LOCK of native.c) everything below */
static ss_session session;
static uint64_t session_generation;
static known_module *known;
static size_t known_count, known_room;

/* Search by build-id, then by name: libdw's own wider search could ask a debuginfod server. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **out)
{
    int fd = ss_dw->dwfl_build_id_find_debuginfo(module, data, name, base, file, link, crc, out);

    return ss_session_note(&session, fd < 0 ? ss_debuglink_open(name, link, crc) : fd);
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = ss_session_find_elf,
    .find_debuginfo = find_debuginfo,
};

static void forget_all(void)
{
    ss_session_end(&session);
    ss_free(known);
    known = NULL;
    known_count = known_room = 0;
}

void ss_debug_refresh(uint64_t generation)
{
    if (generation != session_generation)
        forget_all();
    session_generation = generation;
}

void ss_debug_close(void)
{
    forget_all();
    ss_debug_forget_files();
    ss_debug_stop();
}

/*
 * The file on disk may have been replaced since it was mapped; then it does not describe the
 * module.
 */
static Dwfl_Module *report(const ss_binary *module, bool *replaced)
{
    Dwfl_Module *found;
    GElf_Addr bias;

    if (!*module->path)
        return NULL;
    ss_dw->dwfl_report_begin_add(session.dwfl);
    found = ss_dw->dwfl_report_module(session.dwfl, module->path, module->start, module->end);
    ss_dw->dwfl_report_end(session.dwfl, NULL, NULL);
    if (!found || !ss_dw->dwfl_module_getelf(found, &bias))
        return NULL;
    *replaced = !ss_session_same_build(found, module->build_id) ||
                (!*module->build_id && !ss_file_is_mapped(module));
    return *replaced || bias != module->bias ? NULL : found;
}

void ss_debug_make_room(void)
{
    known_module *grown;

    if (known_count < known_room)
        return;
    grown = ss_realloc(known, known_room + 8, sizeof *known);
    if (!grown)
        return;
    known = grown;
    known_room += 8;
}

static const known_module *module_for(const ss_binary *module)
{
    for (size_t i = 0; i < known_count; i++) {
        if (known[i].start == module->start && known[i].bias == module->bias)
            return &known[i];
    }
    if (!ss_session_begin(&session, &callbacks) || known_count == known_room)
        return NULL;
    known[known_count] = (known_module){module->start, module->bias, NULL, false};
    known[known_count].module = report(module, &known[known_count].replaced);
    return &known[known_count++];
}

typedef struct question {
    const ss_binary *module;
    uintptr_t address;
    bool (*is_enough)(const char *symbol);
    ss_debug_answer *answer;
} question;

static void look_up(void *data)
{
    const question *q = data;
    const known_module *module = module_for(q->module);

    if (module && module->module)
        ss_debug_answer_from(module->module, q->address, q->is_enough, q->answer);
    q->answer->replaced = module && module->replaced;
}

void ss_debug_lookup(const ss_binary *module, uintptr_t address,
                     bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    question q = {module, address, is_enough, answer};

    if (!ss_debug_run(look_up, &q))
        memset(answer, 0, sizeof *answer);
}
