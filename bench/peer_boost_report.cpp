#include "peer_reports.h"

#include <boost/stacktrace/stacktrace.hpp>
#include <string>

size_t peer_report(const uintptr_t *frames, size_t count)
{
    auto stack = boost::stacktrace::stacktrace::from_dump(frames, count * sizeof *frames);

    return boost::stacktrace::to_string(stack).size();
}
