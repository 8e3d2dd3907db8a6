#!/bin/sh
# pkg_config.sh PREFIX WORK_DIR COMPILER LIBDIR: build two programs with pkg-config alone.
set -eu
prefix=$1
work=$2/pkg_config
compiler=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
export PKG_CONFIG_PATH="$prefix/$4/pkgconfig"
export LD_LIBRARY_PATH="$prefix/$4"
mkdir -p "$work"

# eval: pkg-config escapes the space in the path of the prefix.
build() { # PACKAGE SOURCE PROGRAM
    flags=$(pkg-config --cflags --libs "$1")
    eval "'$compiler' -std=c11 -Wall -Wextra -Werror '$2' -o '$3' $flags -ldl"
}

case $(pkg-config --cflags stacksplice) in
*include/stacksplice*) echo "FAILED: include/stacksplice is an include directory" && exit 1 ;;
esac

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
