#include "lua/jit.h"

#include "base/base.h"

#include <string.h>

enum {
    SLOT = 8,
    KIND_THREAD = 6,
    KIND_STRING = 4,
    KIND_FUNCTION = 8,
    KIND_PROTO = 7,
    MAX_SLOTS = 1 << 17,
    MAX_CHUNK = 1024,
    MAX_CODE = 1 << 22, /* instructions */
    INSTRUCTION = 4
};

/* The links to the frame outside. */
enum { LINK_BITS = 7, LINK_KIND = 3, LINK_LUA = 0, LINK_C = 1, LINK_NEXT = 2, LINK_VARARG = 3 };

/* ---- Words ------------------------------------------------------------------------------------*/

static uint32_t half(uint64_t address)
{
    uint32_t value = 0;

    return ssi_read(address, &value, sizeof value) ? value : 0;
}

/* A reference at one of two places. */
static uint64_t reference(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return jit->is_narrow ? half(object + narrow) : ssi_word(object + wide);
}

static uint32_t number(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return half(object + (jit->is_narrow ? narrow : wide));
}

static unsigned byte(const ssi_jit *jit, uint64_t object, unsigned wide, unsigned narrow)
{
    return number(jit, object, wide, narrow) & 255;
}

static unsigned kind_of(const ssi_jit *jit, uint64_t object)
{
    return object % 4 ? 0 : byte(jit, object, 9, 5);
}

/* ---- Frames -----------------------------------------------------------------------------------*/

static uint64_t object_of(const ssi_jit *jit, uint64_t frame)
{
    return jit->is_narrow ? half(frame) : ssi_word(frame - SLOT) & ((UINT64_C(1) << 47) - 1);
}

static uint64_t link_of(const ssi_jit *jit, uint64_t frame)
{
    return jit->is_narrow ? half(frame + 4) : ssi_word(frame);
}

static unsigned frame_slots(const ssi_jit *jit)
{
    return jit->is_narrow ? 1 : 2;
}

/* The frame outside; the first one has none: 0. */
static uint64_t outside(const ssi_jit *jit, uint64_t frame)
{
    uint64_t link = link_of(jit, frame), distance = link & ~(uint64_t)LINK_BITS;

    if (frame == jit->first)
        return 0;
    if ((link & LINK_KIND) == LINK_LUA)
        distance = (uint64_t)SLOT * ((half(link - INSTRUCTION) >> 8 & 255) + frame_slots(jit));
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
        if (kind != KIND_FUNCTION && kind != KIND_THREAD)
            return false;
        frame = outside(jit, frame);
    }
    return false;
}

bool ssi_jit_begin(ssi_jit *jit, uint64_t state, bool is_narrow)
{
    uint64_t base, top, stack;

    *jit = (ssi_jit){.is_narrow = is_narrow, .state = state};
    if (kind_of(jit, state) != KIND_THREAD)
        return false;
    base = ssi_word(state + (is_narrow ? 16 : 32));
    top = ssi_word(state + (is_narrow ? 24 : 40));
    jit->end = reference(jit, state, 48, 32);
    stack = reference(jit, state, 56, 36);
    jit->first = stack + (frame_slots(jit) - 1) * SLOT;
    jit->frame = base - SLOT;
    return stack && stack < base && base <= top && stack < jit->end &&
           jit->end - stack <= (uint64_t)MAX_SLOTS * SLOT && is_chain(jit, jit->frame);
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

    if (kind_of(jit, object) != KIND_FUNCTION || byte(jit, object, 10, 6))
        return 0;
    code = reference(jit, object, 32, 16);
    proto = code - proto_size(jit);
    return code && kind_of(jit, proto) == KIND_PROTO ? proto : 0;
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

bool ssi_jit_begin_at(ssi_jit *jit, uint64_t base, uint64_t pc)
{
    uint64_t frame = base - SLOT;

    if (!is_chain(jit, frame) ||
        place_of(jit, proto_of(jit, object_of(jit, frame)), pc) == UINT32_MAX)
        return false;
    jit->frame = frame;
    return true;
}

static bool is_empty(const ssi_jit *jit, uint64_t frame)
{
    return kind_of(jit, object_of(jit, frame)) == KIND_THREAD;
}

/* Whether a frame of this link has a word that says what continues it, which is FOUND. */
static bool continues(const ssi_jit *jit, uint64_t frame, uint64_t *found)
{
    if ((link_of(jit, frame) & LINK_BITS) != LINK_NEXT)
        return false;
    *found = jit->is_narrow ? half(frame - SLOT) : ssi_word(frame - 3 * SLOT);
    return true;
}

/* Where the function goes on that called the one of FRAME; 0: not known. */
static uint64_t pc_inside(const ssi_jit *jit, uint64_t frame)
{
    uint64_t link = frame ? link_of(jit, frame) : 0, continuation;

    if (frame && (link & LINK_KIND) == LINK_LUA)
        return link;
    if (!frame || !continues(jit, frame, &continuation) || continuation <= 1)
        return 0;
    return jit->is_narrow ? half(frame - SLOT + 4) : ssi_word(frame - 2 * SLOT);
}

static bool is_entered(const ssi_jit *jit, uint64_t frame)
{
    uint64_t continuation; /* 1: a callback of C's */

    return (link_of(jit, frame) & LINK_KIND) == LINK_C ||
           (continues(jit, frame, &continuation) && continuation == 1);
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
    *call = (ssi_jit_call){.proto = proto_of(jit, object)};
    if (call->proto)
        call->pc = pc_inside(jit, jit->inner);
    else
        call->function = ssi_word(object + (jit->is_narrow ? 24 : 40));
    if ((link_of(jit, frame) & LINK_BITS) == LINK_VARARG) /* its arguments moved */
        frame = outside(jit, frame);
    call->is_entered = frame && is_entered(jit, frame);
    jit->inner = frame;
    jit->frame = frame ? outside(jit, frame) : 0;
    return true;
}

/* ---- Names and lines --------------------------------------------------------------------------*/

/* The bytes of a string follow it; versions differ in where its length is, and narrow ones in its
   size. */
static const char *text_at(const ssi_jit *jit, uint64_t string)
{
    static const uint8_t wide[][2] = {{20, 24}, {16, 24}}, narrow[][2] = {{16, 20}, {12, 16}};
    char bytes[MAX_CHUNK + 1];

    for (int i = 0; string && kind_of(jit, string) == KIND_STRING && i < 2; i++) {
        const uint8_t *at = jit->is_narrow ? narrow[i] : wide[i];
        uint64_t length = half(string + at[0]), read = length < MAX_CHUNK ? length : MAX_CHUNK;
        char last = 1;

        if (length < INT32_MAX && ssi_read(string + at[1] + length, &last, 1) && !last &&
            ssi_read(string + at[1], bytes, (size_t)read) && !memchr(bytes, 0, (size_t)read))
            return ssi_text(bytes, (size_t)read);
    }
    return NULL;
}

const char *ssi_jit_source(const ssi_jit *jit, uint64_t proto)
{
    return text_at(jit, reference(jit, proto, 64, 40));
}

uint32_t ssi_jit_first_line(const ssi_jit *jit, uint64_t proto)
{
    return number(jit, proto, 72, 44);
}

uint32_t ssi_jit_line(const ssi_jit *jit, uint64_t proto, uint64_t pc)
{
    uint32_t place = place_of(jit, proto, pc), lines = number(jit, proto, 76, 48), more = 0;
    uint64_t rows = reference(jit, proto, 80, 52);
    size_t size = lines < 256 ? 1 : lines < 65536 ? 2 : 4;

    if (place == UINT32_MAX || !rows)
        return 0;
    if (place && !ssi_read(rows + (place - 1) * size, &more, size))
        return 0;
    return more <= lines ? ssi_jit_first_line(jit, proto) + more : 0;
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
        const char *name = kind == GENERATOR ? "(for generator)" : NULL;

        if (kind < OWN)
            at++;
        else if (!(name = zero_text(&at)))
            return NULL;
        begin += packed(&at);
        end = begin + packed(&at);
        if (begin > place)
            return NULL;
        if (place < end && slot-- == 0)
            return name;
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
    uint64_t size = jit->is_narrow ? 4 : 8;

    if (index >= number(jit, proto, 48, 24))
        return NULL;
    return text_at(jit, reference(jit, reference(jit, proto, 32, 16) - (index + 1) * size, 0, 0));
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
