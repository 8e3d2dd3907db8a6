"""setup.py says in one line what it needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from building import ROOT, ran

pytestmark = pytest.mark.any_python

pytest.importorskip("setuptools", "77", reason="there is no setuptools that builds this package")

BUILD = "import runpy, sys; sys.argv = ['setup.py', '-q', 'build_ext', '-b', {out!r}, '-t', {out!r}]\n"


def build(tmp_path: Path, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    source = before + BUILD.format(out=str(tmp_path)) + f"runpy.run_path({str(ROOT / 'setup.py')!r})"
    return ran(sys.executable, "-c", source, status=1, cwd=ROOT, **environment)


def test_without_cmake(tmp_path):
    done = build(tmp_path, PATH=str(tmp_path))
    assert done.stderr.count("\n") == 1, done.stderr
    assert "install cmake" in done.stderr


@pytest.mark.parametrize(
    "present, brought",
    [
        (["cmake", "make"], set()),
        (["cmake", "ninja"], set()),
        (["cmake"], {"ninja"}),
        (["make"], {"cmake"}),
        ([], {"cmake", "ninja"}),
    ],
)
def test_pip_brings_the_tools_that_the_machine_lacks(tmp_path, present, brought):
    for tool in present:
        (tmp_path / tool).touch(0o755)
    source = "import pip_backend as b; print(b.missing_tools(), b.get_requires_for_build_wheel())"
    done = ran(sys.executable, "-c", source, cwd=ROOT, PATH=tmp_path, PYTHONPATH=ROOT / "scripts")
    missing, required = done.stdout.splitlines()[-1].split("] [")
    assert {tool for tool in ("cmake", "ninja") if tool in required} == brought
    assert (missing == "[") == (not brought)


def test_a_failed_configuration_does_not_spoil_the_next(tmp_path):
    """Its cache would name a generator that the machine may have no more."""
    fails = '[ "$1" = -B ] && mkdir -p "$2" && touch "$2/CMakeCache.txt" "$2/../was_here" && exit 1; shift'
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text(f"#!/bin/sh\nwhile :; do {fails}; done\n")
    (tmp_path / "bin" / "cmake").chmod(0o755)
    done = build(tmp_path, PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    assert "cmake -S failed with status 1" in done.stderr, done.stderr
    assert (tmp_path / "was_here").exists() and not (tmp_path / "cmake" / "CMakeCache.txt").exists()


def test_without_python_h(tmp_path):
    (tmp_path / "cmake").touch(0o755)
    nowhere = "import sysconfig; sysconfig.get_path = lambda *_: '/nowhere'\n"
    done = build(tmp_path, nowhere, PATH=str(tmp_path))
    name = f"python{sysconfig.get_python_version()}-dev"
    assert done.stderr.count("\n") == 1, done.stderr
    assert "/nowhere/Python.h was not found" in done.stderr and name in done.stderr


def test_a_build_that_fails_says_so_last(tmp_path):
    cmake = tmp_path / "cmake"
    cmake.write_text("#!/bin/sh\necho no compiler >&2\nexit 3\n")
    cmake.chmod(0o755)
    done = build(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.stderr.count("\n") == 2, done.stderr
    assert done.stderr.startswith("no compiler\ncmake -S failed with status 3")


def package_info(tmp_path: Path, **environment: str) -> str:
    egg_info = f"import runpy, sys; sys.argv = ['setup.py', '-q', 'egg_info', '-e', {str(tmp_path)!r}]\n"
    source = f"{egg_info}runpy.run_path({str(ROOT / 'setup.py')!r})"
    ran(sys.executable, "-c", source, cwd=ROOT, **environment)
    (info,) = tmp_path.glob("*.egg-info/PKG-INFO")
    return info.read_text(encoding="utf-8")


def test_links_lead_to_where_the_sources_are(tmp_path):
    text = package_info(tmp_path, STACKSPLICE_PROJECT_URL="https://example.org/stacksplice/")
    assert "\nProject-URL: Source, https://example.org/stacksplice\n" in text
    targets = re.findall(r"\]\(https://example.org/stacksplice/([^)\s]+)\)", text)
    assert targets and all((ROOT / target.partition("#")[0]).exists() for target in targets)


def test_the_readme_of_the_package_has_no_dead_link(tmp_path):
    """An index shows it without the files beside it."""
    text = package_info(tmp_path)
    assert "Description-Content-Type: text/markdown\n" in text and "\n# stacksplice\n" in text
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert not [target for target in targets if (ROOT / target).exists()]
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\((docs/[\w/-]+\.md)", page))
    assert named and all(target in text for target in named | {"docs/inside/benchmarks.svg"})


def is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def test_the_source_package_is_small_and_text(tmp_path):
    """Of a copy, since a build writes into its tree."""
    tree = tmp_path / "tree"
    for name in ("core", "crash", "bindings", "inspect", "cmake", "scripts", "docs", "tests/python"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, tree)
    source = f"import pip_backend; print(pip_backend.build_sdist({str(tmp_path)!r}))"
    done = ran(sys.executable, "-c", source, cwd=tree, PYTHONPATH=tree / "scripts")
    package = tmp_path / done.stdout.splitlines()[-1]
    with tarfile.open(package) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if not member.isdir()}
        assert all(files.values()), "it holds a link or a special file"
        binaries = {name.partition("/")[2] for name, file in files.items() if not is_text(file.read())}
    assert not binaries
    assert package.stat().st_size < 1_500_000


SETTLED = """
import sys, tarfile
from pathlib import Path
import common, wheels
for name, order, time in (("a", (0, 1), 1), ("b", (1, 0), 2)):
    files = [Path("one"), Path("two")]
    with tarfile.open(f"{name}.tar.gz", "w:gz") as archive:
        for index in order:
            member = archive.gettarinfo(files[index])
            member.mtime, member.uid, member.uname = time, time, name
            archive.addfile(member, files[index].open("rb"))
    wheels.settle(Path(f"{name}.tar.gz"), 1)
    common.pack(Path(f"{name}.zip"), {str(files[index]): files[index] for index in order}, 1e9)
"""


def test_what_is_released_is_made_of_contents_alone(tmp_path):
    """Neither the order nor the times and owners of files change what is packed."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name}\n")
    ran(sys.executable, "-c", SETTLED, cwd=tmp_path, PYTHONPATH=ROOT / "scripts" / "release")
    for kind in ("tar.gz", "zip"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert [(m.name, m.mtime, m.uid) for m in archive] == [("one", 1, 0), ("two", 1, 0)]


def test_a_release_is_made_of_a_commit_alone(tmp_path):
    for name in ("dev", "scripts"):
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copied(ROOT / name, tmp_path / name)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    ran(*git, "init", "-q", cwd=tmp_path)
    ran(*git, "commit", "-qm", "empty", "--allow-empty", cwd=tmp_path)
    done = ran("sh", tmp_path / "dev", "release", "wheel", status=2, cwd=tmp_path)
    assert "dev: a release is made of a commit" in done.stderr
    done = ran("sh", tmp_path / "dev", "release", "wheels", status=2, cwd=tmp_path)
    assert "not: wheels" in done.stderr and "release makes wheel," in done.stderr


@pytest.mark.long
def test_editable(tmp_path):
    """What `pip install -e .` puts in place is imported from the tree that it was given."""
    tree, prefix = tmp_path / "tree", tmp_path / "prefix"
    for name in ("core", "crash", "bindings", "inspect", "cmake", "scripts"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, tree)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    pip += ["--ignore-installed", "--prefix", str(prefix), "-e", str(tree)]
    ran(*pip, env={**os.environ, "CMAKE_BUILD_TYPE": "Debug"}, timeout=300)
    package = tree / "bindings" / "python" / "stacksplice"
    assert {f"libstacksplice-lua{version}.so.0" for version in (51, 52, 53, 54, 55, "jit")} <= set(
        os.listdir(package)
    )
    site = next(prefix.glob("l*/python*/site-packages"))
    source = f"import site; site.addsitedir({str(site)!r})\nimport stacksplice; print(stacksplice.__file__)"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = ran(sys.executable, "-S", "-c", source, cwd=tmp_path, env=alone)
    assert Path(done.stdout.strip()).parent == package, done.stderr


RECIPES = [file for file in sorted((ROOT / "packaging").rglob("*")) if file.is_file()]


def test_recipes_of_distributions_agree_with_the_build():
    """Their options are those of CMake, which would ignore others; their version is the header's."""
    lists = [ROOT / "CMakeLists.txt", *ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("bindings/*/CMakeLists.txt")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in lists)
    known = set(re.findall(r"(?:option|set|find_path)\((STACKSPLICE_\w+)", text))
    recipes = "\n".join(file.read_text(encoding="utf-8") for file in RECIPES)
    passed = set(re.findall(r"-D(STACKSPLICE_\w+)|cache_variables\[\"(STACKSPLICE_\w+)", recipes))
    assert {first or second for first, second in passed} <= known and len(passed) > 4
    header = (ROOT / "core/include/stacksplice/stacksplice.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define STACKSPLICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    port = json.loads((ROOT / "packaging/vcpkg/vcpkg.json").read_text(encoding="utf-8"))
    assert port["version"] == version
    symbols = (ROOT / "packaging/debian/libstacksplice0.symbols").read_text(encoding="utf-8")
    nodes = set(
        re.findall(r"^(STACKSPLICE_[\d.]+)", (ROOT / "core/stacksplice.map").read_text(), re.MULTILINE)
    )
    assert nodes == set(re.findall(r"\(symver\)(\S+)", symbols))


def test_each_debian_package_has_files_and_each_of_their_tests_is_a_script():
    folder = ROOT / "packaging/debian"
    packages = re.findall(r"^Package: (\S+)", (folder / "control").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(packages) == [file.stem for file in RECIPES if file.suffix == ".install"]
    tests = re.findall(r"^Tests: (\S+)", (folder / "tests/control").read_text(encoding="utf-8"), re.MULTILINE)
    assert {*tests, "control"} == {file.name for file in RECIPES if file.parent == folder / "tests"}
    for name in tests:
        ran("/bin/sh", "-n", str(folder / "tests" / name))
