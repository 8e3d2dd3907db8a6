/*
 * Python's frames in a target, and the values of their variables, as the output has them.  Code
 * objects are recognised before anything of them is believed.
 */
#ifndef SSI_PYTHON_FRAMES_H
#define SSI_PYTHON_FRAMES_H

#include "base/base.h"
#include "shared/python.h"
#include "target/frame.h"

/* Code objects that were read, by address. */
typedef struct ssi_code_objects {
    uint64_t type; /* that of all code objects; 0 until one was found */
    struct ssi_code_object *items;
    size_t count, room;
    ssi_map numbers;      /* of the items, by address */
    uint64_t table_bytes; /* of all tables */
    uint64_t walked;      /* bytes of tables, on the ways to places */
} ssi_code_objects;

/* What frames of one Python are shown with.  All zero but the first two is a valid start. */
typedef struct ssi_python_frames {
    const sspy_layout *layout;
    ssi_scripts *scripts;    /* to which frames are added */
    const char *interpreter; /* whose they are; NULL: the main one */
    int locals_left;         /* so many may still show their variables */
    ssi_code_objects codes;
} ssi_python_frames;

typedef struct ssi_seen_frame {
    uint64_t address, code, previous, instruction;
    uint8_t owner, is_entry;
} ssi_seen_frame;

/* False if there is no frame at ADDRESS. */
bool ssi_frame_read(const sspy_layout *layout, uint64_t address, ssi_seen_frame *seen);
/* Add FRAME if Python shows it; false without memory. */
bool ssi_frame_show(ssi_python_frames *frames, const ssi_seen_frame *seen);
/* Add the frame of the ENTRY of a traceback. */
bool ssi_frame_show_traced(ssi_python_frames *frames, uint64_t entry);
void ssi_python_frames_free(ssi_python_frames *frames);

/* Write the text that reports have of a value, as JSON. */
void ssi_value_write(const sspy_layout *layout, uint64_t address, ssi_written *to);

#endif
