/* Code without unwind data: the build leaves it out for this file. */
#include "unwind_without_data_code.h"

int WITHOUT_DATA(void (*leaf)(void))
{
    volatile int after = 1;

    leaf();
    return after;
}
