# "dev check".
# shellcheck shell=sh disable=SC2154 # variables of dev

# check NAME COMMAND...: a tool that is missing is a failure too.
check() {
    name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        say "check: $name: $1 is not installed"
        failed_parts="$failed_parts $name"
    elif ! quietly "check-$name" "$@"; then
        failed_parts="$failed_parts $name"
    else
        say "check: $name found nothing"
    fi
}

# What pip brings beside the test tools.
prepare_check_tools() {
    [ -x "$venv/bin/ruff" ] ||
        quietly check-tools "$venv/bin/python" -m pip install --disable-pip-version-check ruff
}

# What looks at sources and takes seconds: all of --quick, which needs no build.
check_style() {
    prepare_check_tools || failed_parts="$failed_parts tools"
    check layers "$python" tests/check_layers.py
    check gaps "$python" tests/check_gaps.py
    check walks "$python" tests/check_walks.py
    check surface "$python" tests/check_surface.py
    check formats "$python" tests/check_formats.py
    check shellcheck shellcheck -x dev .ci/run scripts/lane.sh scripts/release/distributions.sh scripts/release/doors.sh
    { sources '*.[ch]'; sources '*.[ch]pp'; } >"$logs/sources"
    check clang-format xargs -0 -a "$logs/sources" clang-format --dry-run --Werror
    check luacheck luacheck bindings examples/host tests bench docs
    check ruff "$venv/bin/ruff" check bindings examples/host inspect tests bench docs/reference scripts/release scripts/site packaging
    check ruff-format "$venv/bin/ruff" format --check bindings examples/host inspect tests bench docs/reference scripts/release scripts/site packaging
}

sources() { # PATTERN
    find core crash bindings inspect examples tests bench docs -type f -name "$1" -print0
}

command_check() {
    mkdir -p "$logs"
    case $*:$# in
    --quick:1)
        prepare quick-check
        make_venv "$(python_tag)" || failed_parts=" venv"
        check_style
        ;;
    :0)
        prepare check
        build dev || failed_parts=" build"
        prepare_venv || failed_parts="$failed_parts venv"
        check_style
        check clang-tidy run-clang-tidy -quiet -p build/dev -j "$jobs" "$root/core/src" "$root/crash" "$root/inspect/src" "$root/bindings/shared"
        check mypy "$venv/bin/mypy" --strict bindings/python/stacksplice
        prepare_docs_venv || failed_parts="$failed_parts docs-venv"
        check reference-c reference_c
        check manual whole_site build/dev
        ;;
    *) stop "check has one option, --quick; not: $*" ;;
    esac
    [ -z "$failed_parts" ] || { say "failed:$failed_parts"; exit 1; }
}
