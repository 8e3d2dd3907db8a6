# The parts of "dev test".
# shellcheck shell=sh disable=SC2154 # variables of dev

# tally PART STATUS REPORT [details]: prints "PART: N passed, N failed" from the runner's own report.
tally() {
    line=0
    "$python" tests/tally.py "$@" >"$logs/tally" || line=$?
    cat "$logs/tally"
    [ "$line" = 0 ] || failed_parts="$failed_parts $1"
    tail -n 1 "$logs/tally" >>"$tallies"
}

# leave_out PART REASON: said at once, and again at the end.
leave_out() {
    say "$1: skipped: $2" | tee -a "$tallies"
}

run_ctest() { # PART BUILD-PRESET [TEST-PRESET]
    report=$root/build/reports/$1.xml
    rm -f "$report"
    status=0
    build "$2" || status=$?
    if [ "$status" = 0 ]; then
        step "ctest, preset ${3:-$2}"
        ctest --preset "${3:-$2}" -j "$jobs" --output-junit "$report" </dev/null || status=$?
    fi
    tally "$1" "$status" "$report"
}

# Every Python to test, one path per line.
pythons_to_test() {
    if [ -n "${STACKSPLICE_PYTHONS:-}" ]; then
        printf '%s\n' "$STACKSPLICE_PYTHONS" | tr ':' '\n'
        return 0
    fi
    printf '%s\n' "$python"
    for candidate in /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "$root"/build/interpreters/python3.*/usr/bin/python3.[0-9][0-9]; do
        if [ -x "$candidate" ]; then printf '%s\n' "$candidate"; fi
    done
}

# run_target PART MACHINE: the build PART for another machine or C library, if what its tests need
# can be had.
run_target() {
    if STACKSPLICE_TARGET_ROOT=$("$python" tests/target_root.py "$2" "build/targets/$2" </dev/null); then
        export STACKSPLICE_TARGET_ROOT
        run_ctest "$1" "$1"
    else
        leave_out "$1" "$STACKSPLICE_TARGET_ROOT"
    fi
}

# run_pytest PART ARGUMENT...: pytest with the Python asked last.
run_pytest() {
    part=$1
    report=$root/build/reports/$part-$(python_tag).xml
    shift
    rm -f "$report"
    status=0
    prepare_venv || status=$?
    if [ "$status" = 0 ]; then
        step "$part: pytest, Python $py_version, $py_path"
        "$venv/bin/python" -m pytest -q --junitxml="$report" "$@" </dev/null || status=$?
    fi
    tally "$part" "$status" "$report"
}

# run_with_build PART ARGUMENT...: what needs build/dev, too, with the chosen Python.
run_with_build() {
    ask_python "$python"
    if build dev; then
        run_pytest "$@"
    else
        tally "$1" 1 none
    fi
}

run_pytests() {
    build dev || { tally pytest 1 none; return; } # whose Lua module tests/programs load
    tested="|"
    while IFS= read -r candidate; do
        ask_python "$candidate" || continue
        case $tested in *"|$py_path|"*) continue ;; esac
        tested="$tested$py_path|"
        if [ "$py_headers$py_venv" = TrueTrue ]; then
            run_pytest "pytest-$py_version" tests/python tests/proof tests/programs tests/bridges
            run_pytest "matrix-$py_version" tests/matrix
        else
            leave_out "pytest-$py_version" "$py_path has no Python.h or no ensurepip"
        fi
    done <<END
$(pythons_to_test)
END
    [ "$tested" != "|" ] || tally pytest 1 none
}

# Builds of this machine in which something is missing.
run_variants() {
    run_ctest none none
    run_ctest iterate iterate
    ask_python "$python"
    export PYTHONPATH="$root/build/iterate/python"
    run_pytest pytest-iterate tests/python/test_frames.py
    unset PYTHONPATH
}

run_busted() {
    # Relative: busted splits an argument with a space in two.
    report=build/reports/busted.xml
    rm -f "$report"
    status=0
    build dev || status=$?
    if [ "$status" = 0 ]; then
        step "busted, $(lua5.4 -v)"
        busted --lua="$(command -v lua5.4)" -o junit -Xoutput "$report" tests/lua </dev/null || status=$?
    fi
    tally busted "$status" "$report" details
}

# What the tests find the build by.
export_build() {
    export STACKSPLICE_BUILD_DIR="$root/build/$1"
    # The name with the version wins over the plain one, so both are set.
    LUA_CPATH="$STACKSPLICE_BUILD_DIR/lua/5.4/?.so;${LUA_CPATH_5_4-${LUA_CPATH-;;}}"
    export LUA_CPATH LUA_CPATH_5_4="$LUA_CPATH"
}

command_test() {
    prepare test
    mkdir -p build/reports "$logs"
    : >"$tallies"
    export_build dev
    step "newer interpreters, unpacked into build/interpreters"
    "$python" tests/interpreters.py </dev/null >"$logs/interpreters" ||
        say "newer interpreters: skipped: tests/interpreters.py failed" >>"$logs/interpreters"
    cat "$logs/interpreters"
    grep -E ': (skipped|not available): ' "$logs/interpreters" >>"$tallies" || true
    [ $# -gt 0 ] || set -- ctest clang sanitizers valgrind pytest property busted luas \
        variants aarch64 musl
    for part; do
        case $part in
        ctest) run_ctest ctest dev ;;
        clang) run_ctest clang clang ;;
        sanitizers)
            run_ctest sanitizers asan-ubsan
            run_ctest tsan tsan
            ;;
        valgrind) run_ctest valgrind dev valgrind ;;
        pytest) run_pytests ;;
        property) run_with_build property tests/property ;;
        busted) run_busted ;;
        luas) run_with_build luas --other-luas tests/lua tests/matrix ;;
        all-luas) run_with_build all-luas --all-luas --other-luas tests/lua tests/matrix ;;
        variants) run_variants ;;
        aarch64) run_target aarch64 arm64 ;;
        musl) run_target musl musl ;;
        *) stop "there is no part $part" ;;
        esac
    done
    step "all parts"
    cat "$tallies"
    [ -z "$failed_parts" ] || { say "failed:$failed_parts"; exit 1; }
    say "everything passed"
}
