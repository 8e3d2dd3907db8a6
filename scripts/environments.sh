# Virtual environments, one for each Python.  For dev.
# shellcheck shell=sh disable=SC2034,SC2154 # variables of dev

# A word for this very interpreter: two builds of one version get two environments.
python_tag() {
    printf '%s-%s' "$py_version" "$(printf '%s' "$py_path" | cksum | cut -d' ' -f1)"
}

# Changes when anything changes that goes into the Python package.
package_stamp() {
    find CMakeLists.txt cmake core crash inspect bindings/lua bindings/python bindings/shared setup.py pyproject.toml README.md -type f \
        ! -name '*.so*' ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -exec cksum {} + |
        LC_ALL=C sort | cksum
}

# What the tests use beside pytest: the extra "test" of the package, and the bridges of others.
test_tools() {
    "$venv/bin/python" -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["test"], sep="\n")' &&
        grep -v '^#' tests/bridges/requirements.txt
}

# install_tools LIST: into venv.  Not each has a wheel for each Python: what is missing is said every
# time, and its tests skip.  argparse-manpage has none for any, and compiles nothing.
install_tools() {
    list=$1
    cmp -s "$list" "$venv/tools.stamp" && return 0
    step "installing test tools into .venv/$tag"
    set -- "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary :all: \
        --no-binary argparse-manpage
    if "$@" -r "$list" >"$logs/tools-$tag.log" 2>&1 </dev/null; then
        cp "$list" "$venv/tools.stamp"
        return 0
    fi
    while IFS= read -r tool; do
        "$@" "$tool" >"$logs/tool-$tag.log" 2>&1 </dev/null ||
            say "Python $py_version has no $tool, its tests are skipped: $(tail -n 1 "$logs/tool-$tag.log")"
    done <"$list"
}

# make_venv TAG: sets tag and venv.
make_venv() {
    tag=$1
    venv=$root/.venv/$tag
    "$venv/bin/python" -c '' 2>/dev/null && return 0
    step "making the virtual environment .venv/$tag"
    quietly "venv-$tag" "$py_path" -m venv --clear "$venv"
}

# The environment of the Python asked last, with stacksplice and the test tools: sets venv.
prepare_venv() {
    make_venv "$(python_tag)" || return 1
    stamp=$(package_stamp)
    if [ "$(cat "$venv/stacksplice.stamp" 2>/dev/null)" != "$stamp" ]; then
        step "installing stacksplice into .venv/$tag"
        rm -f "$venv/stacksplice.stamp"
        # Without this a failed upgrade would leave an older build in place.
        rm -rf "$venv/wheel"
        # A test installs the same wheel into a fresh environment.
        quietly "wheel-$tag" "$venv/bin/python" -m pip wheel --disable-pip-version-check \
            --no-deps --wheel-dir "$venv/wheel" . || return 1
        quietly "pip-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check \
            --force-reinstall --no-deps "$venv"/wheel/*.whl || return 1
        quietly "pytest-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check \
            'pytest>=7' || return 1
        printf '%s\n' "$stamp" >"$venv/stacksplice.stamp"
    fi
    prepare_tools_venv
}

# The same environment with the test tools only.
prepare_tools_venv() {
    make_venv "$(python_tag)" && test_tools >"$venv/tools.txt" && install_tools "$venv/tools.txt"
}

# prepare_own_venv NAME REQUIREMENTS: an environment beside that of the tests: sets venv.
prepare_own_venv() {
    tag=$1-$(python_tag)
    venv=$root/.venv/$tag
    stamp=$(cksum <"$2")
    if [ "$(cat "$venv/requirements.stamp" 2>/dev/null)" != "$stamp" ]; then
        step "making the virtual environment .venv/$tag"
        quietly "venv-$tag" "$py_path" -m venv --clear "$venv" || return 1
        quietly "pip-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check \
            -r "$2" || return 1
        printf '%s\n' "$stamp" >"$venv/requirements.stamp"
    fi
}

# An environment of its own: the everyday tests shall not meet plugins of pytest that only these need.
prepare_suites_venv() {
    prepare_venv || return 1
    wheels=$venv/wheel
    make_venv "suites-$(python_tag)" || return 1
    grep -v '^#' tests/suites/requirements.txt >"$venv/tools.txt"
    install_tools "$venv/tools.txt"
    quietly "pip-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check \
        --force-reinstall --no-deps "$wheels"/*.whl
}
