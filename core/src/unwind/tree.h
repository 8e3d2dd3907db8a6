/*
 * What a thread knows of the stacks it has walked: a tree of return addresses with their rules,
 * innermost first.
 *
 * The node that lies behind another in memory is its first seen caller; other callers are found by
 * (parent, ip) in a hash table of edges.  A node is only a guess: its ip is compared with the one
 * that was read from the stack.  Reaching a node implies the ips of all its ancestors, so it can
 * cache facts about the whole path.  The root stands for all that is not known.
 * All of it belongs to one thread.
 *
 * The memory is mapped, not allocated, as a signal handler may need more of it.  Few threads need
 * much: it begins small, as it may have to be locked.
 */
#ifndef SS_TREE_H
#define SS_TREE_H

#include "unwind/rule.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

enum {
    SS_TREE_EDGES_A_NODE = 2, /* of the hash table, which is a quarter full at most */
    SS_TREE_FIRST_KNOWN = 256,
    SS_TREE_MOST_NODES = 16384
};

/* What is there room for; nodes and known are powers of two. */
typedef struct ss_tree_room {
    uint32_t nodes; /* of contexts; then the tree is cleared */
    uint32_t spare; /* nodes that one walk may add to a full tree */
    uint32_t known;
    uint32_t files;
    uint32_t frames;
} ss_tree_room;

typedef enum ss_tree_size { SS_TREE_SMALL = 0, SS_TREE_WIDE = 1, SS_TREE_DEEP = 2 } ss_tree_size;

/*
 * What a walk needs of a frame.  In that of a node with a rule of kind SS_RULE_FRAME, which tells
 * the CFA without it, the offset of `cfa` is the size that such a frame had last: a guess that is
 * there before the frame pointer is.
 */
typedef struct ss_tree_node {
    uintptr_t ip; /* a return address; one more than the address where a signal interrupted */
    uint32_t cfa; /* of the rule */
    uint16_t parent;
    uint16_t slot; /* SS_RETURN_SAVED < 0: where the value of the frame pointer is, in words below
                      the stack pointer, 0: unknown; else the return slot of the rule */
} ss_tree_node;

/* The tail of a stacksplice_native_frame. */
typedef struct ss_tree_facts {
    uintptr_t function;
    uint32_t flags;
    uint32_t rule; /* index of rules */
} ss_tree_facts;

_Static_assert(sizeof(ss_tree_node) == 16 && sizeof(ss_tree_facts) == 16, "four a cache line");
_Static_assert(SS_TREE_MOST_NODES * 2 <= UINT16_MAX, "nodes are numbered in 16 bits");

/* A node by its ip, and what the next step needs of it. */
typedef struct ss_known {
    uintptr_t ip; /* 0: free */
    uint32_t cfa;
    uint16_t node;
    uint16_t slot; /* SS_RETURN_SAVED < 0: that of the frame pointer, else that of the return
                      address, both of the rule */
} ss_known;

/* The registers of the caller of one frame, complete, where a rule cannot say it. */
typedef struct ss_register_file {
    uint32_t frame;
    uint32_t known; /* bit per register */
    uintptr_t value[SS_REGISTER_COUNT];
} ss_register_file;

_Static_assert(SS_REGISTER_COUNT <= 32, "known is one bit a register");

typedef struct ss_tree {
    ss_tree_node *nodes;  /* 0 is the root; behind the last lies one that stands for nothing */
    ss_tree_facts *facts; /* of each */
    uint32_t node_count;
    int32_t credit; /* nodes that may be added for new contexts */
    ss_rule *rules; /* 0 is ss_rule_frame_pointer */
    uint32_t rule_count;
    uint32_t known_mask;
    ss_known *known; /* a quarter full at most, the widest three quarters */
    uint32_t known_count;
    uint32_t edge_count;
    uint16_t *edges; /* numbers of nodes; 0: free */
    uint32_t edge_mask;
    uint32_t epoch;      /* of the classifier, and */
    uint64_t generation; /* of the modules, that all this is true for */
    uint32_t sample;     /* counts the walks that meet new contexts; at 0 one keeps them */
    uint32_t addresses;  /* the node of our outermost frame in a walk for addresses; 0: unknown */
    ss_stack_cache stack;
    ss_register_file *files;
    uint32_t file_count;             /* of the last walk */
    uintptr_t entry[SS_SAVED_COUNT]; /* the registers at frame 0, of the last walk */
    stacksplice_native_frame *frames;
    uint32_t *marked; /* as many */
    ss_tree_room room;
    ss_tree_size size;
    size_t bytes; /* of the mapping that all this lies in */
} ss_tree;

/* An empty tree of SIZE, which is a sum; or NULL. */
ss_tree *ss_tree_new(ss_tree_size size);
void ss_tree_free(ss_tree *tree);

/* Forget every node. */
void ss_tree_forget(ss_tree *tree);

/* Give back the memory of what the last walk found beyond FRAMES frames. */
void ss_tree_trim(ss_tree *tree, uint32_t frames);

/* Whether to clear it before the next walk. */
static inline bool ss_tree_is_full(const ss_tree *tree)
{
    return tree->node_count >= tree->room.nodes || tree->known_count >= tree->room.known / 4 * 3;
}

/*
 * Stacks that never recur are not worth their nodes, but that shows only later.  So growth is paid
 * from a credit of nodes, of which each walk earns a few, and of the walks that meet new contexts
 * one in SS_TREE_SAMPLING adds them.
 */
enum { SS_TREE_FIRST_CREDIT = 16384, SS_TREE_CREDIT_A_WALK = 2, SS_TREE_SAMPLING = 3 };

static inline bool ss_tree_may_grow(const ss_tree *tree)
{
    return tree->credit > 0 && !tree->sample;
}

static inline void ss_tree_next_sample(ss_tree *tree)
{
    tree->sample = (tree->sample + 1) % SS_TREE_SAMPLING;
}

static inline void ss_tree_earn(ss_tree *tree)
{
    if (tree->credit < SS_TREE_FIRST_CREDIT)
        tree->credit += SS_TREE_CREDIT_A_WALK;
}

static inline ss_tree_facts *ss_tree_facts_of(const ss_tree *tree, const ss_tree_node *node)
{
    return (ss_tree_facts *)((uintptr_t)node + ((uintptr_t)tree->facts - (uintptr_t)tree->nodes));
}

static inline uint32_t ss_tree_edge_home(uint32_t parent, uintptr_t ip)
{
    return (uint32_t)((ip + parent * UINT64_C(0x9e3779b1)) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* The node for IP behind PARENT, other than the one that lies behind it in memory, or NULL. */
static inline const ss_tree_node *ss_tree_edge(const ss_tree *tree, const ss_tree_node *parent,
                                               uintptr_t ip)
{
    uint32_t number = (uint32_t)(parent - tree->nodes);

    if (!tree->edge_count)
        return NULL; /* a first walk need not touch their pages */
    for (uint32_t at = ss_tree_edge_home(number, ip);; at++) {
        uint16_t edge = tree->edges[at & tree->edge_mask];
        const ss_tree_node *node = &tree->nodes[edge];

        if (!edge)
            return NULL;
        if (SS_LIKELY(node->ip == ip && node->parent == number))
            return node;
    }
}

/* Where KNOWN, of MASK + 1 entries, has IP, or would have it. */
static inline ss_known *ss_tree_known(ss_known *known, uintptr_t mask, uintptr_t ip)
{
    uintptr_t at = ip ^ ip >> 13;

    for (;; at++) {
        ss_known *k = &known[at & mask];

        if (SS_LIKELY(k->ip == ip) || !k->ip)
            return k;
    }
}

/*
 * How many words below the stack pointer of the caller of NODE that one's frame pointer is; 0 when
 * no frame further in saved it or the frames between have no fixed sizes.
 */
uint16_t ss_tree_frame_pointer(const ss_tree *tree, const ss_tree_node *node);

/* A copy of NODE behind PARENT.  There is room below room.nodes. */
const ss_tree_node *ss_tree_copy(ss_tree *tree, const ss_tree_node *parent,
                                 const ss_tree_node *node);

/* A node for IP, which is not known, behind PARENT; NULL without room. */
const ss_tree_node *ss_tree_add(ss_tree *tree, const ss_tree_node *parent, uintptr_t ip,
                                const ss_rule *rule, uint32_t flags);

#endif
