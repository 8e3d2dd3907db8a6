"""The views in docs/how-to/saved-reports.md: groups of many, symbols after the fact."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from readers_shop import FINGERPRINT, run, write_example

# Logs the errors of some orders.
ORDERS = """
import logging, shop, stacksplice.logging

shop.RATES["GBP"] = None
handler = logging.FileHandler("errors.jsonl")
handler.setFormatter(stacksplice.logging.JsonFormatter())
for number, currency in enumerate(["XXX", "GBP", "XXX", "XXX"]):
    try:
        shop.quote(currency)
    except Exception as exc:
        handler.emit(logging.makeLogRecord({"name": "shop", "levelno": 40, "levelname": "ERROR",
            "created": 1.7e9 + 60 * number, "msg": "no price", "exc_info": (type(exc), exc, None)}))
"""
LIBRARY = """
static inline double with_fee(double (*find)(const char *), const char *currency)
{
    return find(currency) + 0.01;
}

__attribute__((noinline)) static double convert(double (*find)(const char *), const char *currency)
{
    return with_fee(find, currency) * 25;
}

double quote(double (*find)(const char *), const char *currency)
{
    return convert(find, currency) + 1;
}
"""
# Saves an error below functions of a library without debug information.
BELOW_C = """
import ctypes, stacksplice

@ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_char_p)
def find(currency):
    try:
        raise KeyError(currency.decode())
    except KeyError as exc:
        with open("errors.json", "w") as file:
            file.write(stacksplice.originate(exc).to_json())
    return 0

quote = ctypes.CDLL("./librates.so").quote
quote.restype = ctypes.c_double
quote(find, b"XXX")
"""


def _top(folder: Path) -> str:
    run(folder, "-c", ORDERS)
    text = run(folder, "-m", "stacksplice", "top", "errors.jsonl")
    first, _, second = text.rpartition(FINGERPRINT)
    assert FINGERPRINT in first  # each group has its own
    return f"$ stacksplice top errors.jsonl\n{first}{FINGERPRINT[::-1]}{second}".rstrip("\n")


def page(folder: Path) -> str:
    """The groups as an HTML page."""
    write_example(folder)
    run(folder, "-c", ORDERS)
    run(folder, "-m", "stacksplice", "top", "--html", "top.html", "errors.jsonl")
    return (folder / "top.html").read_text(encoding="utf-8")


def _of_library(text: str) -> str:
    """The frames of the library, with their lines of source."""
    frames = re.findall(r"^  \(C\) .*librates\.so.*\n(?:    .*\n)*", text, re.MULTILINE)
    assert len(frames) >= 2, text
    return re.sub(r"\+0x[0-9a-f]+", "+0x10fc", "".join(frames))


def _symbolize(folder: Path) -> str:
    (folder / "rates.c").write_text(LIBRARY.lstrip())
    (folder / "debug").mkdir()
    compiler = ["cc", "-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id", f"{folder}/rates.c"]
    for tool in (
        [*compiler, "-o", "librates.so"],
        ["objcopy", "--only-keep-debug", "librates.so", "debug/librates.so"],
        ["strip", "librates.so"],
    ):
        subprocess.run(tool, cwd=folder, check=True)
    run(folder, "-c", BELOW_C)
    parts = []
    for command in ("show errors.json", "symbolize --symbols debug --text errors.json"):
        shown = _of_library(run(folder, "-m", "stacksplice", *command.split()))
        parts.append(f"$ stacksplice {command}\n...\n{shown}...")
    return "\n".join(parts)


def views(folder: Path) -> dict[str, str]:
    """Each view by the name that it has in docs/how-to."""
    write_example(folder)
    return {"top": _top(folder), "symbolize": _symbolize(folder)}
