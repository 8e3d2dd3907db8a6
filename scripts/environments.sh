# Virtual environments, one for each Python.  For dev.
# shellcheck shell=sh disable=SC2034,SC2154 # variables of dev

# A word for this very interpreter: two builds of one version get two environments.
python_tag() {
    printf '%s-%s' "$py_version" "$(printf '%s' "$py_path" | cksum | cut -d' ' -f1)"
}

# Changes when anything changes that goes into the Python package.
package_stamp() {
    find CMakeLists.txt cmake core bindings/python setup.py pyproject.toml README.md \
        tests/bridges/requirements.txt -type f \
        ! -name '*.so*' ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -exec cksum {} + |
        LC_ALL=C sort | cksum
}

# Bridges of others that tests/bridges crosses.  Not each has a wheel for each Python.
install_bridges() {
    grep -v '^#' tests/bridges/requirements.txt | while IFS= read -r bridge; do
        "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary :all: \
            "$bridge" >"$logs/pip-bridge-$tag.log" 2>&1 </dev/null ||
            say "$bridge has no wheel for Python $py_version: its tests are skipped"
    done
}

# The environment of the Python asked last, with stacksplice and the test tools: sets venv.
prepare_venv() {
    tag=$(python_tag)
    venv=$root/.venv/$tag
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        step "making the virtual environment .venv/$tag"
        quietly "venv-$tag" "$py_path" -m venv --clear "$venv" || return 1
    fi
    stamp=$(package_stamp)
    if [ "$(cat "$venv/stacksplice.stamp" 2>/dev/null)" != "$stamp" ]; then
        step "installing stacksplice and its test tools into .venv/$tag"
        rm -f "$venv/stacksplice.stamp"
        # Without this a failed upgrade would leave an older build in place.
        quietly "pip-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check '.[test]' ||
            return 1
        install_bridges
        printf '%s\n' "$stamp" >"$venv/stacksplice.stamp"
    fi
}

# An environment of its own, with the peers that are Python packages and what draws: sets venv.
prepare_bench_venv() {
    tag=bench-$(python_tag)
    venv=$root/.venv/$tag
    stamp=$(cksum <tests/bench/requirements.txt)
    if [ "$(cat "$venv/requirements.stamp" 2>/dev/null)" != "$stamp" ]; then
        step "making the virtual environment .venv/$tag"
        quietly "venv-$tag" "$py_path" -m venv --clear "$venv" || return 1
        quietly "pip-$tag" "$venv/bin/python" -m pip install --disable-pip-version-check \
            -r tests/bench/requirements.txt || return 1
        printf '%s\n' "$stamp" >"$venv/requirements.stamp"
    fi
}
