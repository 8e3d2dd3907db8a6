"""What pip builds with: setuptools, and from the package index what the machine lacks of CMake and a
program that runs its builds."""

from __future__ import annotations

import shutil
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def missing_tools() -> list[str]:
    tools = [] if shutil.which("cmake") else ["cmake>=3.22"]
    if not any(map(shutil.which, ("ninja", "ninja-build", "make", "gmake"))):
        tools.append("ninja")
    return tools


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *missing_tools()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *missing_tools()]
