#!/usr/bin/env python3
"""Makes a release of clean sources, tries what it made, and lists it.

    make.py TREE OUT WORK PART... --commit HASH [--untried] [--python VERSION]... [--interpreter PATH]...

TREE are the sources of a commit, without anything else, OUT the folder for what is made, WORK one for
all else.  PART: wheel, musl, rocks, or older, which tries what was made with an older C library; the source
package is always made.  SOURCE_DATE_EPOCH is the time of the commit; STACKSPLICE_PROJECT_URL the address
of the project, if it has one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import uuid
from pathlib import Path

import arm
import musl
import older
import wheels
from common import GLIBC, Failed, Release, files_below, say
from rocks import make_rocks


def version_of(tree: Path) -> str:
    """From the public header, as setup.py and CMake have it."""
    import re

    text = (tree / "core/include/stacksplice/stacksplice.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define STACKSPLICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def check_changelog(release: Release) -> None:
    """A release has its section; what is made before it is for trying only."""
    text = (release.tree / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"\n## {release.version}" not in text:
        release.leave_out(f"CHANGELOG.md has no section {release.version} yet: this is no release to publish")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_bill(release: Release, commit: str) -> None:
    """What was made and by what, as CycloneDX."""
    import importlib.metadata

    names = ("ziglang", "setuptools", "auditwheel", "argparse-manpage", "shtab")
    tools = [{"type": "application", "name": n, "version": importlib.metadata.version(n)} for n in names]
    licence = [{"license": {"id": "MIT"}}]
    this = {
        "type": "library",
        "bom-ref": "stacksplice",
        "name": "stacksplice",
        "version": release.version,
        "licenses": licence,
        "purl": f"pkg:pypi/stacksplice@{release.version}",
    }
    files = [
        {
            "type": "file",
            "name": str(file.relative_to(release.out)),
            "hashes": [{"alg": "SHA-256", "content": sha256(file)}],
            "licenses": licence,
        }
        for file in files_below(release.out)
    ]
    # Of others only this is inside: its functions stand around the words of completions.
    within = {
        "type": "library",
        "bom-ref": "shtab",
        "name": "shtab",
        "version": importlib.metadata.version("shtab"),
        "licenses": [{"license": {"id": "MPL-2.0"}}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, commit)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch)),
            "tools": {"components": tools},
            "component": this,
            "properties": [{"name": "commit", "value": commit}, {"name": "glibc", "value": GLIBC}],
        },
        "components": [*files, within],
        "dependencies": [{"ref": "stacksplice", "dependsOn": ["shtab"]}, {"ref": "shtab", "dependsOn": []}],
    }
    target = release.out / "sbom.cdx.json"
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    validate_bill(target)
    release.note(target, "valid by CycloneDX's schema 1.6")


def validate_bill(file: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text(encoding="utf-8"))
    if wrong:
        raise Failed(f"{file.name}: {wrong}")


def show_table(release: Release, commit: str) -> None:
    print(
        f"\nstacksplice {release.version} of {commit[:12]} (its tag: v{release.version}), in {release.out}:"
    )
    for file in files_below(release.out):
        size = f"{file.stat().st_size / 1000:,.0f} kB"
        print(f"{size:>9}  {file.relative_to(release.out)}")
        for text in release.tried.get(file, []):
            print(f"{'':11}{text}")
    for text in release.left_out:
        print(f"left out   {text}")


def make(release: Release, arguments: argparse.Namespace) -> None:
    url = os.environ.get("STACKSPLICE_PROJECT_URL", "")
    found = wheels.pythons_by_tag(arguments.interpreter, arguments.python, release)
    tag, python = next(iter(found.items()))
    wheels.make_source(release, python, tag)
    made = [release.archive]
    if "wheel" in arguments.parts:
        for tag, python in found.items():
            wheel = wheels.make_wheel(release, python, tag)
            made.append(wheel)
            if not arguments.untried:
                wheels.try_wheel(release, wheel, python, tag)
                if len(made) == 2:  # one tells as much as all
                    wheels.check_types(release, wheel, python, tag)
        if not arguments.python:
            made += arm.make_all(release, found, arguments.untried)
    if "musl" in arguments.parts:
        made += musl.make_all(release, found, arguments.untried)
    if not arguments.untried:
        wheels.check_index(release, made)
    if "rocks" in arguments.parts:
        make_rocks(release, url, arguments.untried)
    if "older" in arguments.parts and not arguments.untried:
        older.try_all(release)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--untried", action="store_true", help="make it only")
    parser.add_argument("--interpreter", action="append", default=[])
    arguments = parser.parse_args()
    os.umask(0o022)
    release = Release(
        arguments.tree.resolve(),
        arguments.out.resolve(),
        arguments.work.resolve(),
        version_of(arguments.tree),
    )
    try:
        check_changelog(release)
        make(release, arguments)
        write_bill(release, arguments.commit)
    except Failed as failed:
        say(f"failed: {failed}")
        return 1
    show_table(release, arguments.commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
