# "dev fuzz".
# shellcheck shell=sh disable=SC2154 # variables of dev

c_targets="unwind resolve strings report inspect inspect_program saved"
python_targets="pickled"

# Targets in C are programs; those in Python run under atheris, which is libFuzzer, too.
run_fuzzer() { # TARGET OPTION...
    target=$1
    shift
    case " $python_targets " in
    *" $target "*)
        PYTHONPATH=$root/build/dev/python "$venv/bin/python" tests/fuzz/read_back.py "$target" "$@"
        ;;
    *)
        ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
            "build/fuzz/tests/fuzz/fuzz_$target" "$@"
        ;;
    esac
}

# fuzz_target NAME SECONDS: what it finds new is kept in build/fuzz/corpus, a crash in build/fuzz/found.
fuzz_target() {
    step "fuzz $1: $2 s"
    mkdir -p "build/fuzz/corpus/$1" build/fuzz/found
    run_fuzzer "$1" -max_total_time="$2" -max_len=65536 -timeout=60 -rss_limit_mb=4096 \
        -artifact_prefix="build/fuzz/found/$1-" -print_final_stats=1 \
        "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" </dev/null && return 0
    say "fuzz $1: the input is in build/fuzz/found; copy it to tests/fuzz/corpus/$1, where a test replays it."
    return 1
}

# atheris is a package for some versions of Python only.
has_atheris() {
    "$venv/bin/python" -c "import atheris" 2>/dev/null ||
        "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary :all: atheris \
            >"$logs/atheris.log" 2>&1 </dev/null
}

prepare_fuzz() { # TARGET
    case " $python_targets " in
    *" $1 "*)
        build dev && prepare_venv || exit 1
        has_atheris && return 0
        say "fuzz $1: skipped: Python $py_version has no atheris: $(tail -n 1 "$logs/atheris.log")"
        return 1
        ;;
    *) build fuzz || exit 1 ;;
    esac
}

command_fuzz() {
    targets="$c_targets $python_targets"
    case " $targets " in *" ${1:-} "*) targets=$1 && shift ;; esac
    seconds=${1:-60}
    case $seconds in
    *[!0-9]*) stop "there is no fuzz target '$seconds'; the targets are: $targets" ;;
    esac
    parts=fuzz
    prepare test
    for name in $targets; do
        prepare_fuzz "$name" || continue
        fuzz_target "$name" "$seconds" || failed_parts="$failed_parts $name"
    done
    [ -z "$failed_parts" ] || { say "failed:$failed_parts"; exit 1; }
}
