/* What the files of this folder share. */
#ifndef SSI_PYTHON_PRIVATE_H
#define SSI_PYTHON_PRIVATE_H

#include "base/base.h"
#include "python/python.h"
#include "target/frame.h"

/* Which of the builtin types a value of a target has. */

typedef enum ssi_python_kind {
    SSI_PYTHON_OTHER, /* also values of subclasses */
    SSI_PYTHON_NONE,
    SSI_PYTHON_BOOL,
    SSI_PYTHON_INT,
    SSI_PYTHON_FLOAT,
    SSI_PYTHON_STR,
    SSI_PYTHON_BYTES,
    SSI_PYTHON_LIST,
    SSI_PYTHON_TUPLE,
    SSI_PYTHON_DICT,
    SSI_PYTHON_SET,
    SSI_PYTHON_FROZENSET,
    SSI_PYTHON_CELL
} ssi_python_kind;

enum { SSI_PYTHON_TYPE_ROOM = 101 };

/* The kind of the value at ADDRESS, and the name of its type; "" if it cannot be read. */
ssi_python_kind ssi_python_kind_of(uint64_t address, char name[SSI_PYTHON_TYPE_ROOM]);

/* A str of a target, as UTF-8. */

/* The beginning of a str, until the next one is read. */
typedef struct ssi_python_characters {
    const unsigned char *bytes;
    unsigned kind; /* the bytes of a character */
    size_t count;
} ssi_python_characters;

/* False if there is no str at ADDRESS. */
bool ssi_python_characters_of(const sspy_layout *layout, uint64_t address,
                              ssi_python_characters *out);
uint32_t ssi_python_character(const ssi_python_characters *of, size_t at);
/* Write the whole as JSON. */
void ssi_python_write_characters(const ssi_python_characters *text, ssi_written *to);

/* Whether the str at ADDRESS is TEXT, which is short and ASCII. */
bool ssi_python_text_is(const sspy_layout *layout, uint64_t address, const char *text);

/* The text of the str at ADDRESS, cut to some thousand characters; NULL if it is none, or without
   memory. */
const char *ssi_python_text(const sspy_layout *layout, uint64_t address);

/* The items of a list, tuple, dict or set of a target, or an object's attributes, one after the
 * other. */

typedef struct ssi_python_items {
    uint64_t size;      /* as the container itself says */
    uint64_t at, count; /* of places, of which some may be free */
    uint64_t place, stride;
    uint32_t key, value;        /* in a place */
    uint64_t values;            /* of a dict that shares its keys; else 0 */
    uint64_t order, order_step; /* of such a dict */
    bool is_set, is_damaged;
} ssi_python_items;

/* False if the container at ADDRESS cannot be read. */
bool ssi_python_items_begin(ssi_python_items *items, const sspy_layout *layout,
                            ssi_python_kind kind, uint64_t address);
/* Begin the attributes of OBJECT, an instance of a class of Python; false if they cannot be read.
 */
bool ssi_python_attributes_begin(ssi_python_items *items, const sspy_layout *layout,
                                 uint64_t object);
/* The next item; *KEY is that of a dict, else 0.  False after the last one, and where no more can
   be read: then IS_DAMAGED. */
bool ssi_python_items_next(ssi_python_items *items, uint64_t *key, uint64_t *value);

/* The int at ADDRESS, if it is one of at most 60 bits and not negative. */
bool ssi_python_number(const sspy_layout *layout, uint64_t address, uint64_t *out);
/* Write the text that reports have of a value of a target, as JSON. */
void ssi_python_value(const sspy_layout *layout, uint64_t address, ssi_written *to);

/* The local variables of a frame of a target. */

/* Write those of the frame at FRAME, which runs the code object at CODE, as one JSON object.  What
   cannot be read is left out. */
void ssi_python_locals(const sspy_layout *layout, uint64_t frame, uint64_t code, ssi_written *to);

/* What a code object of a target says: names, and the place of an instruction. */

typedef struct ssi_code {
    uint64_t address;
    const char *file, *function; /* NULL: cannot be read */
    int first_line;
    int first_traceable; /* code units */
    unsigned char *table;
    size_t table_size;
} ssi_code;

/* The code objects that were read, by address. */
typedef struct ssi_codes {
    const sspy_layout *layout;
    uint64_t type; /* that of all code objects; 0 until one was found */
    ssi_code *items;
    size_t count, room;
    ssi_map numbers;      /* of the items, by address */
    uint64_t table_bytes; /* of all tables */
    uint64_t walked;      /* bytes of tables, on the ways to places */
} ssi_codes;

/* The code object at ADDRESS, until the next call; NULL if it is none, or without memory. */
const ssi_code *ssi_code_at(ssi_codes *codes, uint64_t address);
/* Set the lines and columns of FRAME, which is at the byte OFFSET of the instructions of CODE; not
   when that took too long for those before it. */
void ssi_code_place(ssi_codes *codes, const ssi_code *code, int64_t offset, ssi_frame *frame);
void ssi_codes_free(ssi_codes *codes);

/* The exceptions that a thread of a target has: one on its way, and those that are being handled.
 */

/* Add those of the thread state at THREAD, whose number is ID, with what they were made from. */
void ssi_python_exceptions(ssi_scripts *scripts, ssi_codes *codes, uint64_t thread, int id);

#endif
