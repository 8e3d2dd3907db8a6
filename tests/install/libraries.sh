#!/bin/sh
# libraries.sh LIBDIR INCLUDEDIR: the libraries export what the headers declare, and nothing else;
# they are found by their bare names, and stay in memory for ever.
set -eu
libraries=$1
headers=$2/stacksplice
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# The names a library defines for others, without symbol versions and version nodes.
exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

# Functions and data that the C headers of ours declare with STACKSPLICE_API; the bindings' headers
# declare what is in the bindings.
declared_api() {
    find "$headers" -maxdepth 1 -name '*.h' ! -name lua.h ! -name python.h -exec cat {} + |
        awk '/^(extern )?STACKSPLICE_API/ { line = ""; open = 1 }
             open { line = line " " $0
                    if (line ~ /[([;]/) { open = 0; sub(/[([;].*/, "", line)
                        n = split(line, word, /[ *]+/); print word[n] == "" ? word[n - 1] : word[n] } }'
}

# The Windows names, without the prefix of their link names.
declared_windows() {
    sed -n 's/.*STACKSPLICE_WINRT_LINK(\([A-Za-z_]*\)).*/\1/p;
            s/^STACKSPLICE_WINRT_IID(\([A-Za-z_0-9]*\)).*/\1/p' "$headers"/winrt/*.h |
        grep -vx name
}

compare() { # LIBRARY: the exported names against those in $work/declared
    exported "$libraries/$1" >"$work/exported"
    sort -u "$work/declared" >"$work/wanted"
    if ! diff "$work/wanted" "$work/exported" >"$work/difference"; then
        fail "$1: < declared but not exported, > exported but not declared:"
        cat "$work/difference"
    fi
}

linked_well() { # LIBRARY SONAME [RUNPATH]
    readelf -d "$libraries/$1" >"$work/dynamic"
    grep -q "SONAME.*\[$2\]" "$work/dynamic" || fail "$1 has not the SONAME $2"
    grep -q 'FLAGS_1.*NODELETE' "$work/dynamic" || fail "$1 can be unmapped"
    path=$(sed -n 's/.*(R.*PATH).*\[\(.*\)\]$/\1/p' "$work/dynamic")
    [ "$path" = "${3:-}" ] || fail "$1 looks for libraries in: $path"
    ldd -r "$libraries/$1" 2>&1 | grep 'undefined symbol' && fail "$1 is not complete"
    grep 'NEEDED.*/' "$work/dynamic" && fail "$1 needs a library by its path"
    grep 'NEEDED.*liblua\|NEEDED.*libpython' "$work/dynamic" && fail "$1 needs an interpreter"
    return 0
}

linked_well libstacksplice.so libstacksplice.so.0
{
    declared_api
    declared_windows | sed 's/^/stacksplice_/'
} >"$work/declared"
compare libstacksplice.so

# shellcheck disable=SC2016 # the loader's word, not the shell's
linked_well libstacksplice-winrt.so libstacksplice-winrt.so.0 '$ORIGIN'
grep -q 'NEEDED.*\[libstacksplice.so.0\]' "$work/dynamic" ||
    fail "libstacksplice-winrt.so does not need libstacksplice.so.0"
declared_windows >"$work/declared"
compare libstacksplice-winrt.so

# One version node in each minor release, so that an older core is told from a newer one.
nm -D --defined-only "$libraries/libstacksplice.so" | grep -q 'stacksplice_version@@STACKSPLICE_' ||
    fail "the symbols have no version"

# A static library for Lua hosts shows the functions of its header, and shares what else it has.
if [ -e "$libraries/libstacksplice-lua.a" ]; then
    nm -A --defined-only "$libraries/libstacksplice-lua.a" | awk '$(NF-1) ~ /[A-Z]/ { print $NF }' |
        grep -v '^stacksplice_\|^luaopen_stacksplice\(_host\)\?$\|^ss_lua_\|^ss_value_' >"$work/strange" || true
    [ ! -s "$work/strange" ] || fail "libstacksplice-lua.a: $(cat "$work/strange")"
fi

# The Lua module shows the two functions that Lua calls.
module=$libraries/lua/5.4/stacksplice.so
if [ -e "$module" ]; then
    [ "$(exported "$module" | tr '\n' ' ' | tr -s ' ')" = "luaopen_stacksplice luaopen_stacksplice_host " ] || fail "$module exports $(exported "$module")"
    readelf -d "$module" | grep -q 'FLAGS_1.*NODELETE' || fail "$module can be unmapped"
fi

[ "$failed" = 0 ] && echo ok
exit "$failed"
