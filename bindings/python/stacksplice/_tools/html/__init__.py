"""Errors as HTML pages: `ErrorInfo.to_html()` and ``show --html``.

values.py reads a report, folding.py and lanes.py arrange it, source.py colours its source lines, and
page.py fills the templates.  Needs the extra "html": Jinja2 and Pygments.
"""
