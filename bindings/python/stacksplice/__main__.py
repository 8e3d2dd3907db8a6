"""``python -m stacksplice``, and the program ``stacksplice``."""

from __future__ import annotations

import sys

from ._base.hints import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    try:
        from ._tools.command_line import perform  # which takes most of the time of a start

        return perform(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        from ._base.output import interrupted

        return interrupted()


if __name__ == "__main__":
    sys.exit(main())
