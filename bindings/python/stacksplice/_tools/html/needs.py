"""The packages that pages are made with, or how to get them."""

from __future__ import annotations

COMMAND = "pip install 'stacksplice[html]'"
MISSING = f"HTML pages need Jinja2 and Pygments: {COMMAND}"


def check() -> None:
    """ImportError, with the command that helps, where one of them is missing."""
    try:
        import jinja2  # noqa: F401
        import pygments  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as exc:
        raise ImportError(MISSING) from exc
