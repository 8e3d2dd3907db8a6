"""The values of a run: rows of methods, made from what the programs print and callgrind counts."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

from budgets import BUDGETS, Budget, reference


@dataclass
class Method:
    p50: float | None = None
    p90: float | None = None
    unit: str = "ns"
    samples: int = 0
    frames: int = 0
    instructions: float | None = None
    instructions_p90: float | None = None
    """Of the runs that were counted one by one."""
    counts: list[float] = field(default_factory=list, repr=False)
    unavailable: str | None = None

    def instructions_per_frame(self) -> float | None:
        if self.instructions is None or not self.frames:
            return None
        return self.instructions / self.frames

    def measure(self, name: str) -> float | None:
        return self.instructions if name == "instructions" else self.p50


@dataclass
class Verdict:
    """How a row stands to a budget."""

    row: str
    budget: Budget
    value: float | None
    limit: float | None
    against: float | None
    instructions: float | None = None
    """Ours by the peer's, where both were counted."""

    @property
    def met(self) -> bool | None:
        return None if self.value is None or self.limit is None else self.value <= self.limit


@dataclass
class Results:
    rows: dict[str, dict[str, Method]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def method(self, row: str, name: str) -> Method:
        return self.rows.setdefault(row, {}).setdefault(name, Method())

    def add(self, line: dict[str, Any]) -> None:
        """One line of a program."""
        if "note" in line:
            self.notes[line["row"]] = line["note"]
            return
        method = self.method(line["row"], line["method"])
        for name in ("p50", "p90", "unit", "samples", "frames", "unavailable"):
            if name in line:
                setattr(method, name, line[name])

    def add_values(self, row: str, name: str, unit: str, values: list[float]) -> None:
        """One value of each of several processes."""
        if values:
            p90 = quantiles(values, n=10)[-1] if len(values) > 1 else values[0]
            self.add(
                {
                    "row": row,
                    "method": name,
                    "unit": unit,
                    "p50": median(values),
                    "p90": p90,
                    "samples": len(values),
                }
            )

    def add_count(self, row: str, name: str, instructions: float, frames: int) -> None:
        """A method may have several: each of some runs, counted by itself."""
        method = self.method(row, name)
        method.counts.append(instructions)
        method.instructions = mean(method.counts)
        if len(method.counts) > 1:
            method.instructions_p90 = quantiles(method.counts, n=10)[-1]
        method.frames = method.frames or frames

    def ratio(self, row: str, name: str) -> float | None:
        other = self.rows[row].get(reference(row) or "")
        mine = self.rows[row][name]
        if not other or not other.p50 or mine.p50 is None:
            return None
        return mine.p50 / other.p50

    def verdicts(self) -> list[Verdict]:
        found = []
        for budget in BUDGETS:
            for row, methods in self.rows.items():
                if budget.matches(row) and budget.ours in methods:
                    found.append(self._verdict(row, methods, budget))
        return found

    @staticmethod
    def _verdict(row: str, methods: dict[str, Method], budget: Budget) -> Verdict:
        value = methods[budget.ours].measure(budget.measure)
        if budget.against is None:
            return Verdict(row, budget, value, budget.plus, None)
        other = methods.get(budget.against)
        against = other.measure(budget.measure) if other else None
        limit = None if against is None else budget.limit(against)
        ours = methods[budget.ours].instructions
        counted = ours / other.instructions if other and other.instructions and ours else None
        return Verdict(row, budget, value, limit, against, counted)

    def as_json(self, about: dict[str, Any]) -> dict[str, Any]:
        return {
            **about,
            "notes": self.notes,
            "rows": {
                row: {
                    name: {
                        **{k: v for k, v in asdict(method).items() if v is not None and k != "counts"},
                        "ratio": self.ratio(row, name),
                    }
                    for name, method in methods.items()
                }
                for row, methods in self.rows.items()
            },
            "budgets": [
                {
                    **asdict(v.budget),
                    "row": v.row,
                    "value": v.value,
                    "limit": v.limit,
                    "against_value": v.against,
                    "instructions": v.instructions,
                    "met": v.met,
                }
                for v in self.verdicts()
            ],
        }


DUMP = re.compile(r"^desc: Trigger: Client Request: (.*)$", re.M)
TOTALS = re.compile(r"^totals: (\d+)", re.M)


def read_dump(path: Path) -> tuple[str, int] | None:
    """The name and the instructions of one of callgrind's dumps."""
    text = path.read_text(encoding="utf-8", errors="replace")
    name, totals = DUMP.search(text), TOTALS.search(text)
    return (name[1], int(totals[1])) if name and totals else None
