"""The published schemas, by which every report of the tests is checked."""

from __future__ import annotations

import json
import marshal
from functools import cache
from typing import Any

import stacksplice
from building import PACKAGE
from stacksplice._errors import remote as _remote


def schema(name: str) -> dict[str, Any]:
    return json.loads((PACKAGE / f"{name}.schema.json").read_text(encoding="utf-8"))


def _names(part: dict[str, Any], parts: dict[str, Any]) -> set[str]:
    """The members of an object."""
    inner = [parts[each["$ref"].rpartition("/")[2]] for each in part.get("allOf", ()) if "$ref" in each]
    return set(part.get("properties", ())).union(*(_names(each, parts) for each in inner))


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """The same without room for members that it does not name: a member of today must be in it."""
    parts = document["$defs"]
    inner = [each for part in parts.values() for each in part.get("properties", {}).values()]
    for part in (
        document,
        *inner,
        *(part for name, part in parts.items() if name not in ("error", "causes")),
    ):
        names = _names(part, parts)
        if names:
            part["propertyNames"] = {"enum": sorted(names)}
    return document


# What a long report always has, and a brief one may lack.
_OF_LONG = {
    "error": ("type", "notes", "reference", "frames_left_out", "exceptions", "exceptions_left_out"),
    "causes": ("transformed", "transformed_left_out", "transformed_above"),
    "reception": ("frames_left_out",),
    "frame": ("kind", "trust", "address"),
}
_INLINED = {"if": {"properties": {"kind": {"const": "native"}}}, "then": {"required": ["inlined"]}}


def long(document: dict[str, Any]) -> dict[str, Any]:
    """The same, of long reports alone."""
    parts = document["$defs"]
    for name, members in _OF_LONG.items():
        parts[name]["required"] = [*parts[name].get("required", ()), *members]
    parts["frame"]["allOf"].append(_INLINED)
    return document


@cache
def validator(name: str, is_strict: bool = True, is_brief: bool = False):
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry, Resource

    keywords, valid = Draft202012Validator.VALIDATORS, set()
    by_reference, by_items = keywords["$ref"], keywords["items"]
    repeated = ("frame", "module", "process")

    def key(target, instance):
        """Version 2 writes equal values alike, whoever else refers to them."""
        return (target, marshal.dumps(instance, 2)) if target.endswith(repeated) else None

    def each_once(self, target, instance, part):
        """The same frames are in thousands of reports."""
        known = key(target, instance)
        if known is None or known not in valid:
            yield from by_reference(self, target, instance, part)
            valid.add(known)  # not reached for an invalid one: the first error ends the validation

    def new_ones(self, items, instance, part):
        """And a hundred times in the receptions of one: those that are known cost no validator."""
        target = items.get("$ref", "")
        if target.endswith(repeated) and isinstance(instance, list):
            instance = [each for each in instance if key(target, each) not in valid]
        yield from by_items(self, items, instance, part)

    documents = [
        strict(schema(each)) if is_strict else schema(each) for each in ("error-1", "report-1", "dump-1")
    ]
    if not is_brief:
        documents[0] = long(documents[0])
    registry = Registry().with_resources(
        (document["$id"], Resource.from_contents(document)) for document in documents
    )
    document = next(each for each in documents if name_of({"schema": each["title"]}) == name)
    return extend(Draft202012Validator, {"$ref": each_once, "items": new_ones})(document, registry=registry)


def name_of(report: dict[str, Any]) -> str:
    return report["schema"].removeprefix("stacksplice-").replace("/", "-")


def validate(text: str, *, is_brief: bool = False) -> dict[str, Any]:
    """The report in TEXT, which must be one line and of the schema that it names."""
    assert text.count("\n") == text.endswith("\n")
    report = json.loads(text)
    error = next(validator(name_of(report), True, is_brief).iter_errors(report), None)
    if error is not None:
        raise error
    return report


def validate_all(monkeypatch) -> None:
    """From now on each report that this process writes of a live error is validated."""
    to_json, pickled = stacksplice.ErrorInfo.to_json, _remote.report

    def checked_to_json(self, *, brief=False):
        text = to_json(self, brief=brief)
        if self._handle is not None:  # another one says what the test wrote into it
            validate(text, is_brief=brief)
        return text

    def checked_report(info):
        text = pickled(info)
        if info._handle is not None:
            validate(text)
        return text

    monkeypatch.setattr(stacksplice.ErrorInfo, "to_json", checked_to_json)
    monkeypatch.setattr(_remote, "report", checked_report)
