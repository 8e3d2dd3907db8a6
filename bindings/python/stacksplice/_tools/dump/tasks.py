"""The tasks of asyncio that stacksplice-inspect found in another process, for people."""

from __future__ import annotations

import json

from ..._base.hints import Any, Iterable, Iterator
from ..._base.plain import plain
from .text import interpreter_of

_NAMED = 3  # of several tasks; the rest is counted


def _listed(tasks: Iterable[dict[str, Any]]) -> str:
    names = [plain(json.dumps(task.get("name", "?"), ensure_ascii=False)) for task in tasks]
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _facts(
    members: list[dict[str, Any]], tasks: dict[str, dict[str, Any]], awaited: dict[str, list[str]]
) -> Iterator[str]:
    """What MEMBERS wait for and who awaits them; TASKS has all by address, AWAITED those that one awaits."""
    ready = sum("ready" in member for member in members)
    if ready:
        yield "ready to run" if ready == len(members) else f"{ready} of them ready to run"
    inner = dict.fromkeys(address for member in members for address in awaited.get(member["address"], ()))
    if inner:
        yield f"waiting for {_listed(tasks[address] for address in inner)}"
    else:
        kinds = {member["awaits"] for member in members if "awaits" in member}
        yield from (f"waiting for a {plain(kind)}" for kind in sorted(kinds))
    outer = dict.fromkeys(address for member in members for address in member["awaited_by"])
    if outer:
        yield f"awaited by {_listed(tasks[address] for address in outer)}"


def tasks_of(document: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What is said of the tasks of DOCUMENT that no thread runs, those with the same stack together, and that
    stack."""
    groups = document.get("tasks", ())
    tasks = {member["address"]: member for group in groups for member in group["members"]}
    awaited: dict[str, list[str]] = {}
    for address, task in tasks.items():
        for outer in task["awaited_by"]:
            awaited.setdefault(outer, []).append(address)
    for group in groups:
        members = group["members"]
        if "thread_id" not in members[0]:
            count = f"{len(members)} tasks" if len(members) > 1 else "task"
            facts = ", ".join(_facts(members, tasks, awaited))
            where = interpreter_of(members[0]["interpreter"])
            yield f"{count} {_listed(members)}{where}{f' ({facts})' if facts else ''}", group["stack"]
