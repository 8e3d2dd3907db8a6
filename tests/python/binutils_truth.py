"""What binutils say of addresses, and why frames of ours may say something else."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from building import ran

Symbol = NamedTuple("Symbol", [("start", int), ("size", int), ("name", str)])
Location = NamedTuple("Location", [("function", str), ("file", str), ("line", int)])


def said_by(*command: object, given: str = "") -> list[str]:
    return ran(*command, input=given).stdout.splitlines()


def location(function: str, place: str) -> Location:
    """From two lines of addr2line.  A file without a line is one of ours without a file."""
    file, _, line = re.sub(r" \(discriminator \d+\)$", "", place).rpartition(":")
    return (
        Location(function, file, int(line)) if line.isdigit() and int(line) else Location(function, "??", 0)
    )


def locations(frames: list[dict]) -> list[Location]:
    """The same from frames of ours."""
    return [
        Location(frame.get("function", "??"), frame.get("file", "??"), frame.get("line", 0))
        for frame in frames
    ]


class Truth:
    """What addr2line, or another TOOL like it, and readelf say of a binary."""

    def __init__(self, path: Path, tool: str = "addr2line") -> None:
        self.path, self.tool = path, tool

    @cached_property
    def _debug(self) -> Path:
        """The separate debug file that the system has, or the binary itself."""
        found = re.search(r"Build ID: (\w\w)(\w+)", "\n".join(said_by("readelf", "-n", self.path)))
        file = Path("/usr/lib/debug/.build-id", found[1], found[2] + ".debug") if found else self.path
        return file if file.exists() else self.path

    def locations(self, addresses: list[int]) -> dict[int, list[Location]]:
        given = "".join(f"{address:#x}\n" for address in addresses)
        answers: dict[int, list[Location]] = {}
        current: list[Location] = []
        lines = iter(said_by(self.tool, "-a", "-f", "-i", "-C", "-e", self.path, given=given))
        for line in lines:
            if re.fullmatch("0x[0-9a-f]+", line):
                current = answers[int(line, 16)] = []
            else:
                current.append(location(line, next(lines)))
        return answers

    @cached_property
    def start(self) -> int:
        """The address that offsets count from: the page of the first segment."""
        loads = [line.split() for line in said_by("readelf", "-lW", self.path) if line.startswith("  LOAD ")]
        return min(int(words[2], 16) for words in loads) & ~4095

    @cached_property
    def text(self) -> range:
        """The addresses of .text."""
        for line in said_by("readelf", "-SW", self.path):
            found = re.search(r" \.text +PROGBITS +(\w+) +\w+ +(\w+)", line)
            if found:
                return range(int(found[1], 16), int(found[1], 16) + int(found[2], 16))
        raise LookupError(".text")

    @cached_property
    def is_stripped(self) -> bool:
        """Without debug files too, only exported functions have names."""
        return not any(".symtab" in line for line in said_by("readelf", "-SW", self._debug))

    @cached_property
    def _symbols(self) -> list[Symbol]:
        found: set[Symbol] = set()
        for file in {self.path, self._debug}:
            for line in said_by("readelf", "-sWC", file):
                words = line.split(None, 7)
                if len(words) == 8 and words[3] in ("FUNC", "IFUNC", "NOTYPE") and words[6] != "UND":
                    name = words[7].partition("@")[0]
                    found.add(Symbol(int(words[1], 16), int(words[2], 0), name))
        return sorted(found)

    def functions_at(self, address: int) -> set[str]:
        """The symbols whose code includes that address."""
        return {s.name for s in self._symbols if s.start <= address < s.start + s.size}

    def places_of(self, name: str) -> set[int]:
        """Where the functions of that name begin."""
        return {s.start for s in self._symbols if s.name == name}

    @cached_property
    def _rows(self) -> tuple[list[int], dict[int, set[tuple[str, int]]]]:
        rows: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for line in said_by("readelf", "--debug-dump=decodedline", "-W", self._debug):
            words = line.split()
            if len(words) > 2 and words[1].isdigit() and words[2].startswith("0x"):
                rows[int(words[2], 16)].add((words[0], int(words[1])))
        return sorted(rows), rows

    def has_row(self, address: int, file: str, line: int) -> bool:
        """Whether readelf's table of lines has that one for the address."""
        starts, rows = self._rows
        at = bisect.bisect_right(starts, address)
        return at > 0 and (Path(file).name, line) in rows[starts[at - 1]]

    def why(self, address: int, ours: list[Location], theirs: list[Location]) -> str | None:
        """The reason of a difference; None: there is no good one."""
        if same(ours, theirs):
            return "none"
        functions = self.functions_at(address)
        if not functions and ours[0].function == "??":
            return "no function: addr2line takes the one before"
        if len(ours) != len(theirs) or not same(ours[1:], theirs[1:]):
            return None
        first, wanted = ours[0], theirs[0]
        if same([first], [wanted], names=False):
            return self._why_named(first.function, wanted.function, functions, len(ours) > 1)
        if first.function == wanted.function and first.line == wanted.line:
            # addr2line names the unit's own file for code of files that it includes.
            return "an included file" if self.has_row(address, first.file, first.line) else None
        return None

    @staticmethod
    def _why_named(name: str, wanted: str, functions: set[str], is_inlined: bool) -> str | None:
        if wanted not in functions:
            return None
        if is_inlined:  # into the function of that symbol
            return "an inlined function without a symbol: addr2line takes the one around"
        if name in functions:
            return "several names"
        return "the symbol of a part" if wanted.startswith(name + ".") else None


def same(ours: list[Location], theirs: list[Location], *, names: bool = True) -> bool:
    """Whether all are equal.  addr2line puts the compiler's folder before relative files."""
    return len(ours) == len(theirs) and all(
        our.line == their.line
        and (our.file == their.file or their.file.endswith("/" + our.file))
        and (our.function == their.function or not names)
        for our, their in zip(ours, theirs)
    )
