/* The reader of other processes keeps its texts until it ends; here, until an input does. */
#ifndef FUZZ_INSPECT_TEXTS_H
#define FUZZ_INSPECT_TEXTS_H

#include "base/texts.c"

static void forget_texts(void)
{
    spent = 0;
    for (size_t i = 0; i < ROOM; i++)
        while (table[i]) {
            kept_text *next = table[i]->next;

            free(table[i]);
            table[i] = next;
        }
}

#endif
