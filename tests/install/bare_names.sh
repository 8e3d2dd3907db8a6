#!/bin/sh
# bare_names.sh LIBDIR WORK_DIR COMPILER: a program that knows libstacksplice-winrt only, in a folder
# where the loader does not look, starts: that library finds the core beside it.
set -eu
libraries=$1
work=$2/bare_names
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
unset LD_LIBRARY_PATH
mkdir -p "$work"

"$3" -std=c11 -Wall -Wextra -Werror "$here/bare_names/main.c" -o "$work/program" \
    -L "$libraries" "-Wl,-rpath,$libraries" -lstacksplice-winrt
readelf -d "$work/program" | grep -q 'NEEDED.*libstacksplice\.so' &&
    echo "FAILED: the program needs the core itself, so it shows nothing"
"$work/program"
