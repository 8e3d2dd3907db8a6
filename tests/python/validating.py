"""The published schemas, by which every report of the tests is checked."""

from __future__ import annotations

import json
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
    for part in (document, *(part for name, part in parts.items() if name not in ("error", "causes"))):
        names = _names(part, parts)
        if names:
            part["propertyNames"] = {"enum": sorted(names)}
    return document


@cache
def validator(name: str, is_strict: bool = True):
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry, Resource

    plain, valid = Draft202012Validator.VALIDATORS["$ref"], set()
    repeated = ("frame", "module", "process")

    def each_once(self, target, instance, part):
        """The same frames are in thousands of reports."""
        key = (target, json.dumps(instance)) if target.endswith(repeated) else None
        if key is None or key not in valid:
            yield from plain(self, target, instance, part)
            valid.add(key)  # not reached for an invalid one: the first error ends the validation

    documents = [
        strict(schema(each)) if is_strict else schema(each) for each in ("error-1", "report-1", "dump-1")
    ]
    registry = Registry().with_resources(
        (document["$id"], Resource.from_contents(document)) for document in documents
    )
    document = next(each for each in documents if name_of({"schema": each["title"]}) == name)
    return extend(Draft202012Validator, {"$ref": each_once})(document, registry=registry)


def name_of(report: dict[str, Any]) -> str:
    return report["schema"].removeprefix("stacksplice-").replace("/", "-")


def validate(text: str) -> dict[str, Any]:
    """The report in TEXT, which must be one line and of the schema that it names."""
    assert text.count("\n") == text.endswith("\n")
    report = json.loads(text)
    error = next(validator(name_of(report)).iter_errors(report), None)
    if error is not None:
        raise error
    return report


def validate_all(monkeypatch) -> None:
    """From now on each report that this process writes of a live error is validated."""
    to_json, pickled = stacksplice.ErrorInfo.to_json, _remote.report

    def checked_to_json(self):
        text = to_json(self)
        if self._handle is not None:  # another one says what the test wrote into it
            validate(text)
        return text

    def checked_report(info):
        text = pickled(info)
        if info._handle is not None:
            validate(text)
        return text

    monkeypatch.setattr(stacksplice.ErrorInfo, "to_json", checked_to_json)
    monkeypatch.setattr(_remote, "report", checked_report)
