#include <iostream>
#include <stacksplice/stacksplice.hpp>
#include <string>

extern "C" HRESULT rate(void);

int main()
{
    try {
        stacksplice::check(rate());
    } catch (const stacksplice::error &error) {
        const std::string text = error.text();

        std::cout << text << '\n';
        return text.find("there is no such currency") == 0 && text.find("(C) rate") != text.npos
                   ? 0
                   : 1;
    }
    return 1;
}
