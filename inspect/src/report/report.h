/* Writes what was found as JSON on standard output, schema stacksplice-dump/1; frames and errors are
 * those of stacksplice-error/1. */
#ifndef SSI_REPORT_H
#define SSI_REPORT_H

#include "errors/errors.h"
#include "target/frame.h"
#include "target/target.h"

#include <stdio.h>

/* A comma, NAME and the value; nothing if TEXT is NULL. */
void ssi_put_member(const char *name, const char *text);

/* The beginning with all that is known of the process, and of a thread with its stack.  What else
   belongs to a thread, or to the process, follows, then the end of it. */
void ssi_write_begin(const ssi_target *target, const ssi_scripts *scripts);
void ssi_write_thread(const ssi_thread *thread, const ssi_frames *stack, bool is_first);
/* One frame, and several as an array. */
void ssi_write_frame(const ssi_frame *frame);
void ssi_write_frames(const ssi_frame *frames, size_t count);

/* A comma and the member "exceptions" with those of THREAD, as the process itself knows it; nothing
   if it has none. */
void ssi_put_exceptions(const ssi_scripts *scripts, int thread);

/* The member "python" of THREAD. */
void ssi_put_attached(const ssi_scripts *scripts, const ssi_machine *machine,
                      const ssi_thread *thread);

/* A comma, NAME and ERROR; nothing if that is NULL. */
void ssi_put_error(const char *name, const ssi_errors *errors, const ssi_error *error);
/* ERROR alone, into FILE. */
void ssi_write_error(FILE *file, const ssi_errors *errors, const ssi_error *error);
/* A comma and the member "interpreters"; nothing if no binding knows one. */
void ssi_put_interpreters(const ssi_errors *errors);

#endif
