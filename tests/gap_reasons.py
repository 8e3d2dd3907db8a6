"""The reasons of gaps that more than one test names."""

RETURNED = "the frames that were here had already returned"
KEPT = "the exception was kept and raised again here"
AWAITED = "this task is awaited by another"
CAUGHT_BEFORE = "the exception was caught here earlier, and what called this frame is not known"
NEVER_RAISED = "this exception was made but never raised"
OWN_STACK_ENDS = "this greenlet's own stack ends here"
