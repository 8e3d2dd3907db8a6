"""The source package and the wheels: built, repaired, read by the index's checkers, and tried."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from common import LIMIT, MUSL, NATIVE, Failed, Release, files_below, outside, pack, zig

# Those that need nothing but the installed package and a compiler, in every part of it.
TESTS = (
    "wheel",
    "frames_captures",
    "errors",
    "causes",
    "groups",
    "async",
    "raise",
    "lupa_errors",
    "free_threaded",
)
# What a program of the README's example must show of the Lua between its Python.
SHOWN = '(Lua) File "pricing.lua", line 2, in convert'
LARGEST = 1_500_000
# What checks types, and what those of the package's parts for others come from.
TYPED = ("mypy", "pyright", "jinja2", "pygments", "pytest", "sentry-sdk", "opentelemetry-sdk")
TYPED_SHARE = 95


def tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def make_source(release: Release, python: str, tag: str) -> None:
    """With manual pages and completions, which are made from what is built here, where wheels are built
    again: that compiles once, as all files have the commit's time."""
    tree = source_tree(release)
    shutil.copytree(release.tree, tree)
    builder, environment = prepare_build(release, python, tag)
    release.run(f"compile-{tag}", builder, "setup.py", "-q", "build_ext", cwd=tree, env=environment)
    made = release.work / "build" / NATIVE / "cmake" / "python"
    maker = tree / "scripts" / "release" / "pages.py"
    release.run("pages", builder, maker, tree / "pages", made, env=outside())
    code = f"import pip_backend; pip_backend.build_sdist({str(release.out)!r})"
    environment = {**outside(), "PYTHONPATH": str(tree / "scripts")}
    release.run("source", sys.executable, "-c", code, cwd=tree, env=environment)
    settle(release.archive, release.epoch)
    shutil.rmtree(tree)
    size = release.archive.stat().st_size
    if size >= LARGEST:
        raise Failed(f"{release.archive.name} has {size} bytes, {LARGEST} are too many")


def settle(archive: Path, epoch: int) -> None:
    """Write a source package anew: by name, without owners, with the commit's time everywhere."""
    import gzip
    import io

    with tarfile.open(archive) as old:
        members = [(member, old.extractfile(member)) for member in old.getmembers()]
        text = io.BytesIO()
        with tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member, file in sorted(members, key=lambda pair: pair[0].name):
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mtime = epoch
                member.pax_headers = {}
                member.mode = 0o755 if member.mode & 0o100 else 0o644
                new.addfile(member, file)
    archive.write_bytes(gzip.compress(text.getvalue(), 9, mtime=epoch))


def source_tree(release: Release) -> Path:
    return release.folder("source") / f"stacksplice-{release.version}"


def unpack_source(release: Release) -> Path:
    """The source package, unpacked: all that follows is built from it."""
    tree = source_tree(release)
    if not tree.exists():
        with tarfile.open(release.archive) as archive:
            archive.extractall(tree.parent)  # our own, of files alone
    return tree


def fresh(release: Release, name: str, python: str) -> Path:
    """The Python of a new environment."""
    folder = release.work / "environments" / name
    release.run(f"environment-{name}", python, "-m", "venv", "--clear", folder, env=outside())
    return folder / "bin" / "python"


def install(release: Release, python: Path, *what: str | Path) -> None:
    name = f"install-{python.parent.parent.name}"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    release.run(name, *pip, *what, env=outside())


def prepare_build(
    release: Release, python: str, tag: str, platform: str = NATIVE
) -> tuple[Path, dict[str, str]]:
    """A Python with what builds, in the versions that are here, and the environment to do it in.  What does
    not depend on the interpreter is compiled once for each PLATFORM."""
    import importlib.metadata

    builder = fresh(release, f"build-{tag}", python)
    tools = ("setuptools", "argparse-manpage", "shtab")
    install(release, builder, *(f"{name}=={importlib.metadata.version(name)}" for name in tools))
    settings = release.work / f"build-{platform}.cfg"
    place = release.work / "build" / platform
    settings.write_text(f"[build_ext]\nbuild_temp = {place}\n", encoding="utf-8")
    toolchain = source_tree(release) / "cmake" / "toolchains" / "zig.cmake"
    return builder, {
        **zig(platform),
        "CMAKE_TOOLCHAIN_FILE": str(toolchain),
        "DIST_EXTRA_CONFIG": str(settings),
    }


def name_musl(release: Release, wheel: Path) -> None:
    """zig's linker writes libc.so, musl's name for itself.  Alpine's is the one that auditwheel knows, and
    which leads to no other file.  It writes the sums of the files, too."""
    tree = wheel.with_suffix(".tree")
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            file = Path(archive.extract(info, tree))
            file.chmod(info.external_attr >> 16 & 0o777)
            if file.read_bytes()[:4] == b"\x7fELF":
                rename = [tool("patchelf"), "--replace-needed", "libc.so", "libc.musl-x86_64.so.1"]
                release.run("name-musl", *rename, file)
    pack(wheel, {str(file.relative_to(tree)): file for file in files_below(tree)}, release.epoch)


def make_wheel(
    release: Release,
    python: str,
    tag: str,
    platform: str = NATIVE,
    crossing: dict[str, str] | None = None,
) -> Path:
    """For the interpreter PYTHON, whose wheels have TAG.  For another PLATFORM, CROSSING is the environment
    in which PYTHON answers as the one there."""
    tree = unpack_source(release)
    builder, environment = prepare_build(release, python, tag, platform)
    name = f"{tag}-{platform}"
    made = release.work / "wheels" / name
    shutil.rmtree(made, ignore_errors=True)
    pip = [builder, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
    here = {**environment, **(crossing or {})}
    release.run(f"build-{name}", *pip, "--no-build-isolation", "-w", made, tree, env=here)
    (wheel,) = made.glob("*.whl")
    if platform == MUSL:
        name_musl(release, wheel)
    repaired = made / "repaired"
    # It knows the platforms of its own system by name; those of others it finds itself.
    known = "auto" if crossing else platform
    repair = [tool("auditwheel"), "repair", "--plat", known]
    release.run(f"repair-{name}", *repair, "-w", repaired, wheel, env=environment)
    (file,) = repaired.glob("*.whl")
    final = release.out / file.name
    shutil.copyfile(file, final)
    shown = release.run(f"show-{name}", tool("auditwheel"), "show", final, env=environment)
    consistent = " ".join(shown.split()).partition('consistent with the following platform tag: "')[2]
    release.note(
        final, f"built from the source package, {consistent.partition(chr(34))[0] or 'its tag is its own'}"
    )
    return final


def try_wheel(release: Release, wheel: Path, python: str, tag: str) -> None:
    """As its user: in a fresh environment with lupa README's first example, then the package's tests."""
    there = fresh(release, f"try-{tag}", python)
    install(release, there, wheel, "pytest>=7")
    check_pages(release, wheel, there.parent.parent / "share")
    release.note(wheel, f"installed, {try_example(release, wheel, there, tag)}")
    # Where test_wheel.py looks for it.
    folder = there.parent.parent / "wheel"
    folder.mkdir()
    shutil.copy(wheel, folder)
    files = [file for name in TESTS for file in release.tree.glob(f"tests/python/*/test_{name}.py")]
    # Not -q, and the stacks of a test of five minutes: the log of a run that hangs says where.
    options = ["-m", "not long", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=300"]
    options.append(f"--basetemp={release.folder('pytest')}/{tag}")
    # lupa's modules would switch it on.
    environment = {**outside(), "PYTHON_GIL": "0"} if tag.endswith("t") else outside()
    tests = release.run(
        f"tests-{tag}", there, "-m", "pytest", *options, *files, cwd=release.tree, env=environment
    )
    release.note(wheel, f"tests: {tests.splitlines()[-1].strip('= ')}")


def check_pages(release: Release, wheel: Path, share: Path) -> None:
    """Those of the command, which the source package brings: stacksplice-inspect is no command there."""
    pages = unpack_source(release) / "pages"
    files = [file.relative_to(pages) for file in files_below(pages) if "-inspect" not in file.name]
    missing = [str(file) for file in files if not (share / file).exists()]
    if missing or len(files) < 4:
        raise Failed(f"{wheel.name} has only {len(files)} pages, or installs none of {missing}")


def try_example(release: Release, wheel: Path, there: Path, tag: str) -> str:
    """README's first; not each new Python has a lupa yet."""
    try:
        install(release, there, "--only-binary", ":all:", "lupa")
    except Failed:
        return "but there is no lupa for this Python, which README's example needs"
    return run_example(release, wheel, there, tag)


def run_example(release: Release, wheel: Path, there: Path, tag: str) -> str:
    example = release.tree / "examples" / "python"
    text = release.run(f"example-{tag}", there, "shop.py", status=1, cwd=example, env=outside())
    if SHOWN not in text:
        raise Failed(f"{wheel.name}: the example shows no Lua:\n{text}")
    return "README's example ran with lupa"


def download_lupa(release: Release, version: str, machine: str, folder: Path) -> bool:
    """Into FOLDER, for the Python of another system; not each new Python has a lupa yet."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    there = ["--platform", f"manylinux_2_28_{machine}", "--platform", f"manylinux2014_{machine}"]
    try:
        release.run(f"lupa-{version}", *pip, *there, "--python-version", version, "-d", folder, "lupa")
    except Failed:
        return False
    return True


def check_types(release: Release, wheel: Path, python: str, tag: str) -> None:
    """That the stubs are those of the extension, and how much of what is public has a type."""
    there = fresh(release, f"types-{tag}", python)
    install(release, there, wheel, *TYPED)
    rules = release.tree / "scripts" / "release"
    options = [f"--mypy-config-file={rules / 'stubtest.ini'}", f"--allowlist={rules / 'stubtest.allowed'}"]
    # pyright asks the python in PATH where packages are.
    path = {"PATH": f"{there.parent}:{outside()['PATH']}"}
    place = {"cwd": release.folder("types"), "env": {**outside(), **path}}
    stubs = [there, "-m", "mypy.stubtest", "--ignore-unused-allowlist", *options, "stacksplice"]
    release.run(f"stubtest-{tag}", *stubs, **place)
    verify = [there, "-m", "pyright", "--ignoreexternal", "--outputjson"]
    # Its status counts each missing type, so the share is asked for instead.
    verify += ["--verifytypes", "stacksplice"]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=LIMIT, **place)
    share = 100 * json.loads(done.stdout)["typeCompleteness"]["completenessScore"]
    if share < TYPED_SHARE:
        raise Failed(f"pyright knows the types of {share:.1f} % of what is public, not {TYPED_SHARE} %")
    release.note(wheel, f"mypy.stubtest finds nothing, pyright --verifytypes: {share:.1f} %")


def check_index(release: Release, files: list[Path]) -> None:
    """What the checkers of a package index say."""
    release.run("twine", tool("twine"), "check", "--strict", *files)
    wheels = [file for file in files if file.suffix == ".whl"]
    # W002: __init__.py files that are empty.  W004: what debuggers load by its place.
    ignored = ["--ignore", "W002,W004"]
    if wheels:
        release.run("wheel-contents", tool("check-wheel-contents"), *ignored, *wheels)
    for file in files:
        release.note(file, "twine check --strict" + (", check-wheel-contents" if file in wheels else ""))
    rating = (
        release.run("pyroma", tool("pyroma"), "--min=8", release.archive)
        .split("Final rating: ")[1]
        .split()[0]
    )
    release.note(release.archive, f"pyroma {rating}")


def pythons_by_tag(pythons: list[str], asked: list[str], release: Release) -> dict[str, str]:
    """One interpreter for each version, by the tag of its wheels; ASKED versions or all."""
    found: dict[str, str] = {}
    code = (
        "import sys, sysconfig; "
        "print('%d.%d' % sys.version_info[:2] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    )
    for python in pythons:
        version = release.run("python", python, "-c", code, env=outside()).strip()
        if not asked or version in asked:
            found.setdefault(f"cp{version.replace('.', '')}", python)
    missing = {f"cp{version.replace('.', '')}" for version in asked} - set(found)
    if missing:
        raise Failed(f"no interpreter for {' '.join(sorted(missing))}: STACKSPLICE_PYTHONS can name one")
    return dict(sorted(found.items()))
