/*
 * What a thread knows of the stacks it has walked: a tree of return addresses with their rules,
 * innermost first.
 *
 * The node that lies behind another in memory is its first seen caller; other callers are found by
 * (parent, ip) in a hash table of edges.  A node is only a guess: its ip is compared with the one
 * that was read from the stack, and what it says depends on the ip alone, so a node of a wrong
 * context is as right as any.  All of it belongs to one thread.
 */
#ifndef SS_TREE_H
#define SS_TREE_H

#include "unwind/rule.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

enum {
    SS_TREE_NODES = 16384,        /* of contexts; then the tree begins anew */
    SS_TREE_ROOM = 32768,         /* nodes with those that one walk may add to a full tree */
    SS_TREE_EDGES = 8192,         /* a power of two */
    SS_TREE_FIRST_KNOWN = 256,    /* powers of two */
    SS_TREE_MOST_KNOWN = 16384,
    SS_TREE_FILES = 1024
};

/* The last two members are the tail of a stacksplice_native_frame. */
typedef struct ss_node {
    uintptr_t ip; /* a return address; one more than the address where a signal interrupted */
    uint32_t cfa; /* of the rule */
    uint16_t parent;
    uint16_t return_slot; /* of the rule */
    uintptr_t function;
    uint32_t flags;
    uint32_t rule; /* index of rules */
} ss_node;

_Static_assert(sizeof(ss_node) == 32, "two nodes a cache line");
_Static_assert(SS_TREE_ROOM <= UINT16_MAX, "nodes are numbered in 16 bits");

/* A node by its ip, and what the next step needs of it. */
typedef struct ss_known {
    uintptr_t ip; /* 0: free */
    uint32_t cfa;
    uint16_t node;
    uint16_t return_slot;
} ss_known;

/* The registers of the caller of one frame, complete, where a rule cannot say it. */
typedef struct ss_register_file {
    uint32_t frame;
    uint32_t known; /* bit per register */
    uintptr_t value[SS_REGISTER_COUNT];
} ss_register_file;

_Static_assert(SS_REGISTER_COUNT <= 32, "known is one bit a register");

typedef struct ss_tree {
    ss_node *nodes; /* 0 is the root; behind the last lies one that stands for nothing */
    uint32_t node_count;
    int32_t credit; /* nodes that may be added for new contexts */
    ss_rule *rules; /* 0 is ss_rule_frame_pointer */
    uint32_t rule_count;
    uint32_t known_mask;
    ss_known *known; /* a quarter full at most, the widest three quarters */
    uint32_t known_count;
    uint32_t edge_count;
    uint16_t *edges;    /* numbers of nodes; 0: free */
    uint64_t generation; /* of the modules, and */
    uint32_t epoch;      /* of the classifier, that all this is true for */
    ss_stack_cache stack;
    ss_register_file *files;
    uint32_t file_count;              /* of the last walk */
    uintptr_t entry[SS_SAVED_COUNT];  /* the registers at frame 0, of the last walk */
    stacksplice_native_frame *frames; /* SS_UNWIND_MAX_FRAMES */
    uint32_t *marked;                 /* as many */
    size_t size;                      /* of the mapping that all this lies in */
} ss_tree;

/* An empty tree, or NULL. */
ss_tree *ss_tree_new(void);
void ss_tree_free(ss_tree *tree);

/* Forget every node. */
void ss_tree_forget(ss_tree *tree);

/* Give back the memory of what the last walk found beyond FRAMES frames. */
void ss_tree_trim(ss_tree *tree, uint32_t frames);

/* Whether it should begin anew before the next walk. */
static inline bool ss_tree_is_full(const ss_tree *tree)
{
    return tree->node_count >= SS_TREE_NODES || tree->edge_count >= SS_TREE_EDGES / 4 * 3 ||
           tree->known_count >= SS_TREE_MOST_KNOWN / 4 * 3;
}

static inline uint32_t ss_tree_edge_home(uint32_t parent, uintptr_t ip)
{
    return (uint32_t)((ip + parent * UINT64_C(0x9e3779b1)) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* The node for IP behind PARENT, other than the one that lies behind it in memory, or NULL. */
static inline const ss_node *ss_tree_edge(const ss_tree *tree, const ss_node *parent, uintptr_t ip)
{
    uint32_t number = (uint32_t)(parent - tree->nodes);

    if (!tree->edge_count)
        return NULL; /* a first walk need not touch their pages */
    for (uint32_t at = ss_tree_edge_home(number, ip);; at++) {
        uint16_t edge = tree->edges[at & (SS_TREE_EDGES - 1)];
        const ss_node *node = &tree->nodes[edge];

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

/* A copy of NODE behind PARENT.  There is room below SS_TREE_NODES. */
const ss_node *ss_tree_copy(ss_tree *tree, const ss_node *parent, const ss_node *node);

/* A node for IP, which is not known, behind PARENT; NULL without room. */
const ss_node *ss_tree_add(ss_tree *tree, const ss_node *parent, uintptr_t ip, const ss_rule *rule,
                           uint32_t flags);

#endif
