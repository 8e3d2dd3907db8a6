#include "peer_reports.h"

#include <cpptrace/cpptrace.hpp>
#include <string>

size_t peer_report(const uintptr_t *frames, size_t count)
{
    cpptrace::raw_trace stack;

    stack.frames.assign(frames, frames + count);
    return stack.resolve().to_string().size();
}
