/* For programs that have nothing to prepare. */
#include "support.h"

int main(void)
{
    return run_all_tests();
}
