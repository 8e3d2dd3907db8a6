// A program whose lines test_symbolize_truth.py compares: much is inlined, and between its parts is
// code of the C library's start without debug information.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace shop
{
namespace
{
int weight(const std::string &name)
{
    return static_cast<int>(name.size()) % 7;
}
} // namespace

struct Lighter {
    bool operator()(const std::string &a, const std::string &b) const
    {
        return weight(a) < weight(b);
    }
};

int pick(std::vector<std::string> names)
{
    std::sort(names.begin(), names.end(), Lighter());
    try {
        return static_cast<int>(names.at(3).size());
    } catch (const std::exception &error) {
        std::puts(error.what());
        return -1;
    }
}

int shared(int value);
} // namespace shop

extern "C" int enter(int (*call)(int), int value);

int main(int count, char **words)
{
    return shop::pick({words, words + count}) + shop::shared(count) + enter(nullptr, count);
}
