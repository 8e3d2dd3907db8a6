# "dev release": what users install, made of one commit, tried and listed.  Nothing is uploaded.
# shellcheck shell=sh disable=SC2154 # variables of dev

# One interpreter per line, the chosen one first; tests/interpreters.py unpacks the newer ones, and
# tests/free_threaded_python.py compiles those without a lock.
release_interpreters() {
    printf '%s\n' "$python"
    {
        other_pythons
        ls -d "$root"/build/interpreters/free-threaded/*/bin/python3.[0-9][0-9]t 2>/dev/null
    } | while IFS= read -r candidate; do
        { ask_python "$candidate" || ask_python "$candidate" free-threaded; } &&
            [ "$py_headers$py_venv" = TrueTrue ] && printf '%s\n' "$candidate"
    done
}

# make_release FOLDER [OPTION]: from the sources of the commit in FOLDER/sources, into FOLDER/files.
make_release() {
    rm -rf "${1:?}/files" "$1/sources" "$1/work"
    mkdir -p "$1/files" "$1/sources"
    git archive HEAD | tar -x -C "$1/sources"
    # shellcheck disable=SC2086 # lists of words
    "$venv/bin/python" scripts/release/make.py "$1/sources" "$1/files" "$1/work" $release_parts \
        --commit "$(git rev-parse HEAD)" $release_options ${2:-}
}

command_release() {
    release_parts="" release_options="" twice="" all_pythons=yes
    while [ $# -gt 0 ]; do
        case $1 in
        wheel | musl | rocks | older | distributions | doors) release_parts="$release_parts $1" ;;
        --python)
            [ $# -gt 1 ] || stop "--python needs a version, such as 3.11"
            release_options="$release_options --python $2" all_pythons=""
            shift
            ;;
        --twice) twice=yes ;;
        *) stop "release makes wheel, musl, rocks, older, distributions and doors, with --python VERSION or --twice; not: $1" ;;
        esac
        shift
    done
    [ -n "$release_parts" ] || release_parts="wheel musl rocks older distributions doors"
    [ -z "$(git status --porcelain 2>/dev/null || echo none)" ] ||
        stop "a release is made of a commit, and there are changes that are in none: git status shows them"
    prepare release
    prepare_own_venv release scripts/release/requirements.txt || exit 2
    # What it cannot have it says, and has no wheel.
    [ -z "$all_pythons" ] || "$python" tests/interpreters.py </dev/null
    for interpreter in $(release_interpreters); do
        release_options="$release_options --interpreter $interpreter"
    done
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    step "making a release of $(git rev-parse --short HEAD)"
    make_release build/release || exit 1
    if [ -n "$twice" ]; then
        step "making it again, in another folder"
        make_release build/release/again --untried || exit 1
        diff -r build/release/files build/release/again/files || { say "the second run made other bytes" && exit 1; }
        say "Both runs made the same bytes."
    fi
    case "$release_parts " in *" distributions "*)
        step "packages of distributions"
        sh scripts/release/distributions.sh ${twice:+--twice} build/release/files/distributions || exit 1
        ;;
    esac
    case "$release_parts " in *" doors "*)
        step "README's ways, on fresh systems"
        sh scripts/release/doors.sh || exit 1
        ;;
    esac
    (cd build/release/files && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum) >build/release/SHA256SUMS
    mv build/release/SHA256SUMS build/release/files
    say "All of it, with its sums: build/release/files"
}
