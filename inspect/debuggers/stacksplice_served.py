"""Runs stacksplice-inspect for a debugger, which answers what the program asks.

The program reads the memory of the debugged process, or of its core file, through the debugger.  So
it needs no rights of its own, and what goes wrong in it does the debugger no harm.
"""

import ast
import json
import os
import re
import shutil
import subprocess

from stacksplice_files import Files
from stacksplice_plain import plain
from stacksplice_text import heading, lines_of

# Each machine's number in the headers of ELF files, and its registers in DWARF's order, in which the
# program takes them.
X86_64 = 62, "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
ARM_64 = 183, ["x%d" % number for number in range(31)] + ["sp", "pc"]


class Refused(Exception):
    """It cannot be done; str() is one line with the reason and the next step."""


def _program():
    """The program of the installation that this file is part of, else one in PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    # In the Python package; under the prefix of an installation.
    for up in ("..", "../../../bin"):
        path = os.path.join(here, up, "stacksplice-inspect")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("stacksplice-inspect")
    if not found:
        raise Refused(
            "there is no stacksplice-inspect beside " + here + " or in PATH: install stacksplice anew"
        )
    return found


def fact(word, *values):
    """One line that tells the program something."""
    return " ".join([word, *map(str, values)]).replace("\n", "?") + "\n"


def _own_number(process, thread):
    """The number by which PROCESS knows its thread, if that runs on this machine: a container has others."""
    if process is None:
        return thread
    try:
        with open("/proc/{}/task/{}/status".format(process, thread)) as status:
            return next((line.split()[-1] for line in status if line.startswith("NSpid:")), thread)
    except OSError:  # it has ended
        return thread


def mapping_fact(start, end, rights, offset, path):
    """One mapping, its numbers in hexadecimal digits."""
    return fact("mapping", start + "-" + end, rights, offset, "0:0 0", path or "")


def mapping_facts(process):
    """Those of PROCESS, which runs on this machine."""
    with open("/proc/{}/maps".format(process), errors="surrogateescape") as maps:
        for line in maps:
            yield fact("mapping", line.rstrip("\n"))


def thread_fact(process, number, name, registers, why=""):
    """A thread of PROCESS, which is None elsewhere: what is to be said, REGISTERS, or None because of WHY."""
    said = fact("thread", number, _own_number(process, number), name or "")
    if registers is None:
        return said + fact("why", why)
    return said + fact("registers", *(format(value & (1 << 64) - 1, "x") for value in registers))


def _named(rows):
    """The answer that names what runs at an address."""
    clean = [[str(field or "").replace("\t", " ").replace("\n", " ") for field in row] for row in rows]
    return "".join("\t".join(row) + "\n" for row in clean) + "\n"


class Names:
    """Names of native code, by the debugger's own unwinder: it knows inlined functions.

    STACKS has the frames of each thread, innermost first: (pc, (function, file, line), is it inlined
    into the next one, is it that of a signal).  BY_SYMBOLS(address) is asked for other code.
    """

    def __init__(self, stacks, by_symbols):
        self.stacks = stacks
        self.by_symbols = by_symbols
        self.known = None

    def __call__(self, address):
        """A list of (function, file, line)."""
        if self.known is None:
            self.known = {}
            for stack in self.stacks:
                self._learn(stack)
        if address not in self.known:
            self.known[address] = self.by_symbols(address)
        return self.known[address]

    def _learn(self, stack):
        rows, in_call, at = [], 0, 0
        for pc, row, is_inlined, is_signal in stack:
            at = at if rows else pc - in_call  # lldb has other addresses for what it is inlined into
            rows.append(row)
            if not is_inlined:
                self.known[at] = rows
                # A return address is behind its call, except where a signal came between.
                rows, in_call = [], 0 if is_signal else 1


def _readable(read, address, size):
    """The bytes at ADDRESS up to the first that cannot be read.

    gdb reads all or nothing, but newer C libraries have the guard pages of stacks in the mapping of
    the stacks; lldb reads no further than to the end of a section.
    """
    data = more = read(address, size)
    while more and len(data) < size:
        more = read(address + len(data), size - len(data))
        data += more or b""
    low, high = 0, size
    while not data and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if read(address, middle) else (low, middle)
    return data or (read(address, low) if low else None) or b""


def _answers(child, read, name):
    """Answer what CHILD asks until it ends; the lines of its document."""
    lines = []
    for line in child.stdout:
        if not line.startswith(b"?"):
            lines.append(line)
            continue
        word, address, size = line[1:].split()
        if word == b"read":
            data = _readable(read, int(address), int(size))
            child.stdin.write(b"%d\n" % len(data) + data)
        else:
            child.stdin.write(_named(name(int(address))).encode(errors="replace"))
        child.stdin.flush()
    return lines


def _started(options):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        given = [str(option).encode(errors="surrogateescape") for option in options]
        return subprocess.Popen([_program(), "--served", *given], **pipes)
    except OSError as exc:
        raise Refused("cannot run stacksplice-inspect: " + str(exc.strerror)) from None


def inspect(facts, read, name, *options):
    """The document of stacksplice-inspect about the target that OPTIONS and FACTS tell of.

    read(address, size) gives memory, or None; name(address) gives (function, file, line) of each
    function at an address, the innermost inlined one first.
    """
    lines, told = [], "".join([*facts, "go\n"]).encode(errors="surrogateescape")
    with _started(options) as child:
        try:
            child.stdin.write(told)
            child.stdin.flush()
            lines = _answers(child, read, name)
        except BrokenPipeError:  # it has ended, and says why
            pass
        except BaseException:
            child.kill()
            raise
        complaint = child.stderr.read().decode(errors="replace").strip()
    # The debugger may have waited for the child, so its status is not known.
    try:
        return json.loads(b"".join(lines).decode())
    except ValueError:
        raise Refused(complaint or "stacksplice-inspect ended early: please report this") from None


# ---- Local variables: like a debugger's own commands, this leaves out no secrets ------------------


def locals_of(frame):
    """(name, text) of each local variable of FRAME of a script, by name."""
    return sorted(frame.get("locals", {}).items())


def _plain(text):
    """The string or number of 64 bits that TEXT shows, else TEXT."""
    try:  # numbers in escapes, of three digits, are those of Lua
        value = ast.literal_eval(re.sub(r"\\(\d{3}|.)", lambda found: _escape(found[1]), text))
    except (SyntaxError, ValueError):
        return text
    return value if isinstance(value, str) or type(value) is int and abs(value) < 1 << 63 else text


def _escape(escaped):
    return "\\" + ("x%02x" % int(escaped) if escaped.isdigit() else escaped)


def plain_locals_of(frame):
    """(name, number or text) of each, for debuggers that put texts in quotes of their own."""
    return [(name, _plain(text)) for name, text in locals_of(frame)]


# ---- Texts ---------------------------------------------------------------------------------------


def text_of(document, all_frames, files):
    """DOCUMENT for people, as `stacksplice dump` writes it, with lines of FILES."""
    files.belong_to(document["process"].get("user"))
    parts = ["note: " + plain(note) + "\n" for note in document["notes"]]
    for thread in document["threads"]:
        for frame in thread["stack"]:
            files.add_source(frame)
            frame["locals"] = dict(locals_of(frame))
        parts += ["\nthread " + heading(thread) + "\n"]
        folds = thread.get("folds", ())
        parts += lines_of(
            thread["stack"], all_frames, lambda frame: frame.get("text", "?"), lambda stack: folds
        )
    return "".join(parts).lstrip("\n")


def backtrace(words, stacks, files):
    """The text of `stacksplice bt WORDS`.

    stacks(of all threads, with locals) gives the document, files() those of the process.
    """
    options = options_of(words, ("all", "-all-frames", "-locals", "-no-source"))
    document = stacks("all" in options, "-locals" in options)
    with Files() if "-no-source" in options else files() as sources:
        return text_of(document, "-all-frames" in options, sources)


def errors_of(document):
    """The errors in DOCUMENT for people."""
    parts = ["note: " + plain(note) + "\n" for note in document["notes"]]
    for thread in document["threads"]:
        if "error_text" in thread:
            parts.append(
                "{}\nCurrent error of this thread:\n{}".format(
                    "thread " + heading(thread), thread["error_text"]
                )
            )
    if "failed_text" in document:
        parts.append("The process ended itself because of this error:\n" + document["failed_text"])
    return "\n".join(parts) or "no thread has an error that stacksplice knows\n"


def frames_of(frames):
    """What one element of a stack stands for, for people: several lines where functions are inlined."""
    return "".join(frame["text"] + "\n" for frame in frames)


def stack_options(all_threads, selected, with_locals):
    """For the stacks of all threads, or that of the one with the number SELECTED."""
    return [*(() if all_threads else ("--thread", selected)), *(("--locals",) if with_locals else ())]


def options_of(words, known):
    """The options among WORDS; Refused if one is not in KNOWN."""
    for word in words:
        if word not in known:
            raise Refused("{!r} is no option here; there are: {}".format(word, ", ".join(known) or "none"))
    return set(words)


def script_runs(stack):
    """The script frames of STACK, innermost first: (stack address, frames).

    And the stack addresses of its glue.
    """
    runs, glue = [], set()
    for frame in stack:
        address = frame.get("stack_address")
        if frame["kind"] == "native":
            glue |= {address} if frame.get("glue") else set()
        elif address is not None:
            if not runs or runs[-1][0] != address:
                runs.append((address, []))
            runs[-1][1].append(frame)
    return runs, glue
