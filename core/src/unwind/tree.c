#include "unwind/tree.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_CODE 1u /* never a return address: marks the start and end of nodes */

/* ---- Memory -----------------------------------------------------------------------------------*/

static size_t align(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static void *carve(ss_tree *tree, size_t *used, size_t count, size_t size)
{
    void *part = (void *)((uintptr_t)tree + *used);

    *used += align(count * size);
    return part;
}

/* Parts that every walk touches come first and close together: a first walk pays for each page. */
static size_t lay_out(ss_tree *tree, const ss_tree_room *room)
{
    size_t used = align(sizeof *tree), nodes = room->nodes + room->spare + 1;
    ss_tree t;

    t.edges = carve(tree, &used, (size_t)room->nodes * SS_TREE_EDGES_A_NODE, sizeof *t.edges);
    t.known = carve(tree, &used, room->known, sizeof *t.known);
    t.nodes = carve(tree, &used, nodes, sizeof *t.nodes);
    t.facts = carve(tree, &used, nodes, sizeof *t.facts);
    t.rules = carve(tree, &used, nodes + SS_FORWARDERS, sizeof *t.rules);
    t.files = carve(tree, &used, room->files, sizeof *t.files);
    t.marked = carve(tree, &used, room->frames + 1, sizeof *t.marked);
    t.frames = carve(tree, &used, room->frames, sizeof *t.frames);
    if (tree) {
        tree->edges = t.edges;
        tree->known = t.known;
        tree->nodes = t.nodes;
        tree->facts = t.facts;
        tree->rules = t.rules;
        tree->files = t.files;
        tree->marked = t.marked;
        tree->frames = t.frames;
    }
    return used;
}

static ss_tree_room room_of(ss_tree_size size)
{
    ss_tree_room room = {.nodes = 4096, .spare = 512, .known = 4096, .files = 32, .frames = 2048};

    if (size & SS_TREE_WIDE) {
        room.nodes = room.known = SS_TREE_MOST_NODES;
        room.spare = 8192;
        room.files = 1024;
    }
    if (size & SS_TREE_DEEP)
        room.frames = SS_UNWIND_MAX_FRAMES;
    return room;
}

ss_tree *ss_tree_new(ss_tree_size size)
{
    ss_tree_room room = room_of(size);
    size_t bytes = lay_out(NULL, &room);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ss_tree *tree = map;

    if (map == MAP_FAILED)
        return NULL;
    /* The kernel would clear a whole huge page at the first touch. */
    (void)madvise(map, bytes, MADV_NOHUGEPAGE);
    (void)lay_out(tree, &room);
    tree->room = room;
    tree->size = size;
    tree->bytes = bytes;
    ss_tree_forget(tree);
    return tree;
}

void ss_tree_free(ss_tree *tree)
{
    if (tree)
        munmap(tree, tree->bytes);
}

static void drop_pages(void *from, void *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t low = ((uintptr_t)from + page - 1) / page * page, high = (uintptr_t)to / page * page;

    if (low < high)
        (void)madvise((void *)low, high - low, MADV_DONTNEED);
}

void ss_tree_trim(ss_tree *tree, uint32_t frames)
{
    drop_pages(tree->frames + frames, tree->frames + tree->room.frames);
    drop_pages(tree->marked + frames, tree->marked + tree->room.frames);
}

static void end_nodes(ss_tree *tree)
{
    tree->nodes[tree->node_count] = (ss_tree_node){.ip = NO_CODE, .cfa = SS_RULE_FULL};
}

void ss_tree_forget(ss_tree *tree)
{
    if (tree->edge_count)
        memset(tree->edges, 0, (tree->edge_mask + 1) * sizeof *tree->edges);
    if (tree->known_count)
        memset(tree->known, 0, (tree->known_mask + 1) * sizeof *tree->known);
    tree->edge_mask = 0;
    tree->known_mask = SS_TREE_FIRST_KNOWN - 1;
    tree->edge_count = tree->known_count = tree->addresses = 0;
    tree->rules[0] = ss_rule_frame_pointer();
    for (int i = 1; i < SS_FORWARDERS; i++)
        tree->rules[i] = ss_rule_forwarder((ss_forwarder)i);
    tree->rule_count = SS_FORWARDERS;
    tree->node_count = 0;
    end_nodes(tree);
    tree->node_count = 1;
    end_nodes(tree);
}

/* ---- Nodes ------------------------------------------------------------------------------------*/

SS_NOINLINE const ss_tree_node *ss_tree_edge_from(const ss_tree *tree, uint32_t parent,
                                                  uintptr_t ip, uint32_t at)
{
    for (;; at++) {
        uint16_t edge = tree->edges[at & tree->edge_mask];

        if (!edge)
            return NULL;
        if (ss_tree_is_edge(&tree->nodes[edge], parent, ip))
            return &tree->nodes[edge];
    }
}

/* The table never fills up: it has more entries than there can be nodes. */
static void add_edge(ss_tree *tree, uint32_t parent, uint32_t number)
{
    uint32_t at = ss_tree_edge_home(parent, tree->nodes[number].ip);

    tree->edge_mask = tree->room.nodes * SS_TREE_EDGES_A_NODE - 1;
    while (tree->edges[at & tree->edge_mask])
        at++;
    tree->edges[at & tree->edge_mask] = (uint16_t)number;
    tree->edge_count++;
}

/*
 * The slot of the caller's frame pointer by RULE, if it is certain to lie in the frame or in the
 * word below.  The walk then loads it without a check.
 */
static unsigned certain_slot(const ss_rule *rule)
{
    unsigned slot = ss_rule_slot(rule->slots, SS_SAVED_FP);
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);
    uintptr_t most = kind == SS_RULE_SP ? ss_rule_offset(rule->cfa) / sizeof(uintptr_t) : 2;

    if (kind > SS_RULE_SAVED) /* counts from another base than the CFA, or has none */
        return SS_SLOT_LOST;
    return slot <= most || slot == SS_SLOT_UNCHANGED ? slot : SS_SLOT_LOST;
}

uint16_t ss_tree_frame_pointer(const ss_tree *tree, const ss_tree_node *node)
{
    uint32_t number = (uint32_t)(node - tree->nodes);
    size_t words = 0;

    for (; number; number = tree->nodes[number].parent) {
        const ss_rule *rule = &tree->rules[tree->facts[number].rule];
        unsigned slot = certain_slot(rule);

        if (slot == SS_SLOT_LOST)
            return 0;
        if (slot != SS_SLOT_UNCHANGED)
            return words + slot <= UINT16_MAX ? (uint16_t)(words + slot) : 0;
        if (ss_rule_kind_of(rule->cfa) != SS_RULE_SP)
            return 0;
        words += ss_rule_offset(rule->cfa) / sizeof(uintptr_t);
    }
    return 0;
}

/* Add NODE under PARENT, not yet to the table of edges. */
static const ss_tree_node *place(ss_tree *tree, const ss_tree_node *parent,
                                 const ss_tree_node *node, const ss_tree_facts *facts)
{
    uint32_t number = tree->node_count, behind = (uint32_t)(parent - tree->nodes);
    ss_rule_kind kind = ss_rule_kind_of(node->cfa);

    if (number != behind + 1)
        number++; /* keep the end mark: this is not the previous node's caller */
    tree->node_count = number + 1;
    tree->nodes[number] = *node;
    tree->nodes[number].parent = (uint16_t)behind;
    if (SS_RETURN_SAVED < 0 && (kind == SS_RULE_FRAME || kind == SS_RULE_SAVED))
        tree->nodes[number].slot = ss_tree_frame_pointer(tree, parent);
    tree->facts[number] = *facts;
    end_nodes(tree);
    return &tree->nodes[number];
}

static const ss_tree_node *append(ss_tree *tree, const ss_tree_node *parent,
                                  const ss_tree_node *node, const ss_tree_facts *facts)
{
    const ss_tree_node *added = place(tree, parent, node, facts);

    if (added != parent + 1)
        add_edge(tree, (uint32_t)(parent - tree->nodes), (uint32_t)(added - tree->nodes));
    return added;
}

/*
 * Whether the node of RULE may be a home: if its function saves every register, as interpreters'
 * loops do.  Then frames further out need nothing that was saved further in, and a link to it needs
 * nothing but the stack pointer.
 */
static bool may_be_home(const ss_rule *rule)
{
    if (ss_rule_kind_of(rule->cfa) != SS_RULE_SP ||
        (SS_RETURN_SAVED < 0 && certain_slot(rule) == SS_SLOT_LOST))
        return false;
    for (int saved = 0; saved < SS_SAVED_COUNT; saved++)
        if (ss_rule_slot(rule->slots, saved) > SS_SLOT_MAX)
            return false;
    return true;
}

/* Whether a home may follow PARENT: contexts of a few frames tell what comes next. */
static bool is_far(const ss_tree *tree, const ss_tree_node *parent)
{
    uint32_t number = (uint32_t)(parent - tree->nodes);

    for (unsigned i = 0; i < SS_TREE_HOME_DISTANCE && number; i++)
        number = tree->nodes[number].parent;
    return number || parent == tree->nodes;
}

static const ss_rule *rule_of(const ss_tree *tree, const ss_tree_node *node)
{
    return &tree->rules[ss_tree_facts_of(tree, node)->rule];
}

static bool is_home(const ss_tree *tree, const ss_tree_node *node)
{
    return !node->parent && may_be_home(rule_of(tree, node));
}

/*
 * Let a home stand under PARENT: HOME, or without one a new one, which is NODE.  Returns it.  The
 * link comes first, because it may follow PARENT in memory.
 */
static const ss_tree_node *add_link(ss_tree *tree, const ss_tree_node *parent,
                                    const ss_tree_node *home, const ss_tree_node *node,
                                    const ss_tree_facts *facts)
{
    const ss_tree_node link = {.ip = node->ip, .cfa = SS_TREE_LINK}, *added = NULL;

    if (parent != tree->nodes)
        added = append(tree, parent, &link, facts);
    if (!home)
        home = place(tree, tree->nodes, node, facts); /* found by its ip, not by an edge */
    if (added)
        tree->nodes[added - tree->nodes].slot = (uint16_t)(home - tree->nodes);
    return home;
}

/* Of the nodes with one ip, its home, else the first. */
static void put_known(ss_tree *tree, uint32_t number)
{
    const ss_tree_node *node = &tree->nodes[number];
    const ss_rule *rule = rule_of(tree, node);
    ss_known *known = ss_tree_known(tree->known, tree->known_mask, node->ip);
    unsigned slot = SS_RETURN_SAVED < 0 ? certain_slot(rule) : ss_rule_return_slot(rule->slots);
    bool home = is_home(tree, node);

    if (known->ip && !home)
        return;
    tree->known_count += !known->ip;
    slot |= home ? SS_KNOWN_HOME : 0;
    *known = (ss_known){node->ip, rule->cfa, (uint16_t)number, (uint16_t)slot};
}

/* The table starts small, so that first walks touch few pages. */
static void widen_known(ss_tree *tree)
{
    memset(tree->known, 0, (tree->known_mask + 1) * sizeof *tree->known);
    tree->known_mask = tree->known_mask * 4 + 3;
    tree->known_count = 0;
    for (uint32_t i = 1; i < tree->node_count; i++)
        if (tree->nodes[i].ip != NO_CODE)
            put_known(tree, i);
}

/* Without room, the walk that meets this ip again learns it again. */
static void add_known(ss_tree *tree, uint32_t number)
{
    if (tree->known_count > tree->known_mask / 4 && tree->known_mask + 1 < tree->room.known)
        widen_known(tree);
    if (tree->known_count < tree->room.known / 4 * 3)
        put_known(tree, number);
}

SS_NOINLINE const ss_tree_node *ss_tree_grow(ss_tree *tree, const ss_tree_node *parent,
                                             uintptr_t ip)
{
    const ss_known *known = ss_tree_known(tree->known, tree->known_mask, ip);
    const ss_tree_node *node = &tree->nodes[known->node], *home;
    ss_tree_facts facts = *ss_tree_facts_of(tree, node);

    if (!known->ip || tree->node_count >= tree->room.nodes)
        return NULL;
    tree->credit--;
    if (!may_be_home(&tree->rules[facts.rule]) || !is_far(tree, parent))
        return append(tree, parent, node, &facts);
    home = add_link(tree, parent, node->parent ? NULL : node, node, &facts);
    put_known(tree, (uint32_t)(home - tree->nodes));
    return home;
}

const ss_tree_node *ss_tree_add(ss_tree *tree, const ss_tree_node *parent, uintptr_t ip,
                                const ss_rule *rule, uint32_t flags)
{
    ss_tree_node node = {.ip = ip, .cfa = rule->cfa};
    ss_tree_facts facts = {.flags = flags, .rule = tree->rule_count};
    const ss_tree_node *added;
    bool home = may_be_home(rule) && is_far(tree, parent);

    if (tree->node_count + (home ? 4 : 2) > tree->room.nodes + tree->room.spare)
        return NULL;
    if (rule->start != UINT32_MAX)
        facts.function = ip - 1 - rule->start;
    if (ss_rule_kind_of(rule->cfa) == SS_RULE_FRAME)
        node.cfa = 2 * sizeof(uintptr_t) + SS_RULE_FRAME; /* the smallest size it can have */
    if (SS_RETURN_SAVED >= 0)
        node.slot = (uint16_t)ss_rule_return_slot(rule->slots);
    tree->rules[tree->rule_count++] = *rule;
    added =
        home ? add_link(tree, parent, NULL, &node, &facts) : append(tree, parent, &node, &facts);
    add_known(tree, (uint32_t)(added - tree->nodes));
    return added;
}
