// A second translation unit with the header, and so with its assembly.
#include <stacksplice/stacksplice.hpp>

HRESULT second_unit(int number);

HRESULT second_unit(int number)
{
    return stacksplice::guard([=] {
        if (number)
            throw number;
    });
}
