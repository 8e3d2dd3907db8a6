/*
 * What one thread keeps for its walks: a table of the return addresses that it has met, each with
 * its rule, and what its last walk found.
 *
 * Nothing is dropped during a walk, because the frames of a walk refer to their rules.  A table
 * without room is emptied, and the walk begins anew.
 *
 * The memory is mapped, not allocated, as a signal handler may need more of it.  It starts small:
 * few threads need much, and the process may lock its memory.
 */
#ifndef SS_TABLE_H
#define SS_TABLE_H

#include "unwind/rule.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

/* The last fields of a stacksplice_native_frame. */
typedef struct ss_frame_facts {
    uintptr_t function;
    uint32_t flags;
    uint32_t rule; /* index of rules */
} ss_frame_facts;

/* Of the frame pointer: its caller's value is still in the register, or not at a certain place. */
enum { SS_BELOW_UNCHANGED = 0, SS_BELOW_LOST = 1 };

/* What a walk needs of a frame for the next step, by its return address. */
typedef struct ss_known {
    uintptr_t ip;      /* one more than the address where a signal interrupted; 0: free */
    uint32_t cfa;      /* of the rule */
    uint16_t fp_below; /* the CFA, in bytes: where the caller's frame pointer is; or see above */
    uint16_t slot;     /* of the return address */
} ss_known;

_Static_assert(sizeof(ss_known) == 16 && sizeof(ss_frame_facts) == 16, "four a cache line");
_Static_assert(SS_SLOT_MAX * sizeof(uintptr_t) <= UINT16_MAX, "a slot in bytes");

/* All known registers of one frame's caller, where a rule cannot describe them. */
typedef struct ss_register_file {
    uint32_t frame;
    uint32_t known; /* bit per register */
    uintptr_t value[SS_REGISTER_COUNT];
} ss_register_file;

_Static_assert(SS_REGISTER_COUNT <= 32, "known is one bit a register");

/* How much fits. */
typedef struct ss_table_room {
    uint32_t known; /* entries, a power of four */
    uint32_t files;
    uint32_t frames;
} ss_table_room;

typedef enum ss_table_size {
    SS_TABLE_SMALL = 0,
    SS_TABLE_WIDE = 1,
    SS_TABLE_DEEP = 2
} ss_table_size;

typedef struct ss_table {
    ss_known *known;    /* a quarter full at most; three quarters when it cannot be widened */
    uint32_t mask;      /* of an entry's place in known, in bytes */
    uintptr_t to_facts; /* from an entry of known to its facts, in bytes */
    bool has_record;    /* a walk found a frame record at ABOVE: see ss_unwind_recurs */
    ss_rule *rules; /* 0 is ss_rule_frame_pointer; the next are of the forwarders, by their kind */
    uint32_t rule_count;
    uint32_t epoch;      /* of the classifier */
    uint64_t generation; /* of the modules; a change of either voids what is known */
    ss_stack_cache stack;
    ss_register_file *files;
    uint32_t file_count;             /* of the last walk */
    uintptr_t entry[SS_SAVED_COUNT]; /* the registers at frame 0, of the last walk */
    stacksplice_native_frame *frames;
    uint32_t *marked; /* as many */
    ss_table_room room;
    ss_table_size size;
    ss_known *first; /* the smallest table; wider ones follow it */
    size_t bytes;    /* of the mapping that holds all this */
} ss_table;

/* An empty table of SIZE, a sum of flags; or NULL. */
ss_table *ss_table_new(ss_table_size size);
void ss_table_free(ss_table *table);

/* Forget all that is known. */
void ss_table_forget(ss_table *table);

/* Release the memory of frames of the last walk beyond the first FRAMES. */
void ss_table_trim(ss_table *table, uint32_t frames);

/* How many addresses are known. */
static inline uint32_t ss_table_count(const ss_table *table)
{
    return table->rule_count - SS_FORWARDERS;
}

static inline bool ss_table_is_full(const ss_table *table)
{
    return ss_table_count(table) >= table->room.known / 4 * 3;
}

/* The entry at AT, in bytes. */
static inline ss_known *ss_table_at(ss_known *known, uintptr_t at)
{
    return (ss_known *)((uintptr_t)known + at);
}

/* What a walk stores of the frames of KNOWN. */
static inline ss_frame_facts *ss_table_facts(const ss_table *table, const ss_known *known)
{
    return (ss_frame_facts *)((uintptr_t)known + table->to_facts);
}

/*
 * Where IP belongs, or else behind: calls are seldom closer together than an entry has bytes.  Each
 * frame waits for this and for the load of the entry, so that mixing the bits better costs a walk
 * more time than the collisions do.
 */
static inline uintptr_t ss_table_first_place(uintptr_t mask, uintptr_t ip)
{
    return ip & mask;
}

/* The entry of IP in the table KNOWN with that MASK; NULL when it is not known, as 0 never is. */
static inline const ss_known *ss_table_find(ss_known *known, uintptr_t mask, uintptr_t ip)
{
    uintptr_t at = ss_table_first_place(mask, ip);
    const ss_known *found = ss_table_at(known, at);

    if (SS_LIKELY(found->ip == ip))
        return found;
    while (found->ip && found->ip != ip) {
        at = (at + sizeof *known) & mask;
        found = ss_table_at(known, at);
    }
    return found->ip ? found : NULL;
}

/* Add IP, which is not known, with its RULE and the FLAGS of its frames; false without room. */
bool ss_table_add(ss_table *table, uintptr_t ip, const ss_rule *rule, uint32_t flags);

#endif
