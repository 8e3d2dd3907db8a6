#!/bin/sh
# pkg_config.sh PREFIX WORK_DIR C_COMPILER LIBDIR [C++_COMPILER]: build programs with pkg-config alone.
# LUA_INCLUDE: the folder of lua.h; PYTHON: an interpreter.  Without them those files are left out.
set -eu
prefix=$1
work=$2/pkg_config
compiler=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
export PKG_CONFIG_PATH="$prefix/$4/pkgconfig"
# What is linked must start by itself.
unset LD_LIBRARY_PATH
mkdir -p "$work"

# eval: pkg-config escapes the space in the path of the prefix.
build() { # PACKAGE SOURCE PROGRAM
    flags=$(pkg-config --cflags --libs "$1")
    eval "'$compiler' -std=c11 -Wall -Wextra -Werror '$2' -o '$3' $flags -ldl"
}

case $(pkg-config --cflags stacksplice) in
*include/stacksplice*) echo "FAILED: include/stacksplice is an include directory" && exit 1 ;;
esac

[ "$(find "$PKG_CONFIG_PATH" -name '*.pc' | wc -l)" -gt 2 ] || echo "FAILED: components have no file"

build stacksplice-winrt "$here/winrt_c/main.c" "$work/winrt"
"$work/winrt"

cat >"$work/plain.c" <<'END'
#include <stacksplice/stacksplice.h>
#include <stdio.h>
int main(void)
{
    puts(stacksplice_version());
}
END
build stacksplice "$work/plain.c" "$work/plain"
[ "$("$work/plain")" = "$(pkg-config --modversion stacksplice)" ] || echo "FAILED: the version"

# A shared library of the host: the interpreters' own functions come with the program.
plugin() { # PACKAGE COMPILER SOURCE [OPTION...]
    package=$1
    library=$work/$1.so
    compiler=$2
    source=$3
    shift 3
    flags=$(pkg-config --cflags --libs "$package")
    eval "'$compiler' -Wall -Wextra -Werror -shared -fPIC \"\$@\" '$source' -o '$library' $flags"
    ldd -r "$library" 2>&1 | grep 'undefined symbol: stacksplice' && echo "FAILED: $package is not complete"
    return 0
}

if [ -n "${5:-}" ]; then
    printf '#include <stacksplice/stacksplice.hpp>\nHRESULT f(void (*g)()) { return stacksplice::guard(*g); }\n' \
        >"$work/plugin.cpp"
    plugin stacksplice-cpp "$5" "$work/plugin.cpp" -std=c++17
fi
if [ -n "${LUA_INCLUDE:-}" ]; then
    printf '#include <stacksplice/lua.h>\nint f(lua_State *L);\n%s\n' \
        'int f(lua_State *L) { return stacksplice_lua_raise(L, stacksplice_lua_pcall(L, 0, 0)); }' >"$work/lua.c"
    plugin stacksplice-lua "$3" "$work/lua.c" -I "$LUA_INCLUDE"
    readelf -d "$work/stacksplice-lua.so" | grep -q 'FLAGS_1.*NODELETE' || echo "FAILED: Lua's objects outlive it"
fi
if [ -n "${PYTHON:-}" ]; then
    printf '#include <stacksplice/python.h>\nPyObject *f(int hr);\nPyObject *f(int hr)\n%s\n' \
        '{ return stacksplice_python_raise(hr); }' >"$work/python.c"
    plugin stacksplice-python "$3" "$work/python.c" \
        -I "$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
fi
