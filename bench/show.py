"""The table on the terminal, and the plot for the README."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger import Change
from results import Method, Results, Verdict
from rich import box
from rich.console import Console
from rich.table import Table

UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


def time_text(ns: float) -> str:
    """Three digits and a unit."""
    for size, name in UNITS:
        if ns >= size:
            break
    value = ns / size
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {name}"


def value_text(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "ns":
        return time_text(value)
    if unit == "x":
        return f"{value:.2f} ×"
    return f"{value:,.0f} {unit}"


def is_ours(name: str) -> bool:
    return name.startswith("stacksplice")


def add_row(table: Table, results: Results, row: str, methods: dict[str, Method]) -> None:
    frames = max((m.frames for m in methods.values()), default=0)
    note = results.notes.get(row, f"{frames} frames" if frames else "")
    table.add_row(f"[bold]{row}[/bold]" + (f"  [dim]({note})[/dim]" if note else ""))
    for name, method in methods.items():
        style = "cyan" if is_ours(name) else ""
        if method.unavailable:
            table.add_row(f"  {name}", f"[red]not run: {method.unavailable}[/red]", style=style)
            continue
        ratio = results.ratio(row, name)
        each = method.instructions_per_frame()
        table.add_row(
            f"  {name}",
            value_text(method.p50, method.unit),
            value_text(method.p90, method.unit),
            "" if ratio is None else f"{ratio:.3g} ×",
            "" if method.instructions is None else f"{method.instructions:,.0f}",
            "" if each is None else f"{each:,.1f}",
            style=style,
        )
    table.add_section()


def measurements(results: Results) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("row and method", min_width=64)
    for title in ("median", "p90", "ratio", "instructions", "a frame"):
        table.add_column(title, justify="right", no_wrap=True)
    for row, methods in results.rows.items():
        add_row(table, results, row, methods)
    return table


def verdict_texts(verdict: Verdict, unit: str) -> tuple[str, str]:
    """What was wanted and what was found."""
    budget = verdict.budget
    if budget.against is None:
        return f"≤ {value_text(budget.plus, unit)}", value_text(verdict.value, unit)
    wanted = f"≤ {budget.factor:.3g} × {budget.against}"
    if budget.plus:
        counted = budget.measure == "instructions"
        wanted += f" + {budget.plus:g} instructions" if counted else f" + {value_text(budget.plus, unit)}"
    if verdict.value is None or not verdict.against:
        return wanted, "not measured"
    found = f"{verdict.value / verdict.against:.3g} ×"
    if budget.plus:
        found += f", {verdict.value - verdict.against:+,.0f}"
    return wanted, found


def goals(results: Results) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title="Goals", title_justify="left")
    for title in ("row", "goal", "found", "instructions", ""):
        table.add_column(title, no_wrap=True)
    for verdict in results.verdicts():
        unit = results.rows[verdict.row][verdict.budget.ours].unit
        mark = {
            True: "[green]met[/green]",
            False: "[yellow]missed[/yellow]",
            None: "[red]not measured[/red]",
        }[verdict.met]
        counted = "" if verdict.instructions is None else f"{verdict.instructions:.3g} ×"
        table.add_row(verdict.row, *verdict_texts(verdict, unit), counted, mark)
    return table


def show(results: Results, facts: dict[str, Any], console: Console) -> None:
    console.print(", ".join(f"{name} {value}" for name, value in facts.items() if value))
    console.print(measurements(results))
    console.print(goals(results))
    missing = [
        (row, name, method.unavailable)
        for row, methods in results.rows.items()
        for name, method in methods.items()
        if method.unavailable
    ]
    for row, name, reason in missing:
        console.print(f"not run: {name} in “{row}”: {reason}")


def moved(changes: list[Change]) -> Table:
    """What is off the ledger."""
    table = Table(box=None, pad_edge=False)
    table.add_column("row, method and measure", min_width=60)
    for title in ("ledger", "now", ""):
        table.add_column(title, justify="right", no_wrap=True)
    for change in changes:
        label = f"{change.row}, {change.method}" + ("" if change.measure == "instructions" else ", p90")
        ratio = (
            f"{change.now / change.was:.2f} ×"
            if change.was and change.now
            else "new"
            if change.now
            else "gone"
        )
        style = "red" if change.dearer else ""
        numbers = ["" if value is None else f"{value:,}" for value in (change.was, change.now)]
        table.add_row(label, *numbers, ratio, style=style)
    return table


# Rows of the plot, and what they are called there.
PLOTTED = [
    ("native, depth 30", "native stack, 30 calls deep"),
    ("native, 100 interpreter stacks", "100 Python-C-Lua stacks of 40 to 60 native frames"),
    ("combined, 10 bridges", "Python, Lua and native frames, 10 borders"),
    ("Python, an exception of 50 frames", "Python exception, 50 frames"),
    ("Lua, error under 50 frames", "Lua error, 50 frames"),
    ("Python -> Lua -> Python, a raise", "raise Python → Lua → Python"),
]


def bars(axis: Any, title: str, methods: dict[str, Method]) -> None:
    values = {name: method.p50 for name, method in methods.items() if method.p50 is not None}
    drawn = axis.barh(
        list(values),
        list(values.values()),
        color=["#0b7285" if is_ours(name) else "#adb5bd" for name in values],
    )
    axis.bar_label(drawn, labels=[time_text(value) for value in values.values()], padding=3, fontsize=8)
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axis.invert_yaxis()
    axis.margins(x=0.18)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", labelsize=8, length=0)
    for side in axis.spines.values():
        side.set_visible(False)


def plot(results: Results, path: Path) -> bool:
    """Bars of the medians, each row on a scale of its own; False when none of these rows was run."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "stacksplice", "svg.fonttype": "none"})
    import matplotlib.pyplot as pyplot

    rows = [(row, title) for row, title in PLOTTED if row in results.rows]
    if not rows:
        return False
    figure = pyplot.figure(figsize=(11, 2.7 * ((len(rows) + 1) // 2)), layout="constrained")
    for number, (row, title) in enumerate(rows, 1):
        bars(figure.add_subplot((len(rows) + 1) // 2, 2, number), title, results.rows[row])
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return True
