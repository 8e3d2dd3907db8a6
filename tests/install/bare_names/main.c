/*
 * A program that declares the Windows functions for itself, as bindings of other languages do, and
 * links nothing but libstacksplice-winrt.
 */
#include "../shared/check.h"

#include <stdint.h>

int32_t RoOriginateErrorW(int32_t error, uint32_t max_chars, const uint16_t *message);
int32_t GetRestrictedErrorInfo(void **error);
void RoClearError(void);

int main(void)
{
    static const uint16_t text[] = {'t', 'e', 'x', 't', 0};
    void *error = NULL;

    CHECK(RoOriginateErrorW((int32_t)0x80004005, 4, text));
    CHECK(GetRestrictedErrorInfo(&error) == 0 && error != NULL);
    RoClearError();
    printf("\nok\n");
    return 0;
}
