"""What lldb knows of a process or core file, for stacksplice-inspect."""

import os

import lldb
import stacksplice_served as served
from stacksplice_files import Files, files_of, written_at

MACHINES = {"x86_64": served.X86_64, "aarch64": served.ARM_64, "arm64": served.ARM_64}
NO_REGIONS = "this target does not say what is mapped: frames of scripts may be missing"
NO_PROCESS = "no process and no core file here: begin with run, process attach, or target create --core FILE"


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
    target, is_here = process.GetTarget(), _is_here(process)
    if _root(process):
        yield from served.mapping_facts(process.GetProcessID())
    else:
        yield from _mappings(process, target)
    for thread in _wanted(process, True):
        registers = _registers(thread, _machine(target)[1])
        yield served.thread_fact(thread.GetThreadID(), thread.GetName(), registers)
        if is_here:
            yield served.own_fact(process.GetProcessID(), thread.GetThreadID())


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


def stacks(process, all_threads, with_locals):
    """The document with the stack of the selected thread, or of all."""
    threads = _wanted(process, all_threads)
    options = served.stack_options(all_threads, threads[0].GetThreadID(), with_locals)
    document = _inspect(process, map(_stack, threads), *options)
    if not _is_here(process) and not process.GetMemoryRegions().GetSize():
        document["notes"].append(NO_REGIONS)
    return document


def files(process):
    """The files of scripts, as far as those of the process are here."""
    if _is_here(process):
        return files_of(process.GetProcessID())
    core = str(process.GetCoreFile()) if hasattr(process, "GetCoreFile") else ""  # since lldb 17
    return Files(written_at(core))


def errors(process):
    """The document with the errors of all threads."""
    return _inspect(process, (), "--errors")


def frames(process, element):
    """What ELEMENT of a captured stack, an expression, stands for."""
    _wanted(process, False)
    value = process.GetTarget().EvaluateExpression(element)
    if value.GetError().Fail():
        raise served.Refused("{!r} has no value: give a number, or an expression".format(element))
    return _inspect(process, (), "--token", value.GetValueAsSigned() & (1 << 64) - 1)


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
