#include "frames/positions.h"

sspy_position sspy_position_of(const PyCodeObject *code, int lasti)
{
    return sspy_position_in((const unsigned char *)PyBytes_AS_STRING(code->co_linetable),
                            (size_t)PyBytes_GET_SIZE(code->co_linetable), code->co_firstlineno,
                            lasti);
}
