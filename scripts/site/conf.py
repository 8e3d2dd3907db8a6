"""The manual as a site, for Sphinx: ./dev docs builds it into build/docs.

Nothing is loaded from elsewhere when a page is read: the theme has no fonts or scripts of others.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from posixpath import dirname, join, normpath

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinxcontrib.luadomain import LuaObject
from stacksplice._tools.command_line import COMMANDS

sys.path.insert(0, str(Path(__file__).resolve().parent))

import luacats

import examples

ROOT = Path(__file__).resolve().parent.parent.parent
# Where the sources can be read.  As long as there is no such address, a link into them is a text.
PROJECT_URL = os.environ.get("STACKSPLICE_PROJECT_URL", "").rstrip("/")

project = "stacksplice"
author = copyright = "The stacksplice authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "breathe", "sphinx_copybutton", "sphinxcontrib.luadomain"]
html_theme = "furo"
html_title = "stacksplice"
html_show_sourcelink = False
html_search_scorer = str(Path(__file__).resolve().parent / "search.js")
html_copy_source = False
html_theme_options = {"source_view_link": PROJECT_URL + "/docs/{filename}"} if PROJECT_URL else {}

myst_heading_anchors = 4
suppress_warnings = ["duplicate_declaration.cpp"]  # typedef struct x x;
copybutton_prompt_text = r"\$ |\(gdb\) |>>> "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

breathe_projects = {"stacksplice": str(ROOT / "build" / "references" / "c" / "xml")}
breathe_default_project = "stacksplice"

PAGE = re.compile(r"\bdocs/((?:how-to|reference|inside)/[a-z-]+)\.md")
logger = logging.getLogger(__name__)
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


# The names that a page lists at its side: luadomain gives none.
LuaObject._object_hierarchy_parts = lambda self, signature: (signature["fullname"],)
LuaObject._toc_entry_name = lambda self, signature: signature["fullname"].removeprefix("stacksplice.")


class LuaModule(SphinxDirective):
    """The names of a module of Lua, from the file of its annotations."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(luacats.reference(ROOT / self.arguments[0]))


class Commands(SphinxDirective):
    """The help of each command, as it prints it."""

    def run(self) -> list[nodes.Node]:
        os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
        shown: list[nodes.Node] = []
        for name, command in COMMANDS.items():
            help_text = command.parser().format_help()
            shown.append(nodes.section("", nodes.title("", "", nodes.literal("", name)), ids=[name]))
            shown[-1] += nodes.literal_block(help_text, help_text, language="text")
        return shown


def link_pages(app: Sphinx, document: nodes.document) -> None:
    """What a header or a docstring calls docs/how-to/x.md is a link to that page."""
    for text in [*document.findall(nodes.Text)]:
        before, *found = PAGE.split(text, maxsplit=1)
        if found and not isinstance(text.parent, (nodes.literal, nodes.literal_block)):
            target = {"reftarget": f"/{found[0]}", "refdoc": app.env.docname, "refexplicit": False}
            link = addnodes.pending_xref("", nodes.Text(found[0]), refdomain="std", reftype="doc", **target)
            text.parent.replace(text, [nodes.Text(before), link, nodes.Text(found[1])])


def name_of(entry: addnodes.desc) -> str:
    """The name of what is described; of a method of C++ with a class before it."""
    signature = entry[0]
    if entry["domain"] in ("lua", "py"):
        return ".".join(filter(None, [signature["module"], signature["fullname"]]))
    *_, name = signature.findall(addnodes.desc_name)
    above = entry.parent
    while above is not None and above.get("objtype") not in ("class", "struct"):
        above = above.parent
    return name.astext() if above is None else f"class::{name.astext()}"


def is_used(entry: addnodes.desc) -> bool:
    """Whether programs call it: logging's and other frameworks call the methods of what is made for them."""
    if entry["domain"] != "py":
        return entry["objtype"] in ("function", "method")
    return entry[0]["module"] == "stacksplice" or "." not in entry[0]["fullname"]


def show_examples(app: Sphinx, document: nodes.document) -> None:
    """Each function has a piece of a program that calls it; operators need none."""
    for entry in document.findall(addnodes.desc):
        if entry["domain"] not in ("c", "cpp", "lua", "py") or not is_used(entry):
            continue
        name = name_of(entry)
        piece = examples.example({"py": "python"}.get(entry["domain"], entry["domain"]), name)
        if piece:
            entry[-1] += nodes.paragraph("", "", nodes.Text("From "), nodes.literal("", str(piece.program)))
            entry[-1] += nodes.literal_block(piece.text, piece.text, language=piece.language)
        elif not re.search(r"operator|~", name):
            logger.warning("%s is used by no program of examples.py", name, location=entry)


def setup(app: Sphinx) -> None:
    app.add_directive("commands", Commands)
    app.add_directive("lua-module", LuaModule)
    app.connect("source-read", lead_outside)
    app.connect("doctree-read", link_pages)
    app.connect("doctree-read", show_examples)
