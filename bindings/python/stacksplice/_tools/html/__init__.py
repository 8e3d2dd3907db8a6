"""Errors as HTML pages: `ErrorInfo.to_html()` and ``show --html``.

values.py reads a report, folding.py and lanes.py arrange it, source.py colours its source lines, and
page.py fills the templates.  Needs the extra "html": Jinja2 and Pygments.
"""


def check_packages() -> None:
    """ImportError, with the command that helps, where one of them is missing."""
    try:
        import jinja2  # noqa: F401
        import pygments  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as exc:
        raise ImportError("HTML pages need Jinja2 and Pygments: pip install 'stacksplice[html]'") from exc
