/*
 * The list of what this process tells those who stop it (stacksplice/debugger.h).  Entries are
 * claimed and freed without a lock and their memory is never unmapped, so a reader, a signal
 * handler and a forked child always find the list whole.
 */
#ifndef SS_ENTRIES_H
#define SS_ENTRIES_H

#include "base/platform.h"
#include <stacksplice/debugger.h>

/*
 * The first entries of the list.  The file of the block defines them: so a program that links
 * errors from an archive has the block, too.
 */
extern stacksplice_entries ss_entries_first;

/* Add an entry, which lasts until it is freed; NULL without memory. */
stacksplice_entry *ss_entry_add(uint32_t kind, const void *object, uint64_t detail);

/* ENTRY may be NULL. */
void ss_entry_free(stacksplice_entry *entry);

/* Free all entries of KIND except KEPT: a forked child has no other threads. */
void ss_entries_free_others(uint32_t kind, const stacksplice_entry *kept);

#endif
