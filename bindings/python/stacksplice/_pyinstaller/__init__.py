"""For PyInstaller, which asks the entry point pyinstaller40 where the package's hooks are."""

from __future__ import annotations

from pathlib import Path


def hook_dirs() -> list[str]:
    return [str(Path(__file__).parent)]
