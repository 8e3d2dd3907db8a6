/*
 * Python's objects in a target.  What is there may be half made or damaged: every read is checked,
 * and every list bounded.
 */
#ifndef SSI_PYTHON_OBJECTS_H
#define SSI_PYTHON_OBJECTS_H

#include "shared/python.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which of the builtin types a value of a target has. */
typedef enum ssi_kind {
    KIND_OTHER, /* also values of subclasses */
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_FLOAT,
    KIND_STR,
    KIND_BYTES,
    KIND_LIST,
    KIND_TUPLE,
    KIND_DICT,
    KIND_SET,
    KIND_FROZENSET,
    KIND_CELL
} ssi_kind;

/* sspy_layout.object_head of the Python that is read.  A process may have Pythons of both kinds: each is read
   as a whole after this was set. */
extern uint32_t ssi_object_head;

/* Where the members of the object at ADDRESS begin, from which all offsets of members count. */
static inline uint64_t ssi_members(uint64_t address)
{
    return address + ssi_object_head;
}

ssi_kind ssi_object_kind(uint64_t address);
enum { SSI_TYPE_ROOM = 101 };

/* The name of its type, shorter than that, until that of another value is asked for; empty if it cannot be read. */
const char *ssi_object_type(uint64_t address);
/* Whether its type is NAME, or derived from that. */
bool ssi_object_is_a(uint64_t address, const char *name);

/* The beginning of a str in UTF-8, with a NUL, until the next one is read.  Half of a pair stays one. */
typedef struct ssi_python_text {
    const char *bytes;
    size_t length, count; /* of bytes, of characters */
} ssi_python_text;

/* False if there is no str at ADDRESS. */
bool ssi_object_read_text(const sspy_layout *layout, uint64_t address, ssi_python_text *out);
/* Whether the str at ADDRESS is TEXT. */
bool ssi_object_is(const sspy_layout *layout, uint64_t address, const char *text);
/* The text of the str at ADDRESS, which is kept; NULL if it is none, or without memory. */
const char *ssi_object_text(const sspy_layout *layout, uint64_t address);
/* The same of a value of any type; NULL also if it is longer than names are. */
const char *ssi_object_name(const sspy_layout *layout, uint64_t address);

enum { SSI_DIGIT_BITS = 30, SSI_MAX_DIGITS = 12 /* larger numbers are not read */ };

/* The digits of the int at ADDRESS; false if it cannot be read. */
bool ssi_object_digits(const sspy_layout *layout, uint64_t address, uint32_t *digits,
                       uint64_t *count, bool *negative);
/* The int or bool at ADDRESS, if it is one of at most 60 bits and not negative. */
bool ssi_object_number(const sspy_layout *layout, uint64_t address, uint64_t *out);

/* The items of a list, tuple, dict or set, or an object's attributes, one after the other. */
typedef struct ssi_items {
    uint64_t size;      /* as the container itself says */
    uint64_t at, count; /* of places, of which some may be free */
    uint64_t place, stride;
    uint32_t key, value;        /* in a place */
    uint64_t values;            /* of a dict that shares its keys; else 0 */
    uint64_t order, order_step; /* of such a dict */
    bool is_set, is_damaged;
} ssi_items;

/* False if the container at ADDRESS cannot be read, or is not of KIND. */
bool ssi_items_begin(ssi_items *items, const sspy_layout *layout, ssi_kind kind, uint64_t address);
/* The next item; *KEY is that of a dict, else 0.  False after the last one, and where no more can
   be read: then IS_DAMAGED. */
bool ssi_items_next(ssi_items *items, uint64_t *key, uint64_t *value);
/* The value of NAME in the dict at ADDRESS, or 0. */
uint64_t ssi_dict_find(const sspy_layout *layout, uint64_t address, const char *name);
/* The attribute NAME of OBJECT, an instance of a class of Python, or 0. */
uint64_t ssi_object_attribute(const sspy_layout *layout, uint64_t object, const char *name);
/* The dict of the module NAME of the interpreter at INTERPRETER, or 0. */
uint64_t ssi_module_members(const sspy_layout *layout, uint64_t interpreter, const char *name);

#endif
