/* The registered frame sources. */
#ifndef SS_SOURCE_H
#define SS_SOURCE_H

#include "base/platform.h"
#include <stacksplice/source.h>

/* The number of sources; those below it never change.  Signal safe. */
uint32_t ss_source_count(void);

const stacksplice_source *ss_source_at(uint32_t index);

/*
 * Whether the working directory is another one than when the first source began: what scripts call
 * their files by relative names then is elsewhere.
 */
bool ss_folder_has_changed(void);

/* Whether every source reports what its frames depend on (stacksplice_source.reports). */
bool ss_sources_report(void);

#endif
