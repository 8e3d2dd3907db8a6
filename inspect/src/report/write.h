/* Writes what was found as JSON, schema stacksplice-dump/1; frames are those of
 * stacksplice-error/1. */
#ifndef SSI_WRITE_H
#define SSI_WRITE_H

#include "target/frame.h"
#include "target/target.h"

/* The beginning with all that is known of the process, each thread with its stack, the end.  What
   belongs to a thread, or to the process, is written before the end of it. */
void ssi_write_begin(const ssi_target *target, const ssi_scripts *scripts);
void ssi_write_thread(const ssi_thread *thread, const ssi_frames *stack, bool is_first);
void ssi_write_thread_end(void);
void ssi_write_threads_end(void);
void ssi_write_end(void);
/* One frame, and several as an array. */
void ssi_write_frame(const ssi_frame *frame);
void ssi_write_frames(const ssi_frame *frames, size_t count);

#endif
