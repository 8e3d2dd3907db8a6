#!/bin/sh
# runner.sh RUNNER: the installed stacksplice-lua finds its module and its Lua, and is Lua otherwise.
set -eu
runner=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LUA LUA_PATH LUA_CPATH
cd "$work"

fail() {
    echo "FAILED: $*"
    exit 1
}

# check STATUS TEXT WORD...: the runner ends with STATUS, and TEXT is in its output.
check() {
    wanted=$1 text=$2
    shift 2
    status=0
    "$@" >output 2>&1 </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "status $status, not $wanted: $* $(cat output)"
    grep -qF -- "$text" output || fail "no '$text' in: $* $(cat output)"
}

echo 'error({code = 2, item = ...})' >fields.lua
echo 'print(arg[0], ...) os.exit(7)' >status.lua
echo 'local co = coroutine.wrap(function() error("inside") end) co()' >coroutine.lua
check 1 ': {code = 2, item = "two words"}' "$runner" fields.lua "two words"
# Where native frames are not known, the report has gaps, and so its own form.
check 1 ' in main chunk' "$runner" fields.lua
check 7 'status.lua	one	two' "$runner" status.lua one two
check 1 'in function <coroutine.lua:1>' "$runner" coroutine.lua
check 0 'nothing else' "$runner" -e 'print("nothing else")'
ln -s "$runner" linked
check 1 'code = 2' ./linked fields.lua

mkdir empty
for tool in sh dirname readlink; do ln -s "$(command -v "$tool")" empty; done
check 127 'name it: LUA=' env PATH="$work/empty" "$runner" fields.lua
lua=$("$runner" -e 'local i = 0 while arg[i - 1] do i = i - 1 end print(arg[i])')
check 1 'code = 2' env PATH="$work/empty" LUA="$(command -v "$lua")" "$runner" fields.lua
echo ok
