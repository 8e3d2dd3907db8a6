/* The frames of the output, and the runs of script frames that wait to be put between native ones.
 */
#ifndef SSI_FRAME_H
#define SSI_FRAME_H

#include "base/base.h"

#include <stacksplice/stacksplice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a whole process; that of thousands of threads has some hundred thousand frames. */
enum { SSI_MAX_FRAMES = 1 << 19, SSI_MAX_RUNS = 1 << 17 };

/* Texts are those of base/texts.c. */
typedef struct ssi_frame {
    stacksplice_frame known; /* as the core's reports have it; a TRUST of 0 is exact */
    const char *locals;      /* its variables, a JSON object */
    /* Only where a debugger serves the target: */
    bool glue;
    uint64_t stack_address; /* the native frame's first, or one in the frame that runs a script */
    const char *text;       /* the line for people */
} ssi_frame;

typedef struct ssi_frames {
    ssi_frame *items;
    size_t count, room;
} ssi_frames;

/* False without memory, and when there are too many. */
bool ssi_frames_add(ssi_frames *frames, const ssi_frame *frame);
bool ssi_frames_add_gap(ssi_frames *frames, const char *reason);

/* One frame as JSON, as in stacksplice-error/1, and several as an array. */
void ssi_write_frame(ssi_written *to, const ssi_frame *frame);
void ssi_write_frames(ssi_written *to, const ssi_frame *frames, size_t count);

/*
 * Script frames of one activation of an interpreter, which stand for the native frame that contains
 * the stack address MARKER.  The innermost run of a thread may have none: 0.
 */
typedef struct ssi_run {
    int thread;
    uint64_t marker;
    size_t first, count; /* of the frames */
} ssi_run;

/* An exception of a script that a thread has, whose stack is COUNT frames from FIRST on. */
typedef struct ssi_exception {
    int thread;           /* as the process itself knows it */
    const char *state;    /* "raised" or "handled"; NULL: it is behind the one before it */
    const char *relation; /* how: "cause" or "context" */
    const char *language, *type;
    const char *arguments; /* a JSON value, NULL if it cannot be read */
    size_t first, count;
} ssi_exception;

/* An interpreter of scripts. */
typedef struct ssi_script_interpreter {
    const char *version, *path; /* of its binary */
    int64_t number;             /* among those of the binary */
    bool collects;              /* garbage */
} ssi_script_interpreter;

/* A thread as an interpreter knows it. */
typedef struct ssi_attached {
    int thread; /* as the process itself knows it */
    int64_t interpreter;
    const char *name; /* that the script gave it, or NULL */
    uint64_t lock;    /* of the interpreter; 0: not known */
    bool holds;       /* the lock */
    bool collects;    /* garbage, for certain */
} ssi_attached;

/* A task of asyncio that has not ended.  The frames of one that runs are on the stack of its thread. */
typedef struct ssi_task {
    uint64_t address;
    int64_t interpreter;
    const char *name;                    /* or NULL */
    uint64_t running;                    /* the low half is the thread that runs it; 0: none */
    bool is_ready;                       /* what it waited for is done */
    const char *awaits;                  /* the type of what it waits for, or NULL */
    size_t first, count;                 /* of the frames */
    size_t group;                        /* the number of the first task with this stack */
    size_t awaited_by, awaited_by_count; /* of those that are AWAITING */
    size_t mark;                         /* of a search */
} ssi_task;

typedef struct ssi_scripts {
    ssi_frames frames;
    ssi_exception *exceptions;
    size_t exception_count, exception_room;
    ssi_script_interpreter *interpreters;
    size_t interpreter_count, interpreter_room;
    ssi_attached *attached;
    size_t attached_count, attached_room;
    ssi_task *tasks; /* of each interpreter the oldest first */
    size_t task_count, task_room;
    uint64_t *awaiting; /* numbers of tasks that await others */
    size_t awaiting_count, awaiting_room;
    ssi_run *runs; /* those of one chain from the innermost outward */
    size_t run_count, run_room;
    const char *notes[16]; /* what cannot be had of the whole process */
    size_t note_count;
    bool with_locals; /* local variables are wanted */
    bool with_tasks;
    bool shows_secrets;  /* in texts of values, as debuggers do */
    size_t locals_bytes; /* of all that were read */
} ssi_scripts;

bool ssi_scripts_add_run(ssi_scripts *scripts, const ssi_run *run);
/* Each note is kept once.  The last of many says that there are more. */
void ssi_scripts_note(ssi_scripts *scripts, const char *note);
/* The local variables of one frame, WRITTEN, for that frame.  NULL if there is no room for them,
   which is noted.  Releases what was written. */
const char *ssi_scripts_keep_locals(ssi_scripts *scripts, ssi_written *written);
/* What the first frame has in their place whose variables are not shown. */
const char *ssi_scripts_locals_left_out(ssi_scripts *scripts);
/* A member that says which variables are left out: see shared/value_text.h. */
void ssi_write_remark(ssi_written *to, const char *remark);
void ssi_scripts_free(ssi_scripts *scripts);

#endif
