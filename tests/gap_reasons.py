"""The reasons of gaps that more than one test names."""

RETURNED = "frames here had already returned"
KEPT = "stored exception re-raised here"
AWAITED = "awaited by another task"
CAUGHT_BEFORE = "exception caught here earlier: callers of this frame unknown"
NEVER_RAISED = "exception created but never raised"
OWN_STACK_ENDS = "end of this greenlet's own stack"
TAIL_CALLS = "Lua tail calls replaced the frames of the callers"
