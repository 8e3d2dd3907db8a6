/*
 * One thread's cache of the stacks it has walked: a tree of return addresses with their rules,
 * innermost first.
 *
 * A node's first seen caller follows it in memory.  A hash table of edges finds other callers by
 * (parent, ip).  After walks of the stacks a-b-c-d and a-b-x-y (a is innermost):
 *
 *      root  a  b  c  d  end  x  y  end
 *               |             ^
 *               +-edge (b,x)--+
 *
 * Contexts begin anew at homes: functions that save every register, as the loops of interpreters
 * do.  A home stands under the root; where a path meets it, a link stands for it.  So stacks made
 * of known parts in a new order are known, and the tree stays small:
 *
 *      root  a  b  link-+  end  h  x  end  y  link-+  end
 *                       +------>^<----------------+
 *
 * A walk that repeats a known stack therefore reads consecutive memory.  A node is only a guess:
 * the walk compares its ip with the one it read from the stack.  Reaching a node implies the ips of
 * all its ancestors, so it can cache facts about the whole path.  The root stands for any unknown
 * context.  One thread owns the tree.
 *
 * The memory is mapped, not allocated, as a signal handler may need more of it.  It starts small:
 * few threads need much, and the process may lock its memory.
 */
#ifndef SS_TREE_H
#define SS_TREE_H

#include "unwind/rule.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

enum {
    SS_TREE_LINK = 7,          /* as the kind of a rule: the node stands for a home */
    SS_TREE_HOME_DISTANCE = 6, /* frames between two homes at least */
    SS_TREE_EDGES_A_NODE = 2,  /* of the hash table, at most a quarter full */
    SS_TREE_FIRST_KNOWN = 256,
    SS_TREE_MOST_NODES = 16384
};

/* Capacities; nodes and known are powers of two. */
typedef struct ss_tree_room {
    uint32_t nodes; /* contexts; the tree is cleared when it has as many */
    uint32_t spare; /* nodes that one walk may add to a full tree */
    uint32_t known;
    uint32_t files;
    uint32_t frames;
} ss_tree_room;

typedef enum ss_tree_size { SS_TREE_SMALL = 0, SS_TREE_WIDE = 1, SS_TREE_DEEP = 2 } ss_tree_size;

/*
 * What a walk needs of a frame.  A rule of kind SS_RULE_FRAME does not need an offset.  There `cfa`
 * holds the frame's last size, a guess that is available before the frame pointer is loaded.
 */
typedef struct ss_tree_node {
    uintptr_t ip; /* a return address; one more than the address where a signal interrupted */
    uint32_t cfa; /* of the rule */
    uint16_t parent;
    uint16_t slot; /* SS_RETURN_SAVED < 0: words from the stack pointer down to the saved frame
                      pointer, 0: unknown; else the return slot of the rule.  Of a link: its home */
} ss_tree_node;

/* The last fields of a stacksplice_native_frame. */
typedef struct ss_tree_facts {
    uintptr_t function;
    uint32_t flags;
    uint32_t rule; /* index of rules */
} ss_tree_facts;

_Static_assert(sizeof(ss_tree_node) == 16 && sizeof(ss_tree_facts) == 16, "four a cache line");
_Static_assert((int)SS_TREE_LINK > (int)SS_RULE_FULL && (int)SS_TREE_LINK <= (int)SS_RULE_KIND_MASK,
               "a kind");
_Static_assert(SS_TREE_MOST_NODES * 2 <= UINT16_MAX, "nodes are numbered in 16 bits");

/* A node by its ip, with the fields that the next step needs. */
typedef struct ss_known {
    uintptr_t ip; /* 0: free */
    uint32_t cfa;
    uint16_t node;
    uint16_t slot; /* of the rule: the slot of the frame pointer if SS_RETURN_SAVED < 0, else that
                      of the return address */
} ss_known;

/* Flag of a known node: a home. */
#define SS_KNOWN_HOME 0x8000u
_Static_assert((int)SS_KNOWN_HOME > (int)SS_SLOT_MASK, "beside the slot");

/* All known registers of one frame's caller, where a rule cannot describe them. */
typedef struct ss_register_file {
    uint32_t frame;
    uint32_t known; /* bit per register */
    uintptr_t value[SS_REGISTER_COUNT];
} ss_register_file;

_Static_assert(SS_REGISTER_COUNT <= 32, "known is one bit a register");

typedef struct ss_tree {
    ss_tree_node *nodes;  /* 0 is the root; an end mark follows the last */
    ss_tree_facts *facts; /* of each node */
    uint32_t node_count;
    int32_t credit; /* nodes that may be added for new contexts */
    ss_rule *rules; /* 0 is ss_rule_frame_pointer; the next are of the forwarders, by their kind */
    uint32_t rule_count;
    uint32_t known_mask;
    ss_known *known; /* at most a quarter full; at the largest size, three quarters */
    uint32_t known_count;
    uint32_t edge_count;
    uint16_t *edges;     /* numbers of nodes; 0: free */
    uint32_t edge_mask;  /* 0 without edges: a first walk need not touch the table's pages */
    uint32_t epoch;      /* of the classifier */
    uint64_t generation; /* of the modules; a change of either voids the tree */
    uint32_t sample;     /* counts walks that meet new contexts; one that finds it 0 keeps them */
    uint32_t strange;    /* grows with walks that meet new contexts, shrinks with others */
    uint32_t passed_by;  /* walks since the last that tried the tree */
    uint32_t addresses;  /* node of our outermost frame in a walk for addresses; 0: unknown */
    ss_stack_cache stack;
    ss_register_file *files;
    uint32_t file_count;             /* of the last walk */
    uintptr_t entry[SS_SAVED_COUNT]; /* the registers at frame 0, of the last walk */
    stacksplice_native_frame *frames;
    uint32_t *marked; /* as many */
    ss_tree_room room;
    ss_tree_size size;
    size_t bytes; /* of the mapping that holds all this */
} ss_tree;

/* An empty tree of SIZE, a sum of flags; or NULL. */
ss_tree *ss_tree_new(ss_tree_size size);
void ss_tree_free(ss_tree *tree);

/* Forget every node. */
void ss_tree_forget(ss_tree *tree);

/* Release the memory of frames of the last walk beyond the first FRAMES. */
void ss_tree_trim(ss_tree *tree, uint32_t frames);

/* Whether to clear it before the next walk. */
static inline bool ss_tree_is_full(const ss_tree *tree)
{
    return tree->node_count >= tree->room.nodes || tree->known_count >= tree->room.known / 4 * 3;
}

/*
 * Contexts that never recur are not worth their nodes, but only later walks show that.  So each new
 * node costs credit, and each walk earns a little.  Of the walks that meet new contexts, one in
 * SS_TREE_SAMPLING adds them.
 */
enum {
    SS_TREE_FIRST_CREDIT = 16384,
    SS_TREE_CREDIT_A_WALK = 2,
    SS_TREE_SAMPLING = 4,
    SS_TREE_STRANGE = 256, /* reached when more than a quarter of the walks are strange */
    SS_TREE_PASSED_BY = 32
};

static inline bool ss_tree_may_grow(const ss_tree *tree)
{
    return tree->credit > 0 && !tree->sample;
}

/*
 * Whether the next walk should try the tree.  Where stacks are ever new the processor mispredicts
 * what the tree guesses, even if it has nearly all contexts: a walk by the ip alone takes more
 * instructions and half the time.  Then only one walk in SS_TREE_PASSED_BY tries.
 */
static inline bool ss_tree_may_help(ss_tree *tree)
{
    if (SS_LIKELY(tree->strange < SS_TREE_STRANGE))
        return true;
    if (++tree->passed_by < SS_TREE_PASSED_BY)
        return false;
    tree->passed_by = 0;
    tree->sample = 0;
    return true;
}

/* A walk that tried the tree ends; it was STRANGE if it met a new context. */
static inline void ss_tree_tried(ss_tree *tree, bool strange)
{
    if (SS_LIKELY(!strange)) {
        tree->strange -= tree->strange > 0;
        return;
    }
    tree->sample = (tree->sample + 1) % SS_TREE_SAMPLING;
    tree->strange += tree->strange < SS_TREE_STRANGE ? 3 : 0;
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
    return (uint32_t)(ip ^ ip >> 13) + parent * UINT32_C(0x9e3779b1);
}

/* Whether NODE is the one for IP under PARENT. */
static inline bool ss_tree_is_edge(const ss_tree_node *node, uint32_t parent, uintptr_t ip)
{
    return SS_LIKELY(node->ip == ip) && SS_LIKELY(node->parent == parent);
}

/* The same search, from the entry at AT on. */
const ss_tree_node *ss_tree_edge_from(const ss_tree *tree, uint32_t parent, uintptr_t ip,
                                      uint32_t at);

/*
 * The node for IP under PARENT that the hash table holds (the next in memory is not in it), or
 * NULL.  A free entry names the root, which has no ip.
 */
static inline const ss_tree_node *ss_tree_edge(const ss_tree *tree, const ss_tree_node *parent,
                                               uintptr_t ip)
{
    uint32_t number = (uint32_t)(parent - tree->nodes), at = ss_tree_edge_home(number, ip);
    const ss_tree_node *node = &tree->nodes[tree->edges[at & tree->edge_mask]];

    if (ss_tree_is_edge(node, number, ip))
        return node;
    return ss_tree_edge_from(tree, number, ip, at);
}

/* The entry of IP in KNOWN, of MASK + 1 entries, or the free entry where it belongs. */
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
 * How many words below its stack pointer the frame pointer of NODE's caller is saved.  0 when no
 * frame further in saved it, or when a frame in between has no fixed size.
 */
uint16_t ss_tree_frame_pointer(const ss_tree *tree, const ss_tree_node *node);

/* The node that the walk continues from after NODE. */
static inline const ss_tree_node *ss_tree_home(const ss_tree *tree, const ss_tree_node *node)
{
    return (node->cfa & SS_RULE_KIND_MASK) == SS_TREE_LINK ? &tree->nodes[node->slot] : node;
}

/*
 * Let the node of IP, if it is known in another context, stand under PARENT too; only if
 * ss_tree_may_grow.  Returns the node to go on from, a copy or a home; NULL if IP is unknown, or
 * without room.
 */
const ss_tree_node *ss_tree_grow(ss_tree *tree, const ss_tree_node *parent, uintptr_t ip);

/* Add a node for IP, which is new, under PARENT or as a home; NULL without room. */
const ss_tree_node *ss_tree_add(ss_tree *tree, const ss_tree_node *parent, uintptr_t ip,
                                const ss_rule *rule, uint32_t flags);

#endif
