"""Packages that put frames of their own making into tracebacks: no gap stands around them."""

from __future__ import annotations

import pytest
from bridging import Run

BEGIN = """
import stacksplice
from seen import *
"""


def test_lxml(run: Run) -> None:
    """Compiled by Cython: each of its functions has a frame that never ran."""
    pytest.importorskip("lxml.etree", reason="lxml is not installed")
    run(
        BEGIN
        + """
from lxml import etree

told = story(caught(etree.fromstring, "<a><b></a>"))
assert sum("lxml.etree." in word for word in told) > 1, told
in_order(told, "python lxml.etree.fromstring", "python caught", GAP_RETURNED, "python <module>")

# From Python through Cython into Python: an error of a resolver comes back out of the parser.
class Resolver(etree.Resolver):
    def resolve(self, url, public_id, context):
        fail()

parser = etree.XMLParser(load_dtd=True, no_network=False)
parser.resolvers.add(Resolver())
told = story(caught(etree.fromstring, '<!DOCTYPE a SYSTEM "some.dtd"><a/>', parser))
in_order(told, "python fail", "python Resolver.resolve", "python lxml.etree.fromstring", "python caught",
         GAP_RETURNED, "python <module>")
"""
    )


def test_jinja2(run: Run) -> None:
    """Each line of a template stands for a frame of the generated code."""
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    run(
        BEGIN
        + """
import jinja2

PAGE = "{% macro price() %}{{ fail() }}{% endmacro %}{% block body %}\\n{{ price() }}{% endblock %}"
page = jinja2.Environment(loader=jinja2.DictLoader({"page.html": PAGE})).get_template("page.html")
exc = caught(lambda: page.render(fail=fail))
told = story(exc)
in_order(told, "python fail", "python Macro._invoke", "python Environment.handle_exception",
         "python Template.render", "python caught", GAP_RETURNED, "python <module>")
templates = [frame.line for frame in stacksplice.error_info(exc).stack if frame.file == "<template>"]
assert templates == [1, 2, 1], templates
"""
    )


def test_tblib(run: Run) -> None:
    """A traceback that was written down and made anew, here or in another process."""
    pytest.importorskip("tblib", reason="tblib is not installed")
    run(
        BEGIN
        + """
import tblib

def between():
    fail()

def again(kept):
    raise kept.with_traceback(tblib.Traceback.from_dict(written).as_traceback())

kept = caught(between)
written = tblib.Traceback(kept.__traceback__).as_dict()
lines = [frame.line for frame in stacksplice.originate(caught(again, kept)).stack if frame.kind == "script"]
in_order(story(caught(again, kept)), "python again", "python caught", GAP_RETURNED, "python <module>")
first = fail.__code__.co_firstlineno
assert lines[:2] == [first + 1, between.__code__.co_firstlineno + 1], lines
"""
    )
