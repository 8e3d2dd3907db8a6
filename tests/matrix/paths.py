"""The cases of the matrix, and what each has to give.

A case is (path, modes, styles, kind): languages from the catcher to the origin, how each step runs
what it calls (in a coroutine, a generator, a thread), what each does with an error that passes
through, and what the origin throws.
"""

import asyncio
import itertools
import sys

import gap_reasons
import steps
from shown_frames import shown

# C hands HRESULTs on: it receives nothing unless it says so.
RECEIVERS = {"P": "python", "L": "lua", "M": "lua", "T": "tiny", "X": "c++"}

E_FAIL, E_BOUNDS, E_INVALIDARG = 0x80004005, 0x8000000B, 0x80070057
# What the origin throws: the HRESULT, and how its message begins.
KINDS = {
    "P": {
        "V": (E_INVALIDARG, "Python said so"),
        "O": (0x80070002, "[Errno 2] Python said so"),
        "K": (0x800704C7, "Python said so"),
        "H": (0x80004004, "Python said so"),
    },
    "L": {
        "T": (0x80070005, "Lua said so"),
        "F": (E_FAIL, "(error object is a function value)"),
        "C": (E_FAIL, "(error object is a thread value)"),
        "I": (E_FAIL, "42"),
        "D": (E_FAIL, "0.5"),
        "B": (E_FAIL, "false"),
        "S": (E_FAIL, "steps.lua: text"),
    },
    "T": {
        "A": (0x80070005, "tiny said so"),
        "O": (E_FAIL, "tiny said so"),
        "C": (E_FAIL, "tiny said so"),
    },
    "C": {"E": (E_BOUNDS, "C said so"), "W": (0x80070005, "C said ß"), "B": (0x80004001, "Not implemented")},
    "X": {
        "X": (E_BOUNDS, "C++ said so"),
        "I": (E_FAIL, "an exception of type int was thrown"),
        "R": (E_FAIL, "café"),
        "N": (E_BOUNDS, "C++ said so"),
        "E": (0x80070005, "made by hand"),
    },
}
KINDS["M"] = KINDS["L"]
NAMELESS = "IDBS"  # values of Lua that are equal to others: raised by hand they are new errors
STYLES = "0123"
WAYS = ("sync", "coroutine", "generator", "thread", "called")
# What calls the next step where its language does: see MODES of steps.py, modes of steps.lua, c_side.c.
CALLS = {"P": "kmipr+e", "L": "i+.(lsbx", "M": "i+.(lsbx", "T": "-", "C": "qr", "X": "-"}
OTHERS = {"P": "-gc", "L": "-gch", "M": "-gch", "T": "-", "C": "-", "X": "-"}
LONGEST = 11


# ---- Which cases there are -----------------------------------------------------------------------


def paths(languages, borders):
    """All paths without equal neighbours."""
    for path in itertools.product(languages, repeat=borders + 1):
        if all(a != b for a, b in zip(path, path[1:])):
            yield "".join(path)


def modes_of(path, way, turn):
    """One letter a step; TURN chooses among what a way can be."""
    if way == "generator":
        return "".join("g" if c in "PLM" else "-" for c in path)
    if way == "thread":
        where = turn % len(path)
        return "".join("t" if i == where else "-" for i in range(len(path)))
    if way == "sync":
        return "-" * len(path)
    if way == "called":
        return "".join(CALLS[c][(turn + i) % len(CALLS[c])] for i, c in enumerate(path))
    modes = []
    for i, c in enumerate(path):
        if c == "P":  # one loop in a thread
            modes.append("a" if turn % 2 and "P" not in path[:i] else "c")
        else:
            modes.append(("ch"[(turn + i) % 2]) if c in "LM" else "-")
    return "".join(modes)


def kinds_of(path, modes):
    kinds = set(KINDS[path[-1]])
    if "a" in modes:
        kinds -= {"K"}  # ends the loop
    if path[-1] == "X" and modes[-1] == "t" and path.count("P") > 1:
        kinds -= {"E"}  # nobody knows its thread: equal frames of two steps are taken for one
    if any(c in "LM" and mode == "g" for c, mode in zip(path, modes)):
        kinds -= {"S"}  # coroutine.wrap makes another string of it
    return sorted(kinds)


def as_told(path, modes, styles, kind):
    """The case without what cannot be: a nameless value that Lua code catches and raises again, as
    coroutine.wrap does too."""
    if path[-1] in "LM" and kind in NAMELESS:
        same = [c == path[-1] for c in path]
        styles = "".join("0" if it else style for it, style in zip(same, styles))
        modes = "".join("h" if it and mode in "cg" else mode for it, mode in zip(same, modes))
    return path, modes, styles, kind


def cases(borders, way, languages="PLCX"):
    """Short paths with every style and every kind, long ones with both in turn."""
    for number, path in enumerate(paths(languages, borders)):
        if borders <= 2 and way == "called":
            for turn in range(max(map(len, CALLS.values()))):
                modes = modes_of(path, way, turn)
                kinds = kinds_of(path, modes)
                yield as_told(path, modes, STYLES[turn % 4] * len(path), kinds[(number + turn) % len(kinds)])
        elif borders <= 2:
            for turn, style in enumerate(STYLES):
                modes = modes_of(path, way, number + turn)
                for kind in kinds_of(path, modes):
                    yield as_told(path, modes, style * len(path), kind)
        else:
            modes = modes_of(path, way, number)
            kinds = kinds_of(path, modes)
            styles = "".join(STYLES[(number // 4 + i * (number % 3)) % 4] for i in range(len(path)))
            yield as_told(path, modes, styles, kinds[number // 3 % len(kinds)])


def any_case(chance):
    """A path as long as it can be or shorter, each step by any mode that needs no thread and no loop."""
    path = [chance.choice("PLCXMT")]
    while len(path) < chance.randrange(3, LONGEST + 1):
        path.append(chance.choice([c for c in "PLCXMT" if c != path[-1]]))
    modes = "".join(chance.choice(CALLS[c] + OTHERS[c]) for c in path)
    styles = "".join(chance.choices(STYLES, k=len(path)))
    return as_told("".join(path), modes, styles, chance.choice(kinds_of("".join(path), modes)))


# ---- What a case has to give ---------------------------------------------------------------------


UNWOUND = ("gap", gap_reasons.RETURNED, 0)
ENDED = ("gap", gap_reasons.ENDED, 0)
CLOSED_BY_WRAP = 504  # since this Lua coroutine.wrap closes a coroutine that failed: its frames are gone
KEPT = ("gap", gap_reasons.KEPT, 0)
AWAITED = ("gap", gap_reasons.AWAITED, 0)
RUN_BY_LOOP = ("gap", gap_reasons.RUN_BY_LOOP, 0)
# Frames of coroutines that have ended: whether they know who called them.
REMEMBERED = (3, 12) <= sys.version_info < (3, 14)
OTHER_THREAD = ("gap", "error came from another thread", 0)
UNKNOWN = ("gap", "unknown frames in between", 0)
TAIL_CALL = ("gap", "Lua tail calls replaced the frames of the callers", 0)
ELSEWHERE = ("gap", "outer frames of this coroutine were called from elsewhere", 0)


def frame_of(entry):
    what, name, line = entry
    return {
        "n": ("native", name, 0),
        "p": ("python", name, line),
        "l": ("lua", None, line),
        "y": ("tiny", name, line),
        "o": ELSEWHERE,
        "x": TAIL_CALL,
    }[what]


def stack_at(log, place):
    """The frames of the thread that called what the first PLACE entries of the log say."""
    start = max((i + 1 for i, entry in enumerate(log[:place]) if entry[0] == "t"), default=0)
    return [frame_of(entry) for entry in reversed(log[start:place]) if entry[0] != "c"]


def last(log, mark):
    return max((i for i, entry in enumerate(log) if entry[0] == mark), default=len(log))


def traceback_frames(traceback):
    """Innermost first; a frame that raised again what it caught is one frame."""
    frames = []
    while traceback:
        if not traceback.tb_next or traceback.tb_next.tb_frame is not traceback.tb_frame:
            name = traceback.tb_frame.f_code.co_qualname
            if name == "target":  # the thread's; another one raised what it had kept
                frames.insert(0, KEPT)
            if name == "in_task" and REMEMBERED:
                frames.insert(0, AWAITED)
            frames.insert(0, ("python", name, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def expected_stack(case, log, borders, traceback, lua):
    path, modes, styles, kind = case
    origin = path[-1]
    if origin == "X" and (kind == "E" or modes[-1] != "t" and styles[-1] in "02"):
        return stack_at(log, len(log))
    if origin in "PX" and modes[-1] == "t":
        log = log[: last(log, "t")]  # the exception was carried out of the thread as it is
    elif origin == "X":
        log = log[:-1]  # caught and thrown again, without the function that threw
    if origin == "P":
        return traceback_frames(traceback) + [UNWOUND] + stack_at(log, len(log))
    if origin == "X":
        return [UNWOUND] + stack_at(log, len(log))
    if origin == "C" and kind == "B":
        return stack_at(log, borders[receivers(path, styles)[0]])
    if origin in "LM" and modes[-1] in "gh" and styles[-1] in "01":
        cut = last(log, "c")  # the frames of the coroutine, which is dead
        if modes[-1] == "g" and lua >= CLOSED_BY_WRAP:
            return [UNWOUND] + stack_at(log, cut)
        return stack_at(log[cut:], len(log) - cut) + [ENDED] + stack_at(log, cut)
    return stack_at(log, len(log))


def line_of(function, offset):
    code = function.__code__
    return ("python", code.co_qualname, code.co_firstlineno + offset)


def last_line_of(function):
    code = function.__code__
    return ("python", code.co_qualname, max(line for *_, line in code.co_lines() if line))


RAISED_AGAIN = line_of(steps.raising_again, 4)
AWAITING = line_of(steps.awaiting, 1)
WAITED = last_line_of(asyncio.BaseEventLoop.run_until_complete)


def with_traceback(case, stack, waits=False):
    """STACK, maybe of a thread that WAITS for that of the error, with what Python's traceback shows besides
    where Python code received the error: both lines of a frame that raised it again, and the task that
    awaited.  An error of Python has that task from its origin on."""
    path, modes, *_ = case
    if "P" not in path[:-1]:
        return stack
    frames, leaves = [], "a" in modes[1:-1]
    for frame, caller in zip(stack, [*stack[1:], UNKNOWN]):
        frames.append(frame)
        if frame[:2] == RAISED_AGAIN[:2]:
            frames += [KEPT, RAISED_AGAIN]
        if frame[:2] == ("python", "in_task") and caller[1] == "Handle._run":
            if path[-1] == "P" and not waits:
                frames += [AWAITED, AWAITING, RUN_BY_LOOP]
            elif leaves:
                frames += [AWAITED if REMEMBERED else KEPT, AWAITING]
        if frame[:2] == WAITED[:2] and leaves:
            frames += [KEPT, WAITED]
    return frames


def received_outside(path, styles, thread):
    """Whether no language received the error in the thread where it was."""
    return receivers(path, styles)[0] < thread + (path[thread] in "LMT")


def waiting_thread(case, log):
    """The frames of the thread that waited for the one where the error was, as far as Python received it
    there; none, if it did not, or if the stack is of that thread."""
    path, modes, styles, kind = case
    thread, origin = modes.find("t"), len(path) - 1
    if "P" not in path[: thread + 1] or (thread == origin and (path[-1], kind) != ("X", "E")):
        return []
    if (path[-1], kind) == ("C", "B") and received_outside(path, styles, thread):
        return []  # an HRESULT only, until then
    outer = stack_at(log, last(log, "t"))
    if path[thread] == "P":
        outer = [line_of(steps.in_thread, 6), line_of(steps.step, 1), *outer] if thread else []
    ends = ("python", "catch" if path[0] == "P" else "step")
    end = max((i for i, frame in enumerate(outer) if frame[:2] == ends), default=-1)
    return with_traceback(case, outer[: end + 1], waits=True)


def waiting_wrong(want, have):
    """HAVE begins with a gap that says so; Python's frames are all there, and all frames are of WANT, in
    their order.  Of native ones only those are known that a border saw when the error arrived."""
    want, found = ([frame for frame in frames if frame[0] != "gap"] for frames in (want, have))
    rest = iter(want)
    good = all(frame in rest for frame in found) and have[:1] and have[0] in (OTHER_THREAD, UNKNOWN, KEPT)
    for frames in (want, found):
        frames[:] = [frame for frame in frames if frame[0] == "python"]
    return [] if good and want == found else [f"outside of the thread: {have}, not {want}"]


def receivers(path, styles):
    """The steps that received the error, the innermost first."""
    steps = range(len(path) - 2, -1, -1)
    return [i for i in steps if path[i] in RECEIVERS or styles[i] == "3"]


def difference(name, want, have):
    if want == have:
        return []
    for i in range(max(len(want), len(have))):
        if want[i : i + 1] != have[i : i + 1]:
            return [f"{name}: frame {i} is {have[i : i + 1]}, not {want[i : i + 1]}\n  {have}\n  {want}"]
    return []


def wrong(case, facts, log, borders, traceback):
    """What is wrong with what was found; nothing: an empty list."""
    path, _, styles, kind = case
    hr, message = KINDS[path[-1]][kind]
    found = []

    def check(name, want):
        if facts.get(name) != want:
            found.append(f"{name} is {facts.get(name)!r}, not {want!r}")

    for name in ("hr", "stored", "hresult"):
        if name in facts:
            facts[name] &= 0xFFFFFFFF
        if name in facts or name != "hresult":
            check(name, hr)
    for name in ("message", "what", "whole message"):
        if name in facts and not facts[name].startswith(message):
            found.append(f"{name} is {facts[name]!r}, not {message!r}")
    check("wrong slots", 0)
    check("changed errors", 0)
    check("identity", {"C": -1}.get(path[-1], 1))
    chain = receivers(path, styles)
    if "nodes" in facts:
        check("nodes", len(chain))
        check("frames", len(facts["stack"]))
    if len(facts["chain"]) != len(chain):
        found.append(f"{len(facts['chain'])} nodes, not {len(chain)}")
    received = [RECEIVERS.get(path[i], "native") for i in chain]
    if [language for language, _ in facts["chain"]] != received:
        found.append(f"received by {[language for language, _ in facts['chain']]}, not {received}")
    if "languages" in facts:  # as the language that caught it tells
        check("languages", " ".join(received))
    for i, (_, node) in zip(chain, facts["chain"]):
        found += difference(f"node of step {i}", stack_at(log, borders[i]), shown(node, "matrix_"))
    want = with_traceback(case, expected_stack(case, log, borders, traceback, facts["LUA_VERSION_NUM"]))
    have = shown(facts["stack"], "matrix_")
    waiting = waiting_thread(case, log)
    if waiting:
        found += waiting_wrong(waiting, have[len(want) :])
        have = have[: len(want)]
    return found + difference("stack", want, have)
