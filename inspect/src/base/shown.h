/* How much of a process's variables is read: what reports show of them, and what tells that there
 * is more. */
#ifndef SSI_SHOWN_H
#define SSI_SHOWN_H

enum {
    SSI_SHOWN_FRAMES = 32,            /* of a thread, the innermost */
    SSI_SHOWN_VARIABLES = 20,         /* of a frame */
    SSI_SHOWN_ITEMS = 10 + 1,         /* of a container; the last one stands for all others */
    SSI_SHOWN_DEPTH = 3,              /* of containers in containers */
    SSI_SHOWN_VALUES = 256,           /* in one variable: no text of 500 bytes has more */
    SSI_SHOWN_CHARACTERS = 16 * 1024, /* of a text, which are searched for secrets */
    SSI_SHOWN_ALL_CHARACTERS = 4 * SSI_SHOWN_CHARACTERS /* of all texts in one variable */
};

#endif
