"""The manual as a site, for Sphinx: ./dev docs builds it into build/docs.

Nothing is loaded from elsewhere when a page is read: the theme has no fonts or scripts of others.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from posixpath import dirname, join, normpath

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent
# Where the sources can be read.  As long as there is no such address, a link into them is a text.
PROJECT_URL = os.environ.get("STACKSPLICE_PROJECT_URL", "").rstrip("/")

project = "stacksplice"
author = copyright = "The stacksplice authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "breathe", "sphinx_copybutton"]
html_theme = "furo"
html_title = "stacksplice"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"source_view_link": PROJECT_URL + "/docs/{filename}"} if PROJECT_URL else {}

myst_heading_anchors = 4
suppress_warnings = ["duplicate_declaration.cpp"]  # typedef struct x x;
copybutton_prompt_text = r"\$ |\(gdb\) |>>> "
copybutton_prompt_is_regexp = True

# emmylua_doc_cli writes whole pages, where it can be had.
WRITTEN = ROOT / "build" / "references" / "pages"
html_extra_path = [str(WRITTEN)] if WRITTEN.exists() else []

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

breathe_projects = {"stacksplice": str(ROOT / "build" / "references" / "c" / "xml")}
breathe_default_project = "stacksplice"

LINK = re.compile(r"\[([^]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def lead_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    """A link out of the manual leads into the project's sources, or names the place in them."""

    def outside(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = normpath(join("docs", dirname(docname), target))
        if path.startswith("docs/") or not (ROOT / path).exists():
            return match[0]
        if PROJECT_URL:
            return f"[{text}]({PROJECT_URL}/{path}{anchor or ''})"
        return text if path in text else f"{text} (`{path}`)"

    source[0] = LINK.sub(outside, source[0])
    if docname == "reference/lua" and html_extra_path:
        source[0] += '\n## Every function\n\n<a href="../lua/index.html">Parameters and results</a>\n'


def setup(app: Sphinx) -> None:
    app.connect("source-read", lead_outside)
