#include "unwind/tree.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_CODE 1u /* no return address: what begins and ends the nodes has it */

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

/* What a walk touches comes first and close together: a first walk pays for each page. */
static size_t lay_out(ss_tree *tree)
{
    size_t used = align(sizeof *tree);
    ss_tree t;

    t.edges = carve(tree, &used, SS_TREE_EDGES, sizeof *t.edges);
    t.known = carve(tree, &used, SS_TREE_MOST_KNOWN, sizeof *t.known);
    t.nodes = carve(tree, &used, SS_TREE_ROOM + 1, sizeof *t.nodes);
    t.rules = carve(tree, &used, SS_TREE_ROOM + 1, sizeof *t.rules);
    t.files = carve(tree, &used, SS_TREE_FILES, sizeof *t.files);
    t.marked = carve(tree, &used, SS_UNWIND_MAX_FRAMES + 1, sizeof *t.marked);
    t.frames = carve(tree, &used, SS_UNWIND_MAX_FRAMES, sizeof *t.frames);
    if (tree) {
        tree->edges = t.edges;
        tree->known = t.known;
        tree->nodes = t.nodes;
        tree->rules = t.rules;
        tree->files = t.files;
        tree->marked = t.marked;
        tree->frames = t.frames;
        tree->size = used;
    }
    return used;
}

ss_tree *ss_tree_new(void)
{
    size_t size = lay_out(NULL);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ss_tree *tree = map;

    if (map == MAP_FAILED)
        return NULL;
    /* A huge page would be cleared whole at the first touch. */
    (void)madvise(map, size, MADV_NOHUGEPAGE);
    (void)lay_out(tree);
    ss_tree_forget(tree);
    return tree;
}

void ss_tree_free(ss_tree *tree)
{
    if (tree)
        munmap(tree, tree->size);
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
    drop_pages(tree->frames + frames, tree->frames + SS_UNWIND_MAX_FRAMES);
    drop_pages(tree->marked + frames, tree->marked + SS_UNWIND_MAX_FRAMES);
}

static void end_nodes(ss_tree *tree)
{
    tree->nodes[tree->node_count] = (ss_node){.ip = NO_CODE, .cfa = SS_RULE_FULL};
}

void ss_tree_forget(ss_tree *tree)
{
    if (tree->edge_count)
        memset(tree->edges, 0, SS_TREE_EDGES * sizeof *tree->edges);
    if (tree->known_count)
        memset(tree->known, 0, (tree->known_mask + 1) * sizeof *tree->known);
    tree->known_mask = SS_TREE_FIRST_KNOWN - 1;
    tree->edge_count = tree->known_count = 0;
    tree->rules[0] = ss_rule_frame_pointer();
    tree->rule_count = 1;
    tree->node_count = 0;
    end_nodes(tree);
    tree->node_count = 1;
    end_nodes(tree);
}

/* ---- Edges ------------------------------------------------------------------------------------*/

/* Without room the node is not found again from PARENT. */
static void add_edge(ss_tree *tree, uint32_t parent, uint32_t number)
{
    uint32_t at = ss_tree_edge_home(parent, tree->nodes[number].ip);

    if (tree->edge_count >= SS_TREE_EDGES / 4 * 3)
        return;
    while (tree->edges[at & (SS_TREE_EDGES - 1)])
        at++;
    tree->edges[at & (SS_TREE_EDGES - 1)] = (uint16_t)number;
    tree->edge_count++;
}

/* ---- Nodes ------------------------------------------------------------------------------------*/

static const ss_node *append(ss_tree *tree, const ss_node *parent, const ss_node *node)
{
    uint32_t number = tree->node_count++, behind = (uint32_t)(parent - tree->nodes);

    tree->nodes[number] = *node;
    tree->nodes[number].parent = (uint16_t)behind;
    end_nodes(tree);
    if (number != behind + 1)
        add_edge(tree, behind, number);
    return &tree->nodes[number];
}

const ss_node *ss_tree_copy(ss_tree *tree, const ss_node *parent, const ss_node *node)
{
    tree->credit--;
    return append(tree, parent, node);
}

static void put_known(ss_tree *tree, uint32_t number)
{
    const ss_node *node = &tree->nodes[number];
    ss_known *known = ss_tree_known(tree->known, tree->known_mask, node->ip);

    if (known->ip)
        return;
    *known = (ss_known){node->ip, node->cfa, (uint16_t)number, node->return_slot};
    tree->known_count++;
}

/* A small table keeps first walks from touching many pages. */
static void widen_known(ss_tree *tree)
{
    memset(tree->known, 0, (tree->known_mask + 1) * sizeof *tree->known);
    tree->known_mask = tree->known_mask * 4 + 3;
    tree->known_count = 0;
    for (uint32_t i = 1; i < tree->node_count; i++)
        put_known(tree, i);
}

/* Without room it is learned again where it is met. */
static void add_known(ss_tree *tree, uint32_t number)
{
    if (tree->known_count > tree->known_mask / 4 && tree->known_mask + 1 < SS_TREE_MOST_KNOWN)
        widen_known(tree);
    if (tree->known_count < SS_TREE_MOST_KNOWN / 4 * 3)
        put_known(tree, number);
}

const ss_node *ss_tree_add(ss_tree *tree, const ss_node *parent, uintptr_t ip, const ss_rule *rule,
                           uint32_t flags)
{
    ss_node node = {.ip = ip, .cfa = rule->cfa, .flags = flags, .rule = tree->rule_count};
    const ss_node *added;

    if (tree->node_count == SS_TREE_ROOM)
        return NULL;
    if (rule->start != UINT32_MAX)
        node.function = ip - 1 - rule->start;
    node.return_slot = (uint16_t)ss_rule_return_slot(rule->slots);
    tree->rules[tree->rule_count++] = *rule;
    added = append(tree, parent, &node);
    add_known(tree, (uint32_t)(added - tree->nodes));
    return added;
}
