# The Python to build for and the system packages.  For dev, which says "prepare".
# shellcheck shell=sh disable=SC2154 # variables of dev

# ---- The chosen Python ---------------------------------------------------------------------------

# ask_python PATH [free-threaded]: what that interpreter, which has a lock or none, says about itself, into
# py_path, py_version, py_minor, py_headers, py_venv.
# A pyXX-config or a shim in PATH may belong to another Python, so nothing else is asked.
ask_python() {
    py_answer=$("$1" -c '
import importlib.util, os, sys, sysconfig
base = getattr(sys, "_base_executable", None) or sys.executable
print(sys.version.split()[0], sys.version_info[1],
      sys.version_info[0] == 3 and sys.implementation.name == "cpython"
      and bool(sysconfig.get_config_var("Py_GIL_DISABLED")) == (len(sys.argv) > 1),
      os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
      importlib.util.find_spec("ensurepip") is not None, os.path.realpath(base))' ${2:+"$2"} \
        2>/dev/null </dev/null) || return 1
    # The path comes last: it may hold spaces.
    read -r py_version py_minor py_usual py_headers py_venv py_path <<END
$py_answer
END
    [ "$py_usual" = True ] && [ "$py_minor" -ge 11 ]
}

# One path per line.
pythons_in_path() {
    printf '%s:\n' "$PATH" | tr ':' '\n' | while IFS= read -r folder; do
        if [ -x "$folder/python3" ]; then printf '%s\n' "$folder/python3"; fi
    done
}

choose_python() {
    asked=${python_option:-${PYTHON:-}}
    if [ -n "$asked" ]; then
        ask_python "$asked" || stop "$asked is not a CPython 3.11 or newer (with a GIL)"
        return 0
    fi
    while IFS= read -r candidate; do
        if ask_python "$candidate" && [ "$py_headers" = True ]; then return 0; fi
    done <<END
$(pythons_in_path)
END
    for candidate in /usr/bin/python3 /usr/bin/python3.1[1-9]; do
        if [ -x "$candidate" ] && ask_python "$candidate"; then return 0; fi
    done
    py_path="" py_version=none py_headers=False py_venv=False
}

# ---- System packages -----------------------------------------------------------------------------

# need PACKAGE COMMAND...: PACKAGE is missing when COMMAND fails.
need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has_header() {
    printf '#include <%s>\n' "$1" | cc -E -o /dev/null -x c -
}

has_library() {
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q "$1"
}

need_python() {
    case $py_path in
    "") # None is new enough.  An older python3 stays as it is: a newer one is put beside it.
        newer=python3
        [ ! -x /usr/bin/python3 ] || newer=python3.11
        missing="$missing $newer $newer-dev $newer-venv"
        ;;
    /usr/bin/python3*)
        need "${py_path#/usr/bin/}-dev" [ "$py_headers" = True ]
        need "${py_path#/usr/bin/}-venv" [ "$py_venv" = True ]
        ;;
    *)
        [ "$py_headers" = True ] || stop "$py_path has no Python.h; choose another with --python"
        [ "$py_venv" = True ] || stop "$py_path has no ensurepip; choose another with --python"
        ;;
    esac
}

# The peers that it compares with, and what counts instructions.
need_for_bench() {
    need valgrind has_header valgrind/callgrind.h
    need libunwind-dev has_header libunwind.h
    need libboost-stacktrace-dev sh -c 'echo "#include <boost/stacktrace.hpp>" | c++ -E -x c++ -'
    need gdb command -v gdb
}

# Only what the parts use that were asked for.
need_for_tests() {
    if wants ctest valgrind pytest pythons busted property suites luas all-luas clang asan tsan none iterate long; then
        need libcmocka-dev has_header cmocka.h
        need lua5.4 command -v lua5.4
        need libfmt-dev sh -c 'echo "#include <fmt/core.h>" | c++ -E -x c++ -'
        need libpcsclite-dev pkg-config --exists libpcsclite
        need unixodbc-dev has_header sql.h
        need valgrind has_header valgrind/callgrind.h
    fi
    if wants pytest pythons long; then
        need gdb command -v gdb
        need gdbserver command -v gdbserver
        need gdb-multiarch command -v gdb-multiarch
        need lldb command -v lldb
        need python3-lldb sh -c 'ls -d /usr/lib/llvm-*/lib/python3*/*-packages/lldb'
    fi
    if wants luas all-luas; then
        need lua5.3 command -v lua5.3
        need liblua5.3-dev has_header lua5.3/lua.h
        need libluajit-5.1-dev has_header luajit-2.1/lua.h
    fi
    if wants pytest pythons long luas all-luas; then
        for lua in lua5.1 lua5.2 luajit; do
            need $lua command -v $lua
        done
    fi
    if wants pytest pythons long; then
        need lua-socket [ -e /usr/share/lua/5.4/socket.lua ]
        need lua-copas [ -e /usr/share/lua/5.2/copas.lua ]
    fi
    if wants busted valgrind long; then need lua-busted command -v busted; fi
    if wants clang luas all-luas fuzz; then need clang command -v clang; fi
    if wants fuzz; then
        need libclang-rt-dev sh -c 'echo "int main(void) { return 0; }" |
            clang -fsanitize=fuzzer-no-link,address -x c -o /dev/null -'
        need libcmocka-dev has_header cmocka.h
    fi
    if wants aarch64; then
        need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
        need g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
        need qemu-user command -v qemu-aarch64
    fi
    if wants musl; then need musl-tools command -v musl-gcc; fi
    if wants musl-python; then need_for_musl_python; fi
}

# What tests/musl_python.py compiles with.
need_for_musl_python() {
    need autoconf command -v autoreconf
    need automake command -v automake
    need libtool command -v libtoolize
    need libltdl-dev [ -e /usr/share/aclocal/ltdl.m4 ]
}

# The checkers that are no Python packages.
need_for_quick_check() {
    need shellcheck command -v shellcheck
    need clang-format command -v clang-format
    need lua-check command -v luacheck
}

need_for_check() {
    parts=ctest need_for_tests
    need_for_quick_check
    need libdw-dev has_header elfutils/libdwfl.h # which ours are compared with
    need clang-tidy command -v run-clang-tidy
    need doxygen command -v doxygen
}

# What rocks are made with, and the fresh systems in which packages are built and tried.
need_for_release() {
    need luarocks command -v luarocks
    case "$release_parts " in *" musl "*)
        need_for_musl_python
        need musl [ -e /lib/ld-musl-x86_64.so.1 ] # the loader of what is compiled for it
        ;;
    esac
    need mmdebstrap command -v mmdebstrap
    need lintian command -v lintian
    need qemu-user command -v qemu-aarch64
    need dpkg-dev command -v dpkg-scanpackages
    need liblua5.1-0-dev has_header lua5.1/lua.h
    for lua in 5.2 5.3 5.4; do
        need "liblua$lua-dev" has_header "lua$lua/lua.h"
    done
    for lua in 5.1 5.2 5.3 5.4; do
        need "lua$lua" command -v "lua$lua"
    done
    need luajit command -v luajit
    need libluajit-5.1-dev has_header luajit-2.1/lua.h
}

# What looks at HTML pages.  Not every system has it as a package: without it those tests skip, and say so.
offer_browser() {
    wants pytest pythons long || return 0
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && return 0
    missing=" chromium chromium-driver"
    (install_missing) || say "there is no chromium, so the tests of HTML pages in a browser are skipped"
}

find_missing() {
    missing=""
    need build-essential sh -c 'command -v cc && command -v c++ && command -v make'
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libdw1 has_library libdw.so.1
    need liblua5.4-dev has_header lua5.4/lua.h
    need_python
    case $1 in
    bench) need_for_bench ;;
    test) need_for_tests ;;
    quick-check) need_for_quick_check ;;
    check) need_for_check ;;
    docs) need doxygen command -v doxygen ;;
    release) need_for_release ;;
    esac
}

# as_root COMMAND...: with the rights to install, or not at all; never asks for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

install_missing() {
    command -v apt-get >/dev/null ||
        stop "needed, and this machine has no apt-get to install them (Debian's names):$missing"
    # The package lists may be absent or old: then, and only then, they are fetched.
    # shellcheck disable=SC2086 # a list of words
    install="env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends$missing"
    root_shell="sudo sh"
    command -v sudo >/dev/null || root_shell="su root" # a fresh Debian has no sudo
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null ||
        stop "packages are missing and there are no rights to install them; run this, then again:
  $root_shell -c 'apt-get update && apt-get install -y --no-install-recommends$missing'"
    step "installing$missing"
    # shellcheck disable=SC2086
    as_root $install >/dev/null 2>&1 </dev/null && return 0
    step "fetching the package lists"
    quietly apt-update as_root apt-get update || stop "apt-get update failed"
    # shellcheck disable=SC2086
    quietly apt-install as_root $install || stop "the packages could not be installed"
}

# prepare demo|test|bench|check|quick-check|docs: the Python is chosen and the system packages are there.
prepare() {
    # A second round: the python3 that the first one installed may be too old.
    for round in first second last; do
        choose_python
        find_missing "$1"
        [ -n "$missing" ] || break
        [ "$round" != last ] || stop "still missing after the installation:$missing"
        install_missing
    done
    [ -n "$py_path" ] || stop "no CPython 3.11 or newer was found; name one with --python"
    [ "$1" != test ] || offer_browser
    python=$py_path
    step "Python $py_version, $python"
}
