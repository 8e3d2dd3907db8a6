#ifndef UNWIND_WITHOUT_DATA_CODE_H
#define UNWIND_WITHOUT_DATA_CODE_H

/* Both call LEAF and return 1. */
int with_frame_pointer(void (*leaf)(void));
int without_frame_pointer(void (*leaf)(void));

#endif
