# "dev check".
# shellcheck shell=sh disable=SC2154 # variables of dev

# check TOOL COMMAND...: runs when TOOL is there, and says when it is not.
check() {
    tool=$1
    shift
    if ! command -v "$tool" >/dev/null; then
        say "check: $tool is not installed, left out"
    elif ! quietly "check-$tool" "$@"; then
        failed_parts="$failed_parts $tool"
    else
        say "check: $tool found nothing"
    fi
}

sources() { # PATTERN
    find core bindings tests -type f -name "$1" -print0
}

command_check() {
    prepare test
    build dev || failed_parts=" build"
    prepare_venv || failed_parts="$failed_parts venv"
    PATH=$venv/bin:$PATH
    quietly layers "$python" tests/check_layers.py || failed_parts="$failed_parts layers"
    check shellcheck shellcheck -x dev .ci/run
    { sources '*.[ch]'; sources '*.[ch]pp'; } >"$logs/sources"
    check clang-format xargs -0 -a "$logs/sources" clang-format --dry-run --Werror
    check run-clang-tidy run-clang-tidy -quiet -p build/dev -j "$jobs" "$root/core/src"
    check luacheck luacheck bindings tests
    check ruff ruff check bindings tests
    check ruff ruff format --check bindings tests
    check mypy mypy --strict bindings/python/stacksplice
    [ -z "$failed_parts" ] || { say "failed:$failed_parts"; exit 1; }
}
