#include "lua/jit.h"

#include "base/base.h"
#include "shared/lua.h"

#include <string.h>

enum {
    SLOT = SSI_JIT_SLOT,
    MAX_SLOTS = 1 << 17,
    MAX_CHUNK = 1024,
    MAX_CODE = 1 << 22, /* instructions */
    INSTRUCTION = 4
};

/* ---- Words ------------------------------------------------------------------------------------*/

static uint32_t half(uint64_t address)
{
    uint32_t value = 0;

    return ssi_read(address, &value, sizeof value) ? value : 0;
}

/* One of the two places of shared/lua.h. */
static unsigned pick(const ssi_jit *jit, unsigned wide, unsigned narrow)
{
    return jit->is_narrow ? narrow : wide;
}

static uint64_t reference(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return jit->is_narrow ? half(object + narrow) : ssi_word(object + wide);
}

static uint32_t number(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return half(object + pick(jit, wide, narrow));
}

static uint64_t reference_size(const ssi_jit *jit)
{
    return jit->is_narrow ? 4 : 8;
}

static unsigned byte(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return number(jit, object, wide, narrow) & 255;
}

static unsigned kind_of(const ssi_jit *jit, uint64_t object)
{
    return object % 4 ? 0 : byte(jit, object, SSI_JIT_KIND);
}

/* ---- Frames -----------------------------------------------------------------------------------*/

static uint64_t object_of(const ssi_jit *jit, uint64_t frame)
{
    return jit->is_narrow ? half(frame)
                          : ssi_word(frame - SLOT) & ((UINT64_C(1) << SSI_JIT_REFERENCE_BITS) - 1);
}

static uint64_t link_of(const ssi_jit *jit, uint64_t frame)
{
    return jit->is_narrow ? half(frame + 4) : ssi_word(frame);
}

/* How far it is from the frame of a function to that of its caller in Lua, which is at PC: the instruction
   before it says so. */
static uint64_t by_instruction(const ssi_jit *jit, uint64_t pc)
{
    return (uint64_t)SLOT * ((half(pc - INSTRUCTION) >> 8 & 255) + pick(jit, SSI_JIT_FRAME_SLOTS));
}

/* The frame outside; the first one has none: 0. */
static uint64_t outside(const ssi_jit *jit, uint64_t frame)
{
    uint64_t link = link_of(jit, frame), distance = link & ~(uint64_t)SSI_JIT_LINK_BITS;

    if (frame == jit->first)
        return 0;
    if ((link & SSI_JIT_LINK_KIND) == SSI_JIT_LINK_LUA)
        distance = by_instruction(jit, link);
    return distance && distance <= frame - jit->first ? frame - distance : 0;
}

static bool is_chain(const ssi_jit *jit, uint64_t frame)
{
    for (int count = 0; count < MAX_SLOTS; count++) {
        unsigned kind;

        if (frame < jit->first || frame >= jit->end || frame % SLOT)
            return false;
        kind = kind_of(jit, object_of(jit, frame));
        if (frame == jit->first)
            return object_of(jit, frame) == jit->state;
        if (kind != SSI_JIT_FUNCTION && kind != SSI_JIT_THREAD)
            return false;
        frame = outside(jit, frame);
    }
    return false;
}

static bool is_empty(const ssi_jit *jit, uint64_t frame)
{
    return kind_of(jit, object_of(jit, frame)) == SSI_JIT_THREAD;
}

/* Whether a frame of this link has a word that says what continues it, which is FOUND. */
static bool continues(const ssi_jit *jit, uint64_t frame, uint64_t *found)
{
    if ((link_of(jit, frame) & SSI_JIT_LINK_BITS) != SSI_JIT_LINK_NEXT)
        return false;
    *found = jit->is_narrow ? half(frame - SLOT) : ssi_word(frame - 3 * SLOT);
    return true;
}

static bool is_entered(const ssi_jit *jit, uint64_t frame)
{
    uint64_t continuation;

    return (link_of(jit, frame) & SSI_JIT_LINK_KIND) == SSI_JIT_LINK_C ||
           (continues(jit, frame, &continuation) && continuation == SSI_JIT_CALLBACK);
}

/*
 * LuaJIT's own state has, at places that differ by version: the state that runs, followed by the base of
 * the function in which compiled code was entered; the list of all such code; the addresses of the loop.
 */
enum {
    MAX_OWN = 1 << 14, /* bytes of LuaJIT's own state */
    MAX_TRACES = 1 << 16,
    MAX_MOVED = 2048, /* bytes from the loop's frame to that of compiled code */
    SAVED = 16,       /* bytes on top of the loop's frame, by x86-64's compiled code */
    ROW = 4           /* so many addresses in a row are those of the loop's instructions */
};

static uint64_t own_state(const ssi_jit *jit)
{
    return reference(jit, jit->state, SSI_JIT_SHARED);
}

/* The base of the function in which compiled code was entered; 0: none runs. */
static uint64_t entry_base(const ssi_jit *jit)
{
    uint64_t own = own_state(jit), size = reference_size(jit);

    for (uint64_t at = own; own && at < own + MAX_OWN; at += size) {
        uint64_t base;

        if (reference(jit, at, 0, 0) != jit->state)
            continue;
        base = reference(jit, at + size, 0, 0);
        if (base > jit->first && base < jit->end && is_chain(jit, base - SLOT))
            return base;
    }
    return 0;
}

bool ssi_jit_begin(ssi_jit *jit, uint64_t state, bool is_narrow)
{
    *jit = (ssi_jit){.is_narrow = is_narrow, .state = state};
    if (kind_of(jit, state) != SSI_JIT_THREAD)
        return false;
    jit->end = reference(jit, state, SSI_JIT_STACK_END);
    jit->stack = reference(jit, state, SSI_JIT_STACK);
    jit->first = jit->stack + (pick(jit, SSI_JIT_FRAME_SLOTS) - 1) * SLOT;
    jit->c_frame = ssi_word(state + (is_narrow ? 48 : 80)) & ~(uint64_t)3;
    return jit->stack && jit->stack < jit->end &&
           jit->end - jit->stack <= (uint64_t)MAX_SLOTS * SLOT && jit->c_frame &&
           object_of(jit, jit->first) == state;
}

uint64_t ssi_jit_stored_base(const ssi_jit *jit)
{
    return ssi_word(jit->state + pick(jit, SSI_JIT_BASE));
}

bool ssi_jit_begin_stored(ssi_jit *jit)
{
    jit->frame = ssi_jit_stored_base(jit) - SLOT;
    if (is_chain(jit, jit->frame))
        return true;
    jit->frame = entry_base(jit) - SLOT; /* compiled code leaves the state's own base behind */
    return jit->frame != (uint64_t)-SLOT;
}

/* ---- Functions --------------------------------------------------------------------------------*/

static uint64_t proto_size(const ssi_jit *jit)
{
    return jit->is_narrow ? 64 : 104;
}

/* The prototype of the function OBJECT; 0: it is not in Lua. */
static uint64_t proto_of(const ssi_jit *jit, uint64_t object)
{
    uint64_t code, proto;

    if (kind_of(jit, object) != SSI_JIT_FUNCTION || byte(jit, object, SSI_JIT_SORT))
        return 0;
    code = reference(jit, object, 32, 16);
    proto = code - proto_size(jit);
    return code && kind_of(jit, proto) == SSI_JIT_PROTO ? proto : 0;
}

/* The number of the instruction before PC; UINT32_MAX: it is not of PROTO. */
static uint32_t place_of(const ssi_jit *jit, uint64_t proto, uint64_t pc)
{
    uint64_t code = proto + proto_size(jit), count = number(jit, proto, 12, 8);

    return pc > code && (pc - code) % INSTRUCTION == 0 && count < MAX_CODE &&
                   (pc - code) / INSTRUCTION <= count
               ? (uint32_t)((pc - code) / INSTRUCTION) - 1
               : UINT32_MAX;
}

/* Whether FRAME is that of a Lua function in which PC is. */
static bool is_at(const ssi_jit *jit, uint64_t frame, uint64_t pc)
{
    return is_chain(jit, frame) &&
           place_of(jit, proto_of(jit, object_of(jit, frame)), pc) != UINT32_MAX;
}

/* Whether FRAME is that of a function that is not in Lua, with PC behind the one instruction that it consists
   of, or already where it returns to. */
static bool is_at_own(const ssi_jit *jit, uint64_t frame, uint64_t pc)
{
    uint64_t object = object_of(jit, frame);

    return is_chain(jit, frame) && kind_of(jit, object) == SSI_JIT_FUNCTION &&
           byte(jit, object, SSI_JIT_SORT) &&
           (pc == reference(jit, object, 32, 16) + INSTRUCTION || pc == link_of(jit, frame));
}

/* Whether PC is a link to the function outside of FRAME, as while that is entered in another way than by a
   call instruction of Lua, or returns. */
static bool is_at_link(const ssi_jit *jit, uint64_t frame, uint64_t pc)
{
    return pc & SSI_JIT_LINK_KIND && pc < jit->end - jit->stack && is_chain(jit, frame) &&
           (!proto_of(jit, object_of(jit, frame)) || pc == link_of(jit, frame));
}

bool ssi_jit_begin_at(ssi_jit *jit, uint64_t base, uint64_t *pc)
{
    uint64_t frame = base - SLOT, caller;

    if (base <= jit->first || base >= jit->end)
        return false;
    caller = frame - by_instruction(jit, *pc);
    if (*pc == reference(jit, object_of(jit, frame), 32, 16))
        *pc += INSTRUCTION; /* it was just called */
    if (is_at(jit, frame, *pc)) {
        jit->frame = frame;
    } else if (is_at_own(jit, frame, *pc)) {
        jit->frame = frame;
        *pc = 0;
    } else if (is_at(jit, caller, *pc)) {
        jit->frame = caller;
    } else if (is_at_link(jit, frame, *pc)) {
        bool returns = proto_of(jit, object_of(jit, frame)) && !is_entered(jit, frame);

        jit->inner = returns ? frame : 0;
        jit->frame = returns ? outside(jit, frame) : frame;
        *pc = 0;
    } else {
        return false;
    }
    return true;
}

/* ---- Compiled code ----------------------------------------------------------------------------*/

static bool is_trace(const ssi_jit *jit, uint64_t trace, uint32_t which)
{
    return trace && kind_of(jit, trace) == SSI_JIT_TRACE &&
           (number(jit, trace, 104, 80) & UINT16_MAX) == which;
}

/* Where compiled code began: behind that instruction, if it is one of the function OBJECT; else 0. */
static uint64_t trace_start(const ssi_jit *jit, uint64_t trace, uint64_t object)
{
    uint64_t proto = proto_of(jit, object), pc = reference(jit, trace, 72, 52) + INSTRUCTION;

    return proto && reference(jit, trace, 64, 48) == proto && place_of(jit, proto, pc) != UINT32_MAX
               ? pc
               : 0;
}

/* The code with which TRACE, one of LIST, began. */
static uint64_t root_of(const ssi_jit *jit, uint64_t trace, uint64_t list)
{
    uint32_t which = number(jit, trace, 108, 84) & UINT16_MAX;
    uint64_t root = which ? reference(jit, list + which * reference_size(jit), 0, 0) : 0;

    return root && is_trace(jit, root, which) ? root : trace;
}

/* Add the code of TRACE, one of LIST, if it runs in a frame inside of the loop's: PC of the thread is in it,
   which is then certain and returned, or it made the call that left its address below. */
static bool add_made(const ssi_jit *jit, uint64_t trace, uint64_t list, uint64_t sp, uint64_t pc,
                     ssi_jit_trace *all)
{
    uint64_t code = ssi_word(trace + (jit->is_narrow ? 64 : 88)), start;
    uint64_t size = number(jit, trace, 84, 60);
    uint64_t frame = jit->c_frame - SAVED - (number(jit, trace, 102, 78) & UINT16_MAX);
    bool is_certain = pc - code < size && sp < jit->c_frame && jit->c_frame - sp <= MAX_MOVED;

    if (is_certain) /* it moves the pointer where it begins and ends */
        frame = sp;
    else if (sp >= frame || ssi_word(frame - sizeof frame) - code >= size)
        return false;
    start = trace_start(jit, root_of(jit, trace, list), object_of(jit, jit->frame));
    if (is_certain)
        all->count = 0;
    all->pc = !all->count || all->pc == start ? start : 0;
    if (all->count < SSI_MAX_MADE) {
        all->made[all->count].sp = frame;
        all->made[all->count].code = code;
        all->made[all->count++].size = size;
    }
    return is_certain;
}

/* Add the compiled code that may run, of the list at LIST, if that is one. */
static void find_made(const ssi_jit *jit, uint64_t list, uint32_t count, uint64_t sp, uint64_t pc,
                      ssi_jit_trace *all)
{
    for (uint32_t i = 1; i < count; i++) {
        uint64_t trace = reference(jit, list + i * reference_size(jit), 0, 0);

        if (trace && (!is_trace(jit, trace, i) || add_made(jit, trace, list, sp, pc, all)))
            return;
    }
}

bool ssi_jit_find_trace(ssi_jit *jit, uint64_t sp, uint64_t pc, ssi_jit_trace *trace)
{
    uint64_t base = jit->c_frame ? entry_base(jit) : 0, own = own_state(jit);
    ssi_jit entered = *jit;

    entered.frame = base - SLOT;
    entered.inner = 0;
    trace->count = 0;
    for (uint64_t at = own; base && !trace->count && at < own + MAX_OWN; at += sizeof at) {
        uint64_t list = ssi_word(at);
        uint32_t room = half(at + 12);

        if (list % 4 == 0 && room > 1 && room <= MAX_TRACES && half(at + 8) <= room)
            find_made(&entered, list, room, sp, pc, trace);
    }
    if (trace->count)
        *jit = entered;
    return trace->count;
}

uint64_t ssi_jit_loop(const ssi_jit *jit, uint64_t start, uint64_t end)
{
    uint64_t own = own_state(jit), word;
    unsigned row = 0;

    for (uint64_t at = own; own && at < own + MAX_OWN; at += sizeof at) {
        word = ssi_word(at);
        row = word >= start && word < end ? row + 1 : 0;
        if (row == ROW)
            return word;
    }
    return 0;
}

/* Where the function goes on that called the one of FRAME; 0: not known. */
static uint64_t pc_inside(const ssi_jit *jit, uint64_t frame)
{
    uint64_t link = link_of(jit, frame), continuation;

    if ((link & SSI_JIT_LINK_KIND) == SSI_JIT_LINK_LUA)
        return link;
    if (!continues(jit, frame, &continuation) || continuation <= SSI_JIT_CALLBACK)
        return 0;
    return jit->is_narrow ? half(frame - SLOT + 4) : ssi_word(frame - 2 * SLOT);
}

/* PC, or what it stands for if the instruction before it is the copy that compiled code has of the one where
   it began; 0: that is not in the function OBJECT. */
static uint64_t pc_in(const ssi_jit *jit, uint64_t object, uint64_t pc)
{
    uint64_t trace = pc - INSTRUCTION - (jit->is_narrow ? 56 : 80);

    if (!pc || place_of(jit, proto_of(jit, object), pc) != UINT32_MAX)
        return pc;
    return kind_of(jit, trace) == SSI_JIT_TRACE ? trace_start(jit, trace, object) : 0;
}

uint64_t ssi_jit_outer_c_frame(const ssi_jit *jit)
{
    uint64_t outer = ssi_word(jit->c_frame + (jit->is_arm ? 0 : 32)) & ~(uint64_t)3;

    return outer > jit->c_frame ? outer : 0;
}

/* Where the function OBJECT of FRAME is as the loop's frame has it, which is the innermost one or outside of
   a call by C.  Some such calls have no function: a negative number says what Lua's stack had then. */
static uint64_t stored_pc(ssi_jit *jit, uint64_t frame, uint64_t object)
{
    enum { MAX_ENTRIES = 200 }; /* of C into C, which LuaJIT itself limits */
    uint64_t at;

    for (int i = 0; i < MAX_ENTRIES; i++) {
        int64_t results = (int32_t)half(jit->c_frame + (jit->is_arm      ? 40
                                                        : jit->is_narrow ? 16
                                                                         : 8));

        if (results >= 0 || frame >= jit->stack - (uint64_t)results)
            break;
        jit->c_frame = ssi_jit_outer_c_frame(jit);
    }
    at = jit->c_frame + (jit->is_narrow ? 24 : 16);
    if (!jit->c_frame || reference(jit, at, 0, 0) != jit->state)
        return 0;
    return pc_in(jit, object,
                 jit->is_narrow ? half(at + 4) : ssi_word(jit->is_arm ? at - 8 : at + 8));
}

/* Whether the function has no native frame: the instruction that it consists of is no call of C, which
   would say how much room that needs. */
static bool is_own(const ssi_jit *jit, uint64_t object)
{
    return byte(jit, object, SSI_JIT_SORT) > 1 && half(reference(jit, object, 32, 16)) >> 8 == 0;
}

bool ssi_jit_next(ssi_jit *jit, ssi_jit_call *call)
{
    uint64_t frame = jit->frame, object;

    while (frame && frame != jit->first && is_empty(jit, frame)) {
        jit->inner = frame;
        frame = outside(jit, frame);
    }
    if (!frame || frame == jit->first)
        return false;
    object = object_of(jit, frame);
    *call = (ssi_jit_call){.proto = proto_of(jit, object), .object = object};
    call->base = frame + SLOT;
    if (call->proto) {
        call->pc = jit->inner && !is_entered(jit, jit->inner)
                       ? pc_in(jit, object, pc_inside(jit, jit->inner))
                       : stored_pc(jit, frame, object);
    } else {
        call->function = ssi_word(object + pick(jit, SSI_JIT_C_FUNCTION));
        call->is_own = is_own(jit, object);
    }
    if ((link_of(jit, frame) & SSI_JIT_LINK_BITS) == SSI_JIT_LINK_VARARG) /* its arguments moved */
        frame = outside(jit, frame);
    call->is_entered = frame && is_entered(jit, frame);
    if (call->is_entered && jit->c_frame)
        jit->c_frame = ssi_jit_outer_c_frame(jit);
    jit->inner = frame;
    jit->frame = frame ? outside(jit, frame) : 0;
    return true;
}

uint64_t ssi_jit_globals(const ssi_jit *jit)
{
    return reference(jit, jit->state, SSI_JIT_GLOBALS);
}

/* ---- Names and lines --------------------------------------------------------------------------*/

/* The bytes of a string follow it, and a zero; versions differ in where its length is, and narrow ones in
   its size. */
int64_t ssi_jit_bytes(const ssi_jit *jit, uint64_t string, char *out, size_t size)
{
    static const uint8_t wide[][2] = {{20, 24}, {16, 24}}, narrow[][2] = {{16, 20}, {12, 16}};

    for (int i = 0; string && kind_of(jit, string) == SSI_JIT_STRING && i < 2; i++) {
        const uint8_t *at = jit->is_narrow ? narrow[i] : wide[i];
        uint64_t length = half(string + at[0]);
        size_t wanted = length < size ? (size_t)length : size;
        char last = 1;

        if (length < INT32_MAX && ssi_read(string + at[1] + length, &last, 1) && !last &&
            ssi_read(string + at[1], out, wanted))
            return (int64_t)wanted;
    }
    return -1;
}

static const char *text_at(const ssi_jit *jit, uint64_t string)
{
    char bytes[MAX_CHUNK];
    int64_t length = ssi_jit_bytes(jit, string, bytes, sizeof bytes);

    return length < 0 ? NULL : ssi_text(bytes, (size_t)length);
}

ssi_jit_place ssi_jit_place_of(const ssi_jit *jit, const ssi_jit_call *call)
{
    uint64_t proto = call->proto, rows = reference(jit, proto, 80, 52);
    uint32_t place = place_of(jit, proto, call->pc), lines = number(jit, proto, 76, 48), more = 0;
    size_t size = lines < 256 ? 1 : lines < 65536 ? 2 : 4;
    ssi_jit_place is = {text_at(jit, reference(jit, proto, 64, 40)), number(jit, proto, 72, 44), 0};

    if (rows && place != UINT32_MAX &&
        (!place || ssi_read(rows + (place - 1) * size, &more, size)) && more <= lines)
        is.line = is.defined + more;
    return is;
}

/*
 * An instruction has its operation in the lowest byte, then A, then D, or C and B.  These numbers are
 * those of 2.1; 2.0 lacks four of them.
 */
enum {
    OP_NEW_TESTS = 16, /* two of them */
    OP_MOV = 18,
    OP_KNIL = 44,
    OP_UGET = 45,
    OP_GGET = 54,
    OP_TGETS = 57,
    OP_NEW_GET = 59,
    OP_NEW_SET = 64,
    OP_CALL = 65, /* the first of six that call */
    OP_ITERC = 69,
    OP_NEXT = 71,
    MAX_BACK = 4096 /* instructions that are searched */
};

typedef struct instruction {
    unsigned op, a, b, c, d;
} instruction;

static instruction instruction_at(const ssi_jit *jit, uint64_t proto, uint32_t place)
{
    uint32_t word = half(proto + proto_size(jit) + (uint64_t)place * INSTRUCTION);
    unsigned op = word & 255;

    if (jit->is_old) {
        op += op >= OP_NEW_TESTS ? 2 : 0;
        op += op >= OP_NEW_GET;
        op += op >= OP_NEW_SET;
    }
    return (instruction){op, word >> 8 & 255, word >> 24, word >> 16 & 255, word >> 16};
}

/* Whether an operation sets its A alone, or all registers from it on. */
static bool sets_one(unsigned op)
{
    return op == 12 || op == 13 || (op >= OP_MOV && op < OP_KNIL) || op == OP_UGET ||
           (op > 50 && op <= OP_GGET) || (op > 55 && op <= OP_NEW_GET);
}

static bool sets_all(unsigned op)
{
    return op == 63 || (op >= OP_CALL && op < 74) || (op > 76 && op < 85);
}

/* A number of 7 bits a byte, at *AT. */
static uint32_t packed(uint64_t *at)
{
    uint32_t value = 0;

    for (unsigned shift = 0; shift < 32; shift += 7) {
        uint8_t next = 0;

        if (!ssi_read((*at)++, &next, 1))
            return 0;
        value |= (uint32_t)(next & 127) << shift;
        if (next < 128)
            break;
    }
    return value;
}

/* The bytes up to the next zero at *AT, which moves behind it; NULL: they cannot be read. */
static const char *zero_text(uint64_t *at)
{
    char bytes[256];

    for (size_t i = 0; i < sizeof bytes && ssi_read((*at)++, &bytes[i], 1); i++)
        if (!bytes[i])
            return ssi_text(bytes, i);
    return NULL;
}

/* The name of the variable in SLOT at PLACE, or NULL.  Rows begin with a name, or a byte that stands for
   one of Lua's own. */
static const char *variable(const ssi_jit *jit, uint64_t proto, uint32_t place, unsigned slot)
{
    enum { OWN = 7, GENERATOR = 4 };
    uint64_t at = reference(jit, proto, 96, 60);
    uint32_t begin = 0, end;
    uint8_t kind;

    for (int rows = 0; at && rows < MAX_BACK && ssi_read(at, &kind, 1) && kind; rows++) {
        uint64_t name = at++;

        for (uint8_t byte = kind; kind >= OWN && byte && ssi_read(at, &byte, 1);)
            at++;
        begin += packed(&at);
        end = begin + packed(&at);
        if (begin > place)
            return NULL;
        if (place < end && slot-- == 0)
            return kind >= OWN         ? zero_text(&name)
                   : kind == GENERATOR ? "(for generator)"
                                       : "(for state)";
    }
    return NULL;
}

static const char *upvalue(const ssi_jit *jit, uint64_t proto, unsigned index)
{
    uint64_t at = reference(jit, proto, 88, 56);
    const char *name = at ? zero_text(&at) : NULL;

    for (; index && name; index--)
        name = zero_text(&at);
    return name;
}

/* The string that is constant NUMBER: these lie in front of their address. */
static const char *constant(const ssi_jit *jit, uint64_t proto, unsigned index)
{
    if (index >= number(jit, proto, 48, 24))
        return NULL;
    return text_at(
        jit,
        reference(jit, reference(jit, proto, 32, 16) - (index + 1) * reference_size(jit), 0, 0));
}

/* The name of what SLOT has at PLACE. */
static const char *slot_name(const ssi_jit *jit, uint64_t proto, uint32_t place, unsigned slot)
{
    const char *name = variable(jit, proto, place, slot);

    for (int back = 0; !name && place > 1 && back < MAX_BACK; back++) {
        instruction i = instruction_at(jit, proto, --place);

        if (i.op == OP_KNIL ? slot >= i.a && slot <= i.d : sets_all(i.op) && slot >= i.a)
            return NULL;
        if (!sets_one(i.op) || i.a != slot)
            continue;
        if (i.op == OP_UGET)
            return upvalue(jit, proto, i.d);
        if (i.op == OP_GGET || i.op == OP_TGETS)
            return constant(jit, proto, i.op == OP_GGET ? i.d : i.c);
        if (i.op != OP_MOV)
            return NULL;
        slot = i.d;
        name = variable(jit, proto, place, slot);
    }
    return name;
}

const char *ssi_jit_variable(const ssi_jit *jit, const ssi_jit_call *call, unsigned number)
{
    uint32_t place = place_of(jit, call->proto, call->pc);

    return place == UINT32_MAX ? NULL : variable(jit, call->proto, place, number);
}

/* The metamethod that an operation calls, or NULL. */
static const char *metamethod(unsigned op)
{
    static const char *const names[] = {
        "metamethod '__add'", "metamethod '__sub'", "metamethod '__mul'",   "metamethod '__div'",
        "metamethod '__mod'", "metamethod '__pow'", "metamethod '__concat'"};

    if (op < 12)
        return op < 2 ? "metamethod '__lt'" : op < 4 ? "metamethod '__le'" : "metamethod '__eq'";
    if (op == 20 || op == 21)
        return op == 20 ? "metamethod '__unm'" : "metamethod '__len'";
    if (op > 21 && op < 39)
        return names[op < 37 ? (op - 22) % 5 : op - 32];
    if (op == OP_GGET || (op > 55 && op <= OP_NEW_GET))
        return "metamethod '__index'";
    return op == 55 || (op > OP_NEW_GET && op <= OP_NEW_SET) ? "metamethod '__newindex'" : NULL;
}

const char *ssi_jit_name(const ssi_jit *jit, const ssi_jit_call *caller)
{
    uint32_t place = caller->proto ? place_of(jit, caller->proto, caller->pc) : UINT32_MAX;
    instruction i;

    if (place == UINT32_MAX)
        return NULL;
    i = instruction_at(jit, caller->proto, place);
    if (i.op < OP_CALL || i.op >= OP_NEXT)
        return metamethod(i.op);
    return slot_name(jit, caller->proto, place, i.op >= OP_ITERC ? i.a - 3 : i.a);
}

/* ---- Values -----------------------------------------------------------------------------------*/

bool ssi_jit_value(const ssi_jit *jit, uint64_t address, uint8_t *tag, uint64_t *bits)
{
    enum { LIGHT = 3, INTEGER = 13 /* on some machines */, NUMBER };
    static const uint8_t tags[] = {0, 1, 17, 2, 4, 9, 8, 9, 6, 9, 10, 5, 7, 3, 19};
    uint32_t kind;

    if (!ssi_read(address, bits, sizeof *bits))
        return false;
    kind = ~(uint32_t)(jit->is_narrow ? *bits >> 32 : (uint64_t)((int64_t)*bits >> 47));
    if (kind >= NUMBER)
        kind = jit->is_narrow && *bits >> 47 == 0x1ffff ? LIGHT : NUMBER;
    if (kind == INTEGER)
        *bits = (uint64_t)(int32_t)*bits;
    else if (kind != NUMBER)
        *bits &= jit->is_narrow && kind != LIGHT ? UINT32_MAX : (UINT64_C(1) << 47) - 1;
    *tag = tags[kind];
    return true;
}

bool ssi_jit_read_table(const ssi_jit *jit, uint64_t table, ssi_jit_table *read)
{
    *read = (ssi_jit_table){reference(jit, table, 16, 8), reference(jit, table, 40, 20),
                            number(jit, table, 48, 24), (uint64_t)number(jit, table, 52, 28) + 1};
    return kind_of(jit, table) == SSI_JIT_TABLE;
}
