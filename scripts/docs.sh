# "dev docs": the manual as a site, with a reference for each language in it.
# shellcheck shell=sh disable=SC2154 # variables of dev

site=build/docs
references=build/references # what other programs write for the site

# doxygen, from the public headers; a warning is an error.
reference_c() {
    mkdir -p "$references/c"
    { cat scripts/site/Doxyfile && echo "OUTPUT_DIRECTORY = $references/c"; } >"$references/Doxyfile"
    doxygen "$references/Doxyfile"
}

# Sphinx, from docs/, the docstrings, Lua's annotations, and what doxygen wrote; a warning, such as a dead link
# or a function without an example, is an error.
whole_site() {
    PYTHONPATH=$root/$1/python "$docs_venv/bin/python" -m sphinx -W --keep-going -E -j auto -q \
        -c scripts/site -d "$references/doctrees" docs "$site"
}

prepare_docs_venv() {
    prepare_own_venv docs scripts/site/requirements.txt || return 1
    docs_venv=$venv
}

command_docs() {
    prepare docs
    docs_build=demo
    [ ! -d build/dev/python ] || docs_build=dev # the tests' build has the package, too
    build "$docs_build" || exit 2
    prepare_docs_venv || exit 2
    rm -rf "$site" "$references"
    step "the reference of C and C++, from the headers"
    quietly docs-c reference_c || exit 1
    step "the manual"
    quietly docs whole_site "build/$docs_build" || exit 1
    say "Open $site/index.html"
}
