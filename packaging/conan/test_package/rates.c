#include <roerrorapi.h>

/* In C, by the Windows names. */
HRESULT rate(void)
{
    RoOriginateErrorW(E_INVALIDARG, 0, u"there is no such currency");
    return E_INVALIDARG;
}
