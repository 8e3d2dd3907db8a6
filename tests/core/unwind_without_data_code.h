#ifndef UNWIND_WITHOUT_DATA_CODE_H
#define UNWIND_WITHOUT_DATA_CODE_H

/* Each calls LEAF and returns 1; the last is in a library of its own. */
int with_frame_pointer(void (*leaf)(void));
int without_frame_pointer(void (*leaf)(void));
int exported_without_data(void (*leaf)(void));

#endif
