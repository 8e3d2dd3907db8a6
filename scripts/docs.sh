# "dev docs": a reference for each language, each by one standard generator.
# shellcheck shell=sh disable=SC2154 # variables of dev

reference=build/docs
emmylua_version=0.25.1

# reference_python BUILD: pdoc, from the docstrings; a warning is an error.
reference_python() {
    PYTHONPATH=$root/$1/python "$docs_venv/bin/python" -W error -m pdoc --no-show-source \
        --output-directory "$reference/python" \
        stacksplice stacksplice.logging stacksplice.opentelemetry stacksplice.pytest_plugin \
        stacksplice.sentry
}

# doxygen, from the public headers; a warning is an error.
reference_c() {
    mkdir -p "$reference/c"
    { cat docs/reference/Doxyfile && echo "OUTPUT_DIRECTORY = $reference/c"; } >"$reference/Doxyfile"
    doxygen "$reference/Doxyfile"
}

# emmylua_doc_cli, from the LuaCATS annotations.
reference_lua() {
    "$emmylua" --site-name stacksplice --output "$reference/lua" bindings/lua/library
}

# Debian has no generator that reads LuaCATS, and cargo compiles one: sets emmylua.
prepare_emmylua() {
    emmylua=$(command -v emmylua_doc_cli) && return 0
    emmylua=$root/build/tools/bin/emmylua_doc_cli
    [ ! -x "$emmylua" ] || return 0
    command -v cargo >/dev/null || return 1
    step "compiling emmylua_doc_cli $emmylua_version (some minutes, once)"
    quietly cargo cargo install --locked --version "$emmylua_version" --root build/tools emmylua_doc_cli
}

prepare_docs_venv() {
    prepare_own_venv docs docs/requirements.txt || return 1
    docs_venv=$venv
}

reference_index() {
    cat <<'END_OF_HEAD'
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>stacksplice: reference</title>
<h1>stacksplice: reference</h1>
<ul>
<li><a href="python/stacksplice.html">Python</a>: the package, its logging classes, its pytest plugin
<li><a href="c/html/index.html">C and C++</a>: the public headers
END_OF_HEAD
    [ -z "$emmylua" ] || echo '<li><a href="lua/index.html">Lua</a>: the module'
    echo '</ul>'
}

command_docs() {
    prepare docs
    build demo || exit 2
    prepare_docs_venv || exit 2
    prepare_emmylua || emmylua=""
    rm -rf "$reference"
    mkdir -p "$reference"
    step "Python, from the docstrings"
    quietly docs-python reference_python build/demo || exit 1
    step "C and C++, from the headers"
    quietly docs-c reference_c || exit 1
    if [ -n "$emmylua" ]; then
        step "Lua, from the annotations"
        quietly docs-lua reference_lua || exit 1
    else
        say "Lua is left out: it needs emmylua_doc_cli, or cargo and Rust 1.89 to compile it."
    fi
    reference_index >"$reference/index.html"
    say "Open $reference/index.html"
}
