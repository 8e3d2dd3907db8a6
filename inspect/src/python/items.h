/* The items of a list, tuple, dict or set of a target, or an object's attributes, one after the
 * other. */
#ifndef SSI_PYTHON_ITEMS_H
#define SSI_PYTHON_ITEMS_H

#include "python/layout.h"
#include "python/type.h"

typedef struct ssi_python_items {
    const ssi_memory *memory;
    uint64_t size;      /* as the container itself says */
    uint64_t at, count; /* of places, of which some may be free */
    uint64_t place, stride;
    uint32_t key, value;        /* in a place */
    uint64_t values;            /* of a dict that shares its keys; else 0 */
    uint64_t order, order_step; /* of such a dict */
    bool is_set, is_damaged;
} ssi_python_items;

/* False if the container at ADDRESS cannot be read. */
bool ssi_python_items_begin(ssi_python_items *items, const ssi_memory *memory,
                            const ssi_python_layout *layout, ssi_python_kind kind,
                            uint64_t address);
/* Begin the attributes of OBJECT, an instance of a class of Python; false if they cannot be read.
 */
bool ssi_python_attributes_begin(ssi_python_items *items, const ssi_memory *memory,
                                 const ssi_python_layout *layout, uint64_t object);
/* The next item; *KEY is that of a dict, else 0.  False after the last one, and where no more can
   be read: then IS_DAMAGED. */
bool ssi_python_items_next(ssi_python_items *items, uint64_t *key, uint64_t *value);

#endif
