"""What gdb knows of the selected process or core file, for stacksplice-inspect."""

import os
import re

import gdb
import stacksplice_served as served
from stacksplice_files import Files, files_of, written_at

MAPPING = re.compile(
    r"\s*0x(?P<start>[0-9a-f]+)\s+0x(?P<end>[0-9a-f]+)\s+0x[0-9a-f]+\s+0x(?P<offset>[0-9a-f]+)"
    r"(?:\s+(?P<rights>[-r][-w][-x])[-ps])?(?:\s+(?P<path>\S.*))?"
)
MACHINES = {"i386:x86-64": served.X86_64, "i386:x86-64:intel": served.X86_64, "aarch64": served.ARM_64}
NO_PROCESS = "no process and no core file here: begin with run, attach PID, or core-file FILE"


# ---- Threads -------------------------------------------------------------------------------------


def number_of(thread):
    """As the system knows it; a target without such numbers has those of gdb."""
    return thread.ptid[1] or thread.ptid[2] or thread.num


def _architecture():
    return gdb.selected_inferior().architecture().name()


def _machine():
    """(number, registers) of the selected inferior's."""
    if _architecture() not in MACHINES:
        raise served.Refused(
            "only processes of x86-64 and 64-bit Arm can be read, this is " + _architecture()
        )
    return MACHINES[_architecture()]


def _registers(names):
    """Of the selected thread."""
    frame = gdb.newest_frame()
    return [int(frame.read_register(name)) for name in names]


class Selection:
    """Leaves the selected thread and frame as they were."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        try:
            self.frame = gdb.selected_frame()
        except gdb.error:  # it runs
            self.frame = None

    def __exit__(self, *exception):
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
        if self.frame is not None and self.frame.is_valid():
            self.frame.select()


def _thread_fact(process, thread, registers):
    if thread.is_running():
        why = "thread runs: interrupt it first"
        return served.thread_fact(process, number_of(thread), thread.name, None, why)
    thread.switch()
    return served.thread_fact(process, number_of(thread), thread.name, _registers(registers))


def _wanted(all_threads):
    """The threads to show, the selected one first."""
    selected = gdb.selected_thread()
    if selected is None or not selected.is_valid():
        raise served.Refused(NO_PROCESS)
    threads = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    threads = [selected] + [thread for thread in threads if all_threads and thread.num != selected.num]
    if all(thread.is_running() for thread in threads):
        raise served.Refused("the process runs: stop it first, by Ctrl-C or interrupt -a")
    return threads


# ---- Process or core file ------------------------------------------------------------------------


def _machine_of_core(path):
    """Its number; None if PATH is no core file."""
    try:
        with open(path, "rb") as file:
            header = file.read(20)
    except OSError:
        return None
    is_core = header[16:18] == b"\x04\0"  # ET_CORE
    return int.from_bytes(header[18:], "little") if is_core else None


def _core_file():
    """The core file that is debugged, or None.  Older versions of gdb say its name in a text only."""
    for path in re.findall(r"`(.+)', .*elf64-", gdb.execute("info files", to_string=True)):
        machine = _machine_of_core(path)
        if machine is not None and machine != MACHINES.get(_architecture(), (None,))[0]:
            raise served.Refused(
                "gdb reads this core file as one of {}: gdb-multiarch may know it".format(_architecture())
            )
        if machine is not None:
            return os.path.abspath(path)
    return None


def _is_here(inferior):
    """Whether it is a process of this machine."""
    connection = getattr(inferior, "connection", None)
    return connection is not None and connection.type == "native"


def _root():
    """What is before the paths of the process's files here."""
    inferior = gdb.selected_inferior()
    root = gdb.parameter("sysroot") or ""
    if _is_here(inferior):
        return "/proc/{}/root".format(inferior.pid)  # it may see other files than gdb
    return "" if root.startswith("target:") else root.rstrip("/")


def _mappings():
    """A line for each mapping.  Older versions of gdb do not say what may be written or run."""
    try:
        listed, why = gdb.execute("info proc mappings", to_string=True), "info proc mappings is empty"
    except gdb.error as exc:
        listed, why = "", exc
    rows = list(filter(None, map(MAPPING.fullmatch, listed.splitlines())))
    if not rows:
        raise served.Refused("this target does not say what is mapped in the process ({})".format(why))
    for row in rows:
        path = (row["path"] or "").strip()
        rights = row["rights"] or ("r-x" if path.startswith("/") else "rw-")
        yield served.mapping_fact(row["start"], row["end"], rights, row["offset"], path)


def _facts():
    """All threads, also those that are not shown: stacks of several can lie in one mapping."""
    inferior, (_, registers) = gdb.selected_inferior(), _machine()
    here = inferior.pid if _is_here(inferior) else None
    yield from _mappings()
    with Selection():
        for thread in _wanted(True):
            yield _thread_fact(here, thread, registers)


def _read(address, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except (gdb.error, OverflowError):  # not mapped, or beyond what gdb can address
        return None


# ---- Names ---------------------------------------------------------------------------------------


def _file_of(symtab):
    """The name in the debug information may need the compiler's folder before it."""
    if symtab is None:
        return None
    full = symtab.fullname()
    return full if os.path.exists(full) else symtab.filename


def _row(frame):
    place = frame.find_sal()
    return frame.name(), _file_of(place.symtab), place.line


def _by_symbols(address):
    """Without the functions that were inlined there."""
    block = gdb.block_for_pc(address)
    while block is not None and block.function is None:
        block = block.superblock
    place = gdb.find_pc_line(address)
    if block is not None:
        return [(block.function.print_name, _file_of(place.symtab), place.line)]
    found = re.match(
        r"(.+?) \+ \d+ in section |(.+?) in section ", gdb.execute("info symbol %d" % address, to_string=True)
    )
    return [(found[1] or found[2], None, 0)] if found else []


def _stacks(threads):
    """The frames of each of THREADS, as served.Names wants them."""
    with Selection():
        for thread in threads:
            if not thread.is_running():
                thread.switch()
                yield _stack()


def _stack():
    """Of the selected thread."""
    frame = gdb.newest_frame()
    while frame is not None:
        is_signal = frame.type() == gdb.SIGTRAMP_FRAME
        yield frame.pc(), _row(frame), frame.type() == gdb.INLINE_FRAME, is_signal
        frame = frame.older()


# ---- All -----------------------------------------------------------------------------------------


def _inspect(stacks, *wanted):
    process, program = gdb.selected_inferior().pid, gdb.current_progspace().filename
    if not process:
        raise served.Refused(NO_PROCESS)
    core = _core_file()
    options = ["--pid", process, "--root", _root(), *(("--exe", program) if program else ())]
    options += ["--core", core] if core else ["--machine", _machine()[0]]
    names = served.Names(stacks, _by_symbols)
    return served.inspect(() if core else _facts(), _read, names, *options, *wanted)


def stacks(all_threads, with_locals=False):
    """The document with the stack of the selected thread, or of all."""
    threads = _wanted(all_threads)
    return _inspect(_stacks(threads), *served.stack_options(all_threads, number_of(threads[0]), with_locals))


def scripts(all_threads, with_locals=False):
    """The stack of the selected thread, or of all, by their numbers; empty where no script runs.

    Gdb unwinds nothing for it, so that functions which are inlined are missing.
    """
    selected = number_of(_wanted(all_threads)[0])
    document = _inspect((), "--scripts", *served.stack_options(all_threads, selected, with_locals))
    return {thread["thread_id"]: thread["stack"] for thread in document["threads"]}


def files():
    """The files of scripts, as far as those of the process are here."""
    inferior, core = gdb.selected_inferior(), _core_file()
    if core:
        return Files(written_at(core), _root())
    return files_of(inferior.pid) if _is_here(inferior) else Files()


def errors():
    """The document with the errors of all threads."""
    return _inspect((), "--errors")


def frames(element):
    """What ELEMENT of a captured stack stands for."""
    return _inspect((), "--token", element)
