"""Native modules that tests compile against the installed package, for the Python that runs them."""

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import stacksplice

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(stacksplice.__file__).resolve().parent


def compile_extension(folder, name, sources, *flags):
    """The path of the extension module NAME in FOLDER."""
    output = Path(folder) / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-std=gnu11",
        "-g",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        "-shared",
        "-fPIC",
        "-pthread",
        f"-I{ROOT / 'core' / 'include'}",
        f"-I{ROOT / 'tests' / 'support'}",
        f"-I{ROOT / 'bindings' / 'python' / 'include'}",
        f"-isystem{sysconfig.get_path('include')}",
        *map(str, sources),
        "-o",
        str(output),
        *flags,
        f"-L{PACKAGE}",
        "-l:libstacksplice.so.0",
        f"-Wl,-rpath,{PACKAGE}",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def load_extension(path):
    name = Path(path).name.split(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
