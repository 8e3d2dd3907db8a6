/* The memory of the private states: we know how much of an object we may read. */
#include "calibrate/sample.h"

#include <stdlib.h>
#include <string.h>

/* Precedes every block. */
typedef struct block_head {
    size_t size;
    uintptr_t mark; /* distinguishes a block from an address inside one */
} block_head;

static uintptr_t mark_of(const block_head *head)
{
    return (uintptr_t)head ^ (uintptr_t)UINT64_C(0x5353b10c0b5e1ec7);
}

uint32_t ss_lua_sample_object_words(uintptr_t object)
{
    const block_head *head = (const block_head *)object - 1;

    return head->mark == mark_of(head) ? (uint32_t)(head->size / sizeof(uintptr_t)) : 0;
}

/* Record where the interpreter calls an allocator. */
static void learn_callback(ss_lua_layout *layout, uintptr_t ip)
{
    for (uint32_t i = 0; i < layout->callback_count; i++)
        if (layout->callbacks[i] == ip)
            return;
    if (layout->callback_count < SS_LUA_CALLBACKS)
        layout->callbacks[layout->callback_count++] = ip;
}

/* New memory is zeroed, so that a word which Lua never wrote is the same at every visit. */
void *ss_lua_sample_allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    ss_lua_sample *now = data;
    block_head *head = block ? (block_head *)block - 1 : NULL, *grown;

    learn_callback(now->layout, (uintptr_t)__builtin_return_address(0));
    if (new_size == 0) {
        free(head);
        return NULL;
    }
    old_size = head ? head->size : 0; /* without a block it is the kind of object that Lua wants */
    grown = realloc(head, sizeof *head + new_size);
    if (!grown) {
        /* Lua relies on shrinking a block without failure. */
        if (new_size <= old_size)
            return block;
        now->starved = true;
        return NULL;
    }
    grown->size = new_size;
    grown->mark = mark_of(grown);
    if (new_size > old_size)
        memset((char *)(grown + 1) + old_size, 0, new_size - old_size);
    return grown + 1;
}
