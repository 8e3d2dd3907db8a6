#include "lua/private.h"

#include "base/base.h"
#include "lua/lua.h"
#include "target/binary.h"

#include <stdlib.h>
#include <string.h>

/* Finds the copies of Lua in a target by the mark that its authors put into each, stripped or not.
 */

static const char mark[] = "$LuaVersion: Lua 5.";

/* The minor version of the Lua in SIZE bytes of a binary; -1 if it has none. */
static int version_in(const char *bytes, size_t size)
{
    const char *found = bytes;

    while (size >= sizeof mark && (found = memchr(bytes, *mark, size - sizeof mark + 1)) != NULL) {
        if (!memcmp(found, mark, sizeof mark - 1))
            return found[sizeof mark - 1] - '0';
        size -= (size_t)(found + 1 - bytes);
        bytes = found + 1;
    }
    return -1;
}

/* That in what of BINARY is mapped: symbols and debug information can be many times as much. */
static int mapped_version(const ssi_binary *binary)
{
    Elf64_Phdr program;
    int minor = -1;

    for (unsigned i = 0; minor < 0 && ssi_binary_program(binary, i, &program); i++) {
        const void *part = program.p_type == PT_LOAD
                               ? ssi_binary_part(binary, program.p_offset, program.p_filesz)
                               : NULL;

        if (part)
            minor = version_in(part, (size_t)program.p_filesz);
    }
    return minor;
}

bool ssi_lua_add(ssi_luas *luas, const ssi_binary *binary, const ssi_mapping *mapping, uint64_t end,
                 ssi_scripts *scripts)
{
    int minor = mapped_version(binary);
    const ssi_lua_layout *layout = ssi_lua_layout_of(minor);

    if (layout && luas->copy_count < SSI_MAX_LUAS) {
        luas->copies[luas->copy_count++] = (ssi_lua){layout, mapping->start, end, *binary};
        return true;
    }
    if (!layout && minor >= 0 && minor <= 9)
        ssi_scripts_note(scripts,
                         ssi_text_format("cannot read Lua frames of %.200s: Lua 5.%d is not known",
                                         mapping->path, minor));
    return false;
}

enum { MAX_LINES = 1 << 22, INSTRUCTION = 4, STORED_WHOLE = -128 };

/* The name that Lua itself shows for a chunk: of a file, as its host named it, or its first line.
 */
static const char *shown_source(const char *source)
{
    if (!source)
        return NULL;
    if (*source == '@' || *source == '=')
        return ssi_text(source + 1, strlen(source + 1));
    return ssi_text_format("[string \"%.*s%s\"]", (int)strcspn(source, "\n"), source,
                           strchr(source, '\n') ? "..." : "");
}

/* The last line that is stored whole for an instruction up to PC; *BASE is that instruction. */
static int32_t known_line(const ssi_lua_layout *layout, uint64_t proto, int32_t pc, int32_t *base)
{
    int32_t line = ssi_lua_number(proto + layout->proto_line), row[2];
    int32_t low = 0, high = ssi_lua_number(proto + SSI_LUA_PROTO_KNOWN_COUNT);
    uint64_t rows = ssi_word(proto + SSI_LUA_PROTO_KNOWN);

    *base = -1;
    if (high > MAX_LINES)
        return line;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (!ssi_read(rows + (uint64_t)middle * sizeof row, row, sizeof row))
            return line;
        if (row[0] <= pc) {
            *base = row[0];
            line = row[1];
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return line;
}

/* The line of instruction PC: each has its line, or the difference to the one before. */
static uint32_t line_of(const ssi_lua_layout *layout, uint64_t proto, int32_t pc)
{
    uint64_t lines = ssi_word(proto + layout->proto_lines);
    int32_t count = ssi_lua_number(proto + SSI_LUA_PROTO_LINE_COUNT), at, line;

    if (!lines || pc < 0 || pc >= count || count > MAX_LINES)
        return 0;
    if (layout->whole_lines)
        return (uint32_t)ssi_lua_number(lines + (uint64_t)pc * sizeof line);
    line = known_line(layout, proto, pc, &at);
    while (at++ < pc) {
        int8_t difference;

        if (!ssi_read(lines + (uint64_t)at, &difference, 1) || difference == STORED_WHOLE)
            return 0;
        line += difference;
    }
    return line > 0 ? (uint32_t)line : 0;
}

static ssi_frame frame_of(const ssi_lua_layout *layout, const ssi_lua_call *call, const char *name)
{
    uint64_t function = ssi_word(call->function), pc = call->pc;
    uint64_t proto = ssi_word(function + SSI_LUA_CLOSURE_PROTO);
    uint64_t code = ssi_word(proto + layout->proto_code);
    int32_t defined = ssi_lua_number(proto + layout->proto_line);
    const char *source = shown_source(ssi_lua_text(layout, ssi_word(proto + layout->proto_source)));
    ssi_frame frame = {.kind = SSI_SCRIPT,
                       .inferred = true,
                       .language = "lua",
                       .address = pc,
                       .file = source,
                       .function = name ? name : "main chunk"};

    if (!name && defined)
        frame.function = ssi_text_format("function <%s:%d>", source ? source : "?", (int)defined);
    if (pc > code && pc - code <= (uint64_t)MAX_LINES * INSTRUCTION)
        frame.line = line_of(layout, proto, (int32_t)((pc - code) / INSTRUCTION) - 1);
    return frame;
}

/*
 * The interpreter's loop keeps its place in a register, and writes it to memory only before what
 * may call or fail.  Of the registers that calls keep, some point into the function's code: at the
 * next instruction, at the one that runs, or where it jumps to.  Often the instruction itself is in
 * a register, too, and says which.
 */

enum { OPERATIONS = 128 };

/* Whether a register has the instruction at ADDRESS.  One without operands is any small number. */
static bool is_held(const ssi_target *target, const ssi_thread *thread, uint64_t address)
{
    uint32_t instruction;

    if (!ssi_read(address, &instruction, sizeof instruction) || instruction < OPERATIONS)
        return false;
    for (size_t i = 0; i < target->machine->registers; i++)
        if ((uint32_t)thread->registers[i] == instruction)
            return true;
    return false;
}

static void find_pc(const ssi_target *target, const ssi_lua_layout *layout,
                    const ssi_thread *thread, ssi_lua_call *call)
{
    const ssi_machine *machine = target->machine;
    uint64_t proto = ssi_word(ssi_word(call->function) + SSI_LUA_CLOSURE_PROTO);
    uint64_t code = ssi_word(proto + layout->proto_code), last = 0;
    uint64_t size =
        (uint32_t)ssi_lua_number(proto + SSI_LUA_PROTO_CODE_COUNT) * (uint64_t)INSTRUCTION;

    for (size_t i = 0; i < machine->saved_count; i++) {
        uint64_t value = thread->registers[machine->saved[i]];

        if (!code || value < code || value - code > size || value % INSTRUCTION)
            continue;
        if (value > code && is_held(target, thread, value - INSTRUCTION)) {
            call->pc = value;
            return;
        }
        if (is_held(target, thread, value)) {
            call->pc = value + INSTRUCTION;
            return;
        }
        if (value > last)
            last = value;
    }
    if (last > code)
        call->pc = last;
}

/*
 * A word on a stack is a lua_State only if it has the type of one, and its calls form one chain
 * down to the first, each with a function of the right kind further down its stack.
 */

enum {
    MAX_CALLS = 1 << 16,
    MAX_SCAN = 8 << 20,      /* bytes of a stack in a core file, as long as most can be */
    MAX_SCAN_LIVE = 1 << 20, /* of one that waits for us */
    TRIED = 1 << 14,
    EXTRA = 64 * 16 /* bytes that a stack has beyond its end */
};

typedef struct reader {
    const ssi_target *target;
    ssi_luas *luas;
    ssi_scripts *scripts;
    const ssi_lua_layout *layout;
    const ssi_thread *thread; /* whose stack is searched */
    bool has_more;            /* states than there is room for */
    uint64_t tried[TRIED];    /* by their hash; a later one replaces an earlier one */
    ssi_lua_names names;
    int locals_left; /* so many frames of the thread may still show theirs */
} reader;

/* ---- Calls ------------------------------------------------------------------------------------*/

/* Whether the calls from ADDRESS outward are those of STATE. */
static bool is_chain(reader *r, uint64_t state, uint64_t address)
{
    uint64_t low = 0, high = 0, last = UINT64_MAX;
    ssi_lua_call c;

    if (!ssi_read_word(state + r->layout->state_stack, &low) ||
        !ssi_read_word(state + r->layout->state_stack_last, &high) || low >= high)
        return false;
    for (int calls = 0; calls < MAX_CALLS; calls++) {
        if (!ssi_lua_read_call(r->layout, address, &c) || c.function < low ||
            c.function >= high + EXTRA || c.function >= last)
            return false;
        if (address == state + SSI_LUA_STATE_BASE_CALL)
            return !c.previous;
        if (c.is_c ? c.tag != SSI_LUA_TAG_LIGHT && c.tag != SSI_LUA_TAG_CLOSURE
                   : c.tag != SSI_LUA_TAG_LUA)
            return false;
        last = c.function;
        address = c.previous;
    }
    return false;
}

/* ---- Runs -------------------------------------------------------------------------------------*/

static bool end_run(reader *r, ssi_lua_state *state, ssi_lua_run *run)
{
    run->count = r->scripts->frames.count - run->first;
    if (run->count) {
        if (!ssi_append(&r->luas->runs, &r->luas->run_count, &r->luas->run_room, run, sizeof *run))
            return false;
        state->count++;
    }
    *run = (ssi_lua_run){.first = r->scripts->frames.count};
    return true;
}

static const char *locals_of(reader *r, const ssi_lua_call *c)
{
    ssi_written written = {.shows_secrets = r->scripts->shows_secrets};

    if (!r->scripts->with_locals || !r->locals_left)
        return NULL;
    r->locals_left--;
    ssi_lua_locals(r->layout, c, &written);
    return ssi_scripts_keep_locals(r->scripts, &written);
}

static void add_state(reader *r, uint64_t address, uint64_t innermost)
{
    ssi_lua_state state = {.address = address, .first = r->luas->run_count};
    ssi_lua_run run = {.first = r->scripts->frames.count};
    ssi_lua_call c;

    for (uint64_t at = innermost; at && ssi_lua_read_call(r->layout, at, &c); at = c.previous) {
        ssi_frame frame;

        if (c.is_c) {
            if (!end_run(r, &state, &run))
                return;
            continue;
        }
        if (at == innermost && r->layout->pc_in_register) {
            find_pc(r->target, r->layout, r->thread, &c);
            run.is_running = true;
        }
        frame = frame_of(r->layout, &c, ssi_lua_call_name(r->layout, &r->names, &c));
        frame.locals = locals_of(r, &c);
        if (!run.call_info)
            run.call_info = at;
        if (!ssi_frames_add(&r->scripts->frames, &frame) ||
            (c.is_fresh && !end_run(r, &state, &run)))
            return;
    }
    if (end_run(r, &state, &run) && state.count)
        (void)ssi_append(&r->luas->states, &r->luas->state_count, &r->luas->state_room, &state,
                         sizeof state);
}

/* ---- Where states are found -------------------------------------------------------------------*/

/* Whether ADDRESS is to be tried.  Most words recur soon: they are not read again.  One that was
   replaced is, so a state is known by its address, too. */
static bool is_new(reader *r, uint64_t address)
{
    size_t at = (size_t)(address * 0x9E3779B97F4A7C15u >> 32) % TRIED;

    if (r->tried[at] == address)
        return false;
    r->tried[at] = address;
    for (size_t i = 0; i < r->luas->state_count; i++)
        if (r->luas->states[i].address == address)
            return false;
    return true;
}

static void try_word(reader *r, uint64_t word)
{
    const ssi_mapping *mapping = word % 8 ? NULL : ssi_target_mapping(r->target, word);
    uint64_t innermost;
    uint8_t type;

    if (!mapping || !mapping->writable || mapping->executable || !is_new(r, word) ||
        !ssi_read(word + SSI_LUA_TYPE, &type, 1) || type != SSI_LUA_THREAD ||
        !ssi_read_word(word + SSI_LUA_STATE_CALL, &innermost))
        return;
    for (size_t i = 0; i < r->luas->copy_count; i++) {
        r->layout = r->luas->copies[i].layout;
        if (!is_chain(r, word, innermost))
            continue;
        if (r->luas->state_count < SSI_MAX_LUA_STATES)
            add_state(r, word, innermost);
        else
            r->has_more = true;
        return;
    }
}

static void scan(reader *r, const ssi_thread *thread)
{
    uint64_t sp = thread->registers[r->target->machine->sp], end, word;
    uint64_t most = r->target->is_live ? MAX_SCAN_LIVE : MAX_SCAN;

    r->thread = thread;
    r->locals_left = SSI_SHOWN_FRAMES;
    for (int i = 0; i < r->target->machine->registers; i++)
        try_word(r, thread->registers[i]);
    end = thread->stack_end > sp + most ? sp + most : thread->stack_end;
    for (uint64_t at = sp & ~(uint64_t)7; at < end && !ssi_budget_is_spent(); at += sizeof word)
        if (ssi_read_word(at, &word))
            try_word(r, word);
}

void ssi_lua_read(const ssi_target *target, ssi_luas *luas, ssi_scripts *scripts)
{
    reader *r = luas->copy_count ? calloc(1, sizeof *r) : NULL;

    if (!r)
        return;
    r->target = target;
    r->luas = luas;
    r->scripts = scripts;
    for (size_t i = 0; i < target->thread_count; i++)
        if (target->threads[i].has_registers)
            scan(r, &target->threads[i]);
    if (r->has_more)
        ssi_scripts_note(scripts, "not all Lua states are shown: more than 256 are on stacks");
    free(r);
}

void ssi_lua_free(ssi_luas *luas)
{
    for (size_t i = 0; i < luas->copy_count; i++)
        ssi_binary_close(&luas->copies[i].binary);
    free(luas->states);
    free(luas->runs);
}
