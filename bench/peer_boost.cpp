#include "peer_boost.h"

#include <boost/stacktrace/safe_dump_to.hpp>
#include <boost/stacktrace/stacktrace.hpp>
#include <unwind.h>

size_t peer_boost_stacktrace(void **frames, size_t max)
{
    boost::stacktrace::stacktrace stack;
    size_t count = stack.size() < max ? stack.size() : max;

    for (size_t i = 0; i < count; i++)
        frames[i] = const_cast<void *>(static_cast<const void *>(stack[i].address()));
    return count;
}

size_t peer_boost_dump(void **frames, size_t max)
{
    return boost::stacktrace::safe_dump_to(frames, max * sizeof *frames);
}

void *peer_boost_unwinder(void)
{
    return reinterpret_cast<void *>(&_Unwind_Backtrace);
}
