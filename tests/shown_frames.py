"""What of a stack a log of calls can be compared with."""


def shown(stack, prefix):
    """The frames of scripts and of C functions that begin with PREFIX, out to its root; gaps too."""
    frames = []
    for what, function, file, line in stack:
        if what == "native" and (function or "").startswith(prefix):
            frames.append((what, function, 0))
            if function == prefix + "root":
                break
        elif what == "lua" and file != "[C]":
            frames.append((what, None, line))
        elif what in ("python", "tiny", "gap"):
            frames.append((what, function, line))
    return frames
