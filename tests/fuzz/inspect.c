/*
 * The memory of a process of any content: interpreters, their frames and values, Lua states,
 * errors.
 *
 * Input: a head, then pieces of memory: the address, the size, the bytes.  Pieces that overlap one
 * before them are left out.
 */
#include "input.h"

#include "inspection.h"

#include "inspect_texts.h"

#include <elf.h>
#include <sys/mman.h>

enum { MAX_PIECES = 4096, LUAJIT = 255 };

typedef struct head {
    uint64_t runtime, version, block; /* addresses */
    uint64_t registers[SSI_MAX_REGISTERS];
    uint8_t lua, locals, live, tasks, unused[4]; /* TASKS: their table is where the block is */
} head;

typedef struct memory {
    ssi_target target; /* its mappings are the pieces, by their number */
    const uint8_t *pieces[MAX_PIECES];
} memory;

static bool read_pieces(void *data, uint64_t address, void *out, size_t size)
{
    const memory *m = data;

    while (size) {
        const ssi_mapping *mapping = ssi_target_mapping(&m->target, address);
        size_t now = size;

        if (!mapping)
            return false;
        if (now > mapping->end - address)
            now = (size_t)(mapping->end - address);
        memcpy(out, m->pieces[mapping->segment] + (address - mapping->start), now);
        out = (char *)out + now;
        address += now;
        size -= now;
    }
    return true;
}

static int by_start(const void *left, const void *right)
{
    const ssi_mapping *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* One mapping for each piece. */
static void take_pieces(memory *m, input *in)
{
    ssi_target *t = &m->target;

    for (size_t i = 0; in->left && i < MAX_PIECES; i++) {
        ssi_mapping mapping = {.writable = true, .segment = i};
        uint16_t size;

        input_bytes(in, &mapping.start, sizeof mapping.start);
        input_bytes(in, &size, sizeof size);
        size = size < in->left ? size : (uint16_t)in->left;
        mapping.end = mapping.start + size;
        m->pieces[i] = in->at;
        in->at += size;
        in->left -= size;
        if (ssi_target_mapping(t, mapping.start) || ssi_target_mapping(t, mapping.end - 1) ||
            mapping.end <= mapping.start)
            continue;
        ALWAYS(ssi_target_add_mapping(t, &mapping));
        qsort(t->mappings, t->mapping_count, sizeof *t->mappings, by_start);
    }
}

static void begin(const head *h, ssi_target *target, ssi_inspection *i)
{
    ssi_thread *thread = ssi_target_add_thread(target, 1);

    ALWAYS(thread);
    memcpy(thread->registers, h->registers, sizeof thread->registers);
    thread->has_registers = true;
    ssi_target_find_stacks(target);
    i->scripts.with_locals = h->locals;
    i->scripts.with_tasks = h->tasks;
    i->pythons.items[0] =
        (ssi_python){.runtime = h->runtime, .version_at = h->version, .path = "python"};
    i->pythons.count = i->pythons.task_table_count = 1;
    i->pythons.task_tables[0] = h->block;
    ssi_pythons_learn(&i->pythons);
    i->blocks.addresses[0] = h->block;
    i->blocks.count = 1;
    if (ssi_lua_layout_of(h->lua) || h->lua == LUAJIT) {
        static const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB};
        void *empty = mmap(NULL, sizeof(Elf64_Ehdr), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ssi_lua lua = {.layout = ssi_lua_layout_of(h->lua)};

        ALWAYS(empty != MAP_FAILED);
        memcpy(empty, ident, sizeof ident);
        lua.end = h->lua == LUAJIT ? UINT64_MAX : 0; /* all code may be LuaJIT's */
        lua.binary = (ssi_binary){.bytes = empty, .size = sizeof(Elf64_Ehdr)}; /* it is unmapped */
        i->luas.copies[i->luas.copy_count++] = lua;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static memory m;
    input in = {bytes, size};
    ssi_inspection i = {.has_token = false};
    head h;

    if (!freopen("/dev/null", "w", stdout))
        return 0;
    m.target = (ssi_target){.machine = ssi_machine_own()};
    ssi_read_by(read_pieces, &m);
    input_bytes(&in, &h, sizeof h);
    take_pieces(&m, &in);
    m.target.is_live = h.live;
    begin(&h, &m.target, &i);
    ssi_inspection_read(&i, &m.target);
    ALWAYS(ssi_inspection_write(&i, &m.target));
    ssi_inspection_free(&i);
    ssi_target_free(&m.target);
    forget_texts();
    return 0;
}
