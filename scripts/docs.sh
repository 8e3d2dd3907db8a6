# "dev docs": the manual as a site, with a reference for each language in it.
# shellcheck shell=sh disable=SC2154 # variables of dev

site=build/docs
references=build/references # what other programs write for the site
emmylua_version=0.25.1

# doxygen, from the public headers; a warning is an error.
reference_c() {
    mkdir -p "$references/c"
    { cat scripts/site/Doxyfile && echo "OUTPUT_DIRECTORY = $references/c"; } >"$references/Doxyfile"
    doxygen "$references/Doxyfile"
}

# emmylua_doc_cli, from the LuaCATS annotations.
reference_lua() {
    "$emmylua" --site-name stacksplice --output "$references/pages/lua" bindings/lua/library
}

# Sphinx, from docs/, the docstrings, and what doxygen wrote; a warning, such as a dead link, is an error.
whole_site() {
    PYTHONPATH=$root/$1/python "$docs_venv/bin/python" -m sphinx -W --keep-going -E -j auto -q \
        -c scripts/site -d "$references/doctrees" docs "$site"
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
    prepare_own_venv docs scripts/site/requirements.txt || return 1
    docs_venv=$venv
}

command_docs() {
    prepare docs
    build demo || exit 2
    prepare_docs_venv || exit 2
    prepare_emmylua || emmylua=""
    rm -rf "$site" "$references"
    step "the reference of C and C++, from the headers"
    quietly docs-c reference_c || exit 1
    if [ -n "$emmylua" ]; then
        step "the reference of Lua, from the annotations"
        quietly docs-lua reference_lua || exit 1
    else
        say "That of Lua is left out: it needs emmylua_doc_cli, or cargo and Rust 1.89 to compile it."
    fi
    step "the manual"
    quietly docs whole_site build/demo || exit 1
    say "Open $site/index.html"
}
