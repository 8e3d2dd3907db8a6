# "dev test PATH...": the tests that belong to a folder or a file.
# shellcheck shell=sh disable=SC2154 # variables of dev

# tests_of PATH: what runs for it, one line each; nothing where no test belongs to it.
#   ctest FOLDER REGEX     the tests of tests/FOLDER whose names match
#   pytest PATH, busted PATH
tests_of() {
    case $1 in
    tests/suites* | tests/lua/*.py) ;; # parts of their own: they need more than a build
    tests/lua/spec*) say "busted $1" ;;
    tests/lua) printf '%s\n' "ctest lua ." "busted tests/lua/spec" ;;
    tests/python | tests/matrix | tests/proof | tests/property | tests/programs | tests/bridges) say "pytest $1" ;;
    tests/host/*.py) by_file "$1" ;; # unittest, by ctest
    tests/*/test_*.py*) say "pytest $1" ;;
    tests/*/*.*) by_file "$1" ;;
    tests/python/support*) ;; # what the tests share
    tests/python/*) say "pytest $1" ;;
    tests/*) [ ! -e "$1/CMakeLists.txt" ] || say "ctest ${1#tests/} ." ;;

    core | core/src | core/include* | core/schema*) printf '%s\n' "ctest core ." "ctest conformance ." ;;
    core/src/base*) say "ctest core ^(lock|memo|first_use|fork|many_threads)" ;;
    core/src/unwind*) say "ctest core ^(unwind|loader|host_stacks|first_signal|capture_signal)" ;;
    core/src/splice*) say "ctest core ^(splice|source_mark|token|between)" ;;
    core/src/com*) say "ctest conformance (strings|messages)" ;;
    core/src/error*) printf '%s\n' "ctest core ^error" "ctest conformance ." ;;
    core/src/inspect*) say "ctest core ^(error_block|error_inspect|inspect)" ;;
    core/src/resolve*) say "ctest core ^(resolve|symbol|unloaded)" ;;
    core/src/redact*) say "ctest core ^redact" ;;
    core/src/*) # plan, script, report, winrt_names
        folder=${1#core/src/}
        say "ctest core ^${folder%%/*}"
        ;;
    crash*) say "ctest core ^(crash|fault|deadline)" ;;
    inspect*)
        printf '%s\n' "ctest core ^inspect" "ctest fuzz inspect"
        python_files test_dump test_debuggers
        ;;
    examples/tiny* | bindings/cpp* | examples/host*)
        folder=${1#*/}
        say "ctest ${folder%%/*} ."
        ;;
    bindings/lua | bindings/lua/*) tests_of tests/lua ;;
    bindings/lupa*) python_files test_lupa ;;
    bindings/shared*) python_files test_layout test_lua_headers test_dump_python test_dump_lua ;;
    bindings/python/stacksplice/_tools/command_line*) python_files test_commands test_help ;;
    bindings/python/stacksplice/_tools/symbols*) python_files test_symbolize ;;
    bindings/python/stacksplice/_tools/doctor*) python_files test_commands ;;
    bindings/python/stacksplice/_tools/*)
        folder=${1#bindings/python/stacksplice/_tools/}
        python_files "test_${folder%%/*}"
        ;;
    bindings/python*) say "pytest tests/python" ;;
    examples*)
        say "ctest install (prefix|example)"
        python_files test_examples
        ;;
    docs* | README.md)
        say "ctest install (prefix|guide|readme|page|reference|rust)"
        python_files test_documents test_examples test_help test_readers
        ;;
    *.md | scripts* | dev | .github* | .gitlab-ci.yml | .pre-commit-config.yaml)
        python_files test_dev test_contributing test_documents
        ;;
    esac
}

# by_file tests/FOLDER/FILE: ctest's names are made of those of the files.
by_file() {
    folder=${1#tests/}
    folder=${folder%%/*}
    name=${1##*/}
    name=${name%.*}
    name=${name#test_}
    name=${name#check_}
    say "ctest $folder ^(($folder|error)[._])?${name%_test}(_test)?(_static|[.](c|cpp|wchar))?$"
}

# python_files BEGIN...: the files below tests/python whose names begin so.
python_files() {
    for begin; do
        for file in tests/python/*/"$begin"*.py; do say "pytest $file"; done
    done
}

# chosen RUNNER: what follows its name in the lines of runs.
chosen() {
    printf '%s' "$runs" | sed -n "s/^$1 //p" | sort -u
}

# test_paths PATH...: what is only asked for by other tests is not installed.  Tests that lack a debugger
# or a browser skip, and say so.
test_paths() {
    runs=""
    for path; do
        path=${path#./}
        path=${path#"$root"/}
        path=${path%/}
        # A test of pytest may have its name behind the file's.
        [ -e "${path%%::*}" ] || stop "there is no $path in $root"
        found=$(tests_of "$path")
        [ -n "$found" ] || stop "no test belongs to $path alone; ./dev help lists the parts"
        runs="$runs$found$newline"
    done
    parts=ctest
    [ -z "$(chosen busted)" ] || parts="ctest${newline}busted"
    prepare test
    rm -rf "$tallies"
    mkdir -p build/reports "$logs"
    build dev || exit 1
    export_build dev
    for folder in $(chosen ctest | cut -d' ' -f1 | sort -u); do
        status=0
        run_built "$folder" --test-dir "build/dev/tests/$folder" -LE '^(valgrind|long)$' \
            -R "$(chosen "ctest $folder" | paste -s -d '|')" --no-tests=error --output-on-failure
    done
    for path in $(chosen busted); do run_busted busted "$path"; done
    # A name of pytest may hold spaces and brackets.
    IFS=$newline
    set -f
    # shellcheck disable=SC2046
    set -- $(chosen pytest)
    unset IFS
    set +f
    # The package of the build: it needs no installation, and is before an installed one.
    [ $# = 0 ] || prepare_tests=prepare_tools_venv PYTHONPATH=$root/build/dev/python run_pytest pytest "$@"
    [ -z "$failed_parts" ] || { say "failed:$failed_parts; the lines above say what"; exit 1; }
    say "everything passed"
}
