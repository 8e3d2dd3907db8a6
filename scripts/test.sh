# The parts of "dev test".
# shellcheck shell=sh disable=SC2154 # variables of dev

newline='
'
default_parts="ctest pytest busted"
# The longest first: two parts run side by side, and the last ones should be short.
other_parts="pythons valgrind asan tsan free-threaded musl-python luas long aarch64 none iterate clang property musl"
# Only in "all": it takes the sources of other projects from the package index.
far_parts="suites"

python_tests="tests/python tests/proof tests/programs tests/bridges tests/fuzz"

# check_parts PART...: names a wrong one before anything is installed or built.
check_parts() {
    for part; do
        case " all others all-luas $default_parts $other_parts $far_parts " in
        *" $part "*) ;;
        *) stop "there is no test part '$part'; the parts are: all, others, all-luas, $default_parts $other_parts $far_parts" ;;
        esac
    done
}

# The parts that were asked for, one per line.
expand_parts() {
    [ $# -gt 0 ] || set -- $default_parts
    for part; do
        case $part in
        all) printf '%s\n' $far_parts $default_parts $other_parts ;;
        others) printf '%s\n' $other_parts ;;
        *) printf '%s\n' "$part" ;;
        esac
    done
}

# wants WORD...: one of these parts was asked for.
wants() {
    for word; do
        case "$newline$parts$newline" in *"$newline$word$newline"*) return 0 ;; esac
    done
    return 1
}

# ---- One part: runs in a process of its own, which other parts run beside ------------------------

# tally NAME STATUS REPORT [details]: prints "NAME: N passed, N failed" from the runner's own report.
tally() {
    mkdir -p "$tallies"
    line=0
    "$python" tests/tally.py "$@" >"$tallies/$1" || line=$?
    cat "$tallies/$1"
    [ "$line" = 0 ] || failed_parts="$failed_parts $1"
}

# leave_out NAME REASON: printed at once, and again at the end.
leave_out() {
    say "$1: skipped: $2" | tee "$tallies/$1"
}

run_ctest() { # NAME BUILD-PRESET [TEST-PRESET]
    status=0
    build "$2" || status=$?
    run_built "$1" --preset "${3:-$2}"
}

# run_built NAME OPTION...: ctest, if status says that it was built.
run_built() {
    name=$1
    report=$root/build/reports/$name.xml
    shift
    rm -f "$report"
    if [ "$status" = 0 ]; then
        # The limit of tests that name none.
        ctest "$@" -j "$test_jobs" --timeout 600 --output-junit "$report" \
            --test-output-size-passed 100000 </dev/null || status=$?
    fi
    tally "$name" "$status" "$report"
}

# run_target NAME MACHINE: a build for another machine or C library, if what its tests need can be had.
run_target() {
    if STACKSPLICE_TARGET_ROOT=$("$python" tests/target_root.py "$2" "build/targets/$2" </dev/null); then
        export STACKSPLICE_TARGET_ROOT
        run_ctest "$1" "$1"
    else
        leave_out "$1" "$STACKSPLICE_TARGET_ROOT"
    fi
}

# What pip downloads for the musl Python of tests/musl_python.py, which has no TLS; not each tool has a wheel
# for it: what is missing is said when it is installed.
fetch_for_musl() { # FOLDER LIST
    cmp -s "$2" "$1/list" && return 0
    step "fetching wheels for musl"
    mkdir -p "$1"
    while IFS= read -r tool; do
        "$python" -m pip download --disable-pip-version-check --only-binary :all: --python-version "$py_version" \
            --platform musllinux_1_2_x86_64 --dest "$1" "$tool" >>"$logs/musl-wheels.log" 2>&1 </dev/null ||
            say "there is no wheel for musl of $tool"
    done <"$2"
    cp "$2" "$1/list"
}

# The environment of that Python with the package, by its compiler.
prepare_musl_venv() {
    quietly musl-tools "$venv/bin/python" -m pip install --disable-pip-version-check -r "$venv/musl-tools.txt" &&
        quietly musl-wheel "$venv/bin/python" -m pip wheel --disable-pip-version-check --no-deps \
            --no-build-isolation --wheel-dir "$venv/wheel" . &&
        quietly musl-install "$venv/bin/python" -m pip install --disable-pip-version-check \
            --force-reinstall --no-deps "$venv"/wheel/*.whl
}

# The package, compiled for musl by its compiler, and its tests by a Python of musl.
run_musl_python() {
    if ! musl=$("$python" tests/musl_python.py </dev/null); then
        leave_out musl-python "$musl"
        return
    fi
    ask_python "$musl" || return
    make_venv "$(python_tag)" || return
    printf '%s\n' 'pytest>=7' 'setuptools>=77' lupa greenlet jinja2 pygments >"$venv/musl-tools.txt"
    fetch_for_musl "$root/build/interpreters/musl/wheels" "$venv/musl-tools.txt"
    export PKG_CONFIG_PATH="${musl%/bin/*}/lib/pkgconfig"
    export CC="${musl%/*}/cc" PIP_NO_INDEX=1 PIP_FIND_LINKS="$root/build/interpreters/musl/wheels"
    prepare_musl_venv || { leave_out musl-python "the package could not be installed"; failed_parts="musl-python"; return; }
    # Nothing of a build for this machine's own C library.
    unset STACKSPLICE_BUILD_DIR LUA_CPATH LUA_CPATH_5_4
    # lupa brings it: what frames are compared with.
    libgcc=$(find "$venv" -name 'libgcc_s-*.so.1' | head -n 1)
    [ -z "$libgcc" ] || ln -sf "$libgcc" "${musl%/bin/*}/lib/libgcc_s.so.1"
    # What cannot be tried there, with its reasons.
    set -- -m "not any_python and not long"
    while IFS= read -r option; do set -- "$@" "$option"; done <<END
$(left_out tests/musl_left_out.txt)
END
    PYTHONPATH="" prepare_tests=true run_pytest musl-python "$@" tests/python
}

# left_out FILE: options of pytest for the tests that FILE names below their reasons, one per line.
left_out() {
    sed -n -e '/^tests\/.*::/s/^/--deselect=/p' -e '/^tests\/[^:]*$/s/^/--ignore=/p' "$1"
}

# The tests with free-threaded Pythons, whose lock stays off.  Not all tools have wheels for these.
run_free_threaded() {
    status=0
    "$python" tests/free_threaded_python.py </dev/null >"$logs/free-threaded" || status=$?
    # 3: none can be had, for the reasons that it says.
    case $status in
    0 | 3) ;;
    *)
        leave_out free-threaded "tests/free_threaded_python.py ended with status $status"
        failed_parts="free-threaded"
        return
        ;;
    esac
    # Nothing of the build for the Python with a lock.
    unset STACKSPLICE_BUILD_DIR
    while IFS= read -r answer; do
        case $answer in
        /*)
            if ! ask_python "$answer" free-threaded; then
                leave_out free-threaded "$answer is no free-threaded Python"
                failed_parts="free-threaded"
                continue
            fi
            ;;
        *) leave_out "free-threaded-${answer%%:*}" "${answer#*: }" && continue ;;
        esac
        set --
        while IFS= read -r option; do set -- "$@" "$option"; done <<END
$(left_out tests/free_threaded_left_out.txt)
END
        PYTHON_GIL=0 run_pytest "free-threaded-$py_version" -m "not any_python and not long" "$@" \
            tests/python/errors tests/python/frames tests/python/hooks tests/python/inspection tests/python/reports
    done <"$logs/free-threaded"
}

# verified COMMAND...: each repeated capture is compared with a full one.
verified() {
    export STACKSPLICE_VERIFY_PLANS=1
    "$@"
    unset STACKSPLICE_VERIFY_PLANS
}

# run_pytest NAME ARGUMENT...: pytest with the Python asked last.
run_pytest() {
    name=$1
    report=$root/build/reports/$name.xml
    shift
    rm -f "$report"
    status=0
    "${prepare_tests:-prepare_venv}" || status=$?
    if [ "$status" = 0 ]; then
        # Not -q: the log of a run that hangs names the file.
        "$venv/bin/python" -m pytest -rs --junitxml="$report" "$@" </dev/null || status=$?
    fi
    tally "$name" "$status" "$report"
}

run_busted() { # NAME OPTION-OR-PATH...
    name=$1
    # Relative: busted splits an argument with a space in two.
    report=build/reports/$name.xml
    shift
    rm -f "$report"
    status=0
    busted --lua="$(command -v lua5.4)" -o junit -Xoutput "$report" "$@" </dev/null || status=$?
    tally "$name" "$status" "$report" details
}

# python_for PATH: asks it, or says why its tests are left out.
python_for() {
    ask_python "$1" && [ "$py_headers$py_venv" = TrueTrue ] && return 0
    leave_out "pytest-${py_version:-$1}" "$1 has no Python.h or no ensurepip"
    return 1
}

# command_part PART [PYTHON]: what "test" starts for each part once the machine is prepared.
command_part() {
    choose_python
    python=$py_path
    export_build dev
    case $1 in
    asan) run_ctest asan asan-ubsan ;;
    ctest) run_ctest ctest dev ;;
    valgrind) run_ctest valgrind dev valgrind ;;
    clang | tsan | none) run_ctest "$1" "$1" ;;
    iterate)
        run_ctest iterate dev iterate
        before=$root/build/dev/tests/core/libolder_c_library.so
        LD_PRELOAD=$before run_pytest iterate-frames tests/python/frames/test_frames.py tests/python/frames/test_frames_captures.py
        ;;
    aarch64) run_target aarch64 arm64 ;;
    musl) run_target musl musl ;;
    musl-python) run_musl_python ;;
    free-threaded) run_free_threaded ;;
    busted) run_busted busted --exclude-tags=long tests/lua ;;
    long)
        run_ctest long-ctest dev long
        run_pytest "long-pytest-$py_version" -m long $python_tests tests/property
        run_busted long-busted --tags=long tests/lua
        ;;
    luas) verified run_pytest luas --other-luas tests/lua tests/matrix ;;
    all-luas) verified run_pytest all-luas --all-luas --other-luas tests/lua tests/matrix ;;
    property) run_pytest property -m "not long" tests/property ;;
    suites)
        prepare_tests=prepare_suites_venv
        run_pytest "suites-$py_version" tests/suites tests/bridges/test_pyinstaller.py \
            tests/python/hooks/test_hooks.py::test_qt_ends_its_programs_as_before
        ;;
    pytest)
        # Three of about the same time.
        case $2 in
        first) third=$(echo tests/python/*/test_[a-d]*.py) ;;
        second) third=$(echo tests/python/*/test_[e-l]*.py) ;;
        third) third="$(echo tests/python/*/test_[!a-l]*.py) ${python_tests#tests/python}" ;;
        esac
        run_pytest "pytest-$py_version-$2" -m "not long" $third
        ;;
    matrix) verified run_pytest "matrix-$py_version" tests/matrix ;;
    python)
        # Both here: the first makes the environment that the second uses.
        python_for "$2" || return 0
        run_pytest "pytest-$py_version" -m "not any_python" $python_tests
        verified run_pytest "matrix-$py_version" tests/matrix
        ;;
    esac
    [ -z "$failed_parts" ]
}

# ---- All parts -----------------------------------------------------------------------------------

# The other Pythons to test, one path per line.
other_pythons() {
    if [ -n "${STACKSPLICE_PYTHONS:-}" ]; then
        printf '%s\n' "$STACKSPLICE_PYTHONS" | tr ':' '\n'
        return 0
    fi
    for candidate in /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "$root"/build/interpreters/python3.*/usr/bin/python3.[0-9][0-9]; do
        if [ -x "$candidate" ] && ask_python "$candidate"; then printf '%s\n' "$candidate"; fi
    done
}

# One line for each run: a part and, for some, the Python it is for.
list_runs() {
    tested="|$python|"
    printf '%s\n' "$parts" | while IFS= read -r part; do
        case $part in
        pythons)
            other_pythons | while IFS= read -r candidate; do
                ask_python "$candidate" || continue
                case $tested in *"|$py_path|"*) continue ;; esac
                tested="$tested$py_path|"
                printf 'python %s\n' "$py_path"
            done
            ;;
        pytest) printf 'pytest %s\n' first second third && printf 'matrix\n' ;;
        *) printf '%s\n' "$part" ;;
        esac
    done
}

# What the tests find the build by.
export_build() {
    export STACKSPLICE_BUILD_DIR="$root/build/$1"
    # The name with the version wins over the plain one, so both are set.
    LUA_CPATH="$STACKSPLICE_BUILD_DIR/lua/5.4/?.so;${LUA_CPATH_5_4-${LUA_CPATH-;;}}"
    export LUA_CPATH LUA_CPATH_5_4="$LUA_CPATH"
}

fetch_interpreters() {
    step "newer interpreters, unpacked into build/interpreters"
    "$python" tests/interpreters.py </dev/null >"$logs/interpreters" ||
        say "newer interpreters: skipped: tests/interpreters.py failed" >>"$logs/interpreters"
    cat "$logs/interpreters"
    grep -E ': (skipped|not available): ' "$logs/interpreters" >"$tallies/newer" || true
}

# What several parts share is made before they start.
prepare_parts() {
    rm -rf "$tallies"
    mkdir -p build/reports "$logs" "$tallies"
    if wants pythons luas all-luas; then fetch_interpreters; fi
    if wants ctest valgrind pytest pythons property suites busted luas all-luas iterate long free-threaded; then
        build dev || exit 1
    fi
    if wants pytest iterate property suites luas all-luas long; then
        ask_python "$python"
        prepare_venv || exit 1
    fi
}

command_test() {
    # No part has a "/" in its name, or that of a folder.
    case ${1-} in
    */*) test_paths "$@" && return ;;
    esac
    [ ! -e "${1-}" ] || { test_paths "$@" && return; }
    check_parts "$@"
    parts=$(expand_parts "$@")
    prepare test
    prepare_parts
    list_runs >"$logs/runs"
    # One more than there are processors: tests wait for about a quarter of their time.
    lanes=$((jobs + 1))
    [ "$(wc -l <"$logs/runs")" -gt 1 ] || lanes=1
    # A part that has the machine to itself may use all of it.
    test_jobs=$(((jobs + lanes - 1) / lanes))
    export test_jobs
    step "$(wc -l <"$logs/runs") runs, $lanes at a time"
    status=0
    xargs -d '\n' -P "$lanes" -n 1 sh scripts/lane.sh "$python" <"$logs/runs" || status=$?
    step "all parts"
    cat "$tallies"/*
    [ "$status" = 0 ] || { say "failed: the lines above say what"; exit 1; }
    say "everything passed"
}
