"""lldb's command `stacksplice`: `command script import` this file."""

import os
import shlex
import sys
from functools import partial

import lldb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stacksplice_served as served  # noqa: E402
from stacksplice_files import Files, files_of, written_at  # noqa: E402
from stacksplice_plain import plain  # noqa: E402

MACHINES = {"x86_64": served.X86_64, "aarch64": served.ARM_64, "arm64": served.ARM_64}
NO_REGIONS = "this target does not say what is mapped: frames of scripts may be missing"
NO_PROCESS = "no process and no core file here: begin with run, process attach, or target create --core FILE"


HELP = """Stacks of all languages of the process: native, Python and Lua frames in their order.

Syntax: stacksplice bt [all] [-all-frames] [-locals] [-no-source]
        stacksplice errors
        stacksplice frame TOKEN

bt prints the combined stack of the selected thread, the newest frame last.

  all          the stacks of all threads
  -all-frames  also the frames inside of interpreters, which are otherwise counted only
  -locals      also the local variables of scripts
  -no-source   no lines of source: nothing is read from files of scripts

errors prints the errors that threads have now, and the one with which the process ended itself.
frame prints what an element of a captured stack stands for; TOKEN is a number, or an expression."""


# ---- Threads -------------------------------------------------------------------------------------


def _machine(target):
    """(number, registers) of the target's."""
    triple = target.GetTriple()
    machine = MACHINES.get(triple.partition("-")[0])
    if machine is None:
        raise served.Refused("only processes of x86-64 and 64-bit Arm can be read, this is " + triple)
    return machine


def _registers(thread, names):
    frame = thread.GetFrameAtIndex(0)
    return [frame.FindRegister(name).GetValueAsUnsigned() for name in names]


def _wanted(process, all_threads):
    """The threads to show, the selected one first."""
    if process is None or not process.IsValid() or process.GetState() == lldb.eStateExited:
        raise served.Refused(NO_PROCESS)
    if process.GetState() not in (lldb.eStateStopped, lldb.eStateCrashed, lldb.eStateSuspended):
        raise served.Refused("the process runs: stop it first, by process interrupt")
    selected = process.GetSelectedThread()
    others = [thread for thread in process if thread.GetThreadID() != selected.GetThreadID()]
    return [selected, *(others if all_threads else ())]


# ---- What is mapped ------------------------------------------------------------------------------


def _modules(target):
    """(start, end, path) of each binary."""
    for module in target.module_iter():
        start = module.GetObjectFileHeaderAddress().GetLoadAddress(target)
        ends = [
            section.GetLoadAddress(target) + section.GetByteSize()
            for section in module.section_iter()
            if section.GetLoadAddress(target) != lldb.LLDB_INVALID_ADDRESS
        ]
        if start != lldb.LLDB_INVALID_ADDRESS and ends:
            yield start, max(ends), str(module.GetFileSpec())


def _regions(process):
    """(start, end, rights, path) of what is mapped; a core file knows no paths."""
    regions, region = process.GetMemoryRegions(), lldb.SBMemoryRegionInfo()
    for at in range(regions.GetSize()):
        if regions.GetMemoryRegionAtIndex(at, region) and region.IsMapped():
            asked = (("r", region.IsReadable()), ("w", region.IsWritable()), ("x", region.IsExecutable()))
            rights = "".join(letter if has else "-" for letter, has in asked)
            yield region.GetRegionBase(), region.GetRegionEnd(), rights, region.GetName() or ""


def _with_modules(regions, modules):
    """REGIONS with the paths of MODULES, and what those have beside: a core file may lack that."""
    for start, end, path in modules:
        at = start
        for low, high, rights, name in regions:
            if start <= low < end:
                if at < low:
                    yield at, low, "r-x", path, at - start
                yield low, high, rights, name or path, low - start
                at = high
        if at < end:
            yield at, end, "r-x", path, at - start
    for low, high, rights, name in regions:
        if not any(start <= low < end for start, end, path in modules):
            yield low, high, rights, name, 0


def _mappings(process, target):
    regions = list(_regions(process))
    for start, end, rights, path, offset in sorted(_with_modules(regions, list(_modules(target)))):
        start, end, offset = (format(value, "x") for value in (start, end, offset))
        yield served.mapping_fact(start, end, rights, offset, path)


def _is_traced(process):
    """Whether a process of this machine with its number is debugged: by gdb-remote, it can be another's."""
    try:
        with open("/proc/{}/status".format(process.GetProcessID())) as status:
            return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in status)
    except OSError:
        return False


def _is_here(process):
    """Whether it is a process of this machine."""
    is_of_host = process.GetTarget().GetPlatform().GetName() == "host"
    return is_of_host and process.GetPluginName() != "elf-core" and _is_traced(process)


def _root(process):
    """What is before the paths of its files: it may see other ones than lldb."""
    own = "/proc/{}/root".format(process.GetProcessID())
    return own if _is_here(process) and os.path.exists(own) else ""


def _facts(process):
    """All threads, also those that are not shown: stacks of several can lie in one mapping."""
    target, here = process.GetTarget(), process.GetProcessID() if _is_here(process) else None
    if _root(process):
        yield from served.mapping_facts(process.GetProcessID())
    else:
        yield from _mappings(process, target)
    for thread in _wanted(process, True):
        registers = _registers(thread, _machine(target)[1])
        yield served.thread_fact(here, thread.GetThreadID(), thread.GetName(), registers)


# ---- Names ---------------------------------------------------------------------------------------


def _file_of(line):
    return str(line.GetFileSpec()) if line.IsValid() else None


def _row(name, line):
    name = None if name and name.startswith("___lldb_unnamed_symbol") else name
    return name, _file_of(line), line.GetLine()


def _stack(thread):
    """The frames of THREAD, as served.Names wants them."""
    for frame in thread:
        name = frame.GetFunctionName()
        yield frame.GetPC(), _row(name, frame.GetLineEntry()), frame.IsInlined(), name == "__restore_rt"


def _inspect(process, stacks, *wanted):
    _wanted(process, False)  # or say why not
    target = process.GetTarget()

    def read(address, size):
        error = lldb.SBError()
        data = target.ReadMemory(lldb.SBAddress(address, target), size, error)
        return data if error.Success() else None

    def by_symbols(address):
        place = target.ResolveLoadAddress(address)
        return [_row(place.GetFunction().GetName() or place.GetSymbol().GetName(), place.GetLineEntry())]

    options = ["--pid", process.GetProcessID(), "--exe", target.GetExecutable(), "--root", _root(process)]
    options += ["--machine", _machine(target)[0]]
    return served.inspect(_facts(process), read, served.Names(stacks, by_symbols), *options, *wanted)


# ---- The command ---------------------------------------------------------------------------------


def files(process):
    """The files of scripts, as far as those of the process are here."""
    if _is_here(process):
        return files_of(process.GetProcessID())
    core = str(process.GetCoreFile()) if hasattr(process, "GetCoreFile") else ""  # since lldb 17
    return Files(written_at(core))


def backtrace(words, process):
    """The text of `stacksplice bt`."""

    def stacks(all_threads, with_locals):
        threads = _wanted(process, all_threads)
        wanted = served.stack_options(all_threads, threads[0].GetThreadID(), with_locals)
        document = _inspect(process, map(_stack, threads), *wanted)
        if not _is_here(process) and not process.GetMemoryRegions().GetSize():
            document["notes"].append(NO_REGIONS)
        return document

    return served.backtrace(words, stacks, partial(files, process))


def errors(words, process):
    """The text of `stacksplice errors`."""
    served.options_of(words, ())
    return served.errors_of(_inspect(process, (), "--errors"))


def frame(words, process):
    """The text of `stacksplice frame`."""
    if not words:
        raise served.Refused("an element of a stack is missing: stacksplice frame TOKEN")
    _wanted(process, False)
    element = " ".join(words)
    value = process.GetTarget().EvaluateExpression(element)
    if value.GetError().Fail():
        raise served.Refused("{!r} has no value: give a number, or an expression".format(element))
    token = value.GetValueAsSigned() & (1 << 64) - 1
    return served.frames_of(_inspect(process, (), "--token", token))


class Command:
    """The command `stacksplice`."""

    commands = {"bt": backtrace, "errors": errors, "frame": frame}

    def __init__(self, debugger, session):
        pass

    def __call__(self, debugger, argument, context, result):
        words = shlex.split(argument)
        run = self.commands.get(words[0] if words else "")
        try:
            if run is None:
                raise served.Refused("a command is missing, one of: " + ", ".join(self.commands))
            result.AppendMessage(run(words[1:], context.process).rstrip("\n"))
        except served.Refused as exc:
            result.SetError("stacksplice: " + plain(str(exc)))

    def get_short_help(self):
        """In the list of commands."""
        return HELP.partition("\n")[0]

    def get_long_help(self):
        """Of `help stacksplice`."""
        return HELP


def __lldb_init_module(debugger, session):
    debugger.HandleCommand("command script add -c {}.Command stacksplice".format(__name__))
