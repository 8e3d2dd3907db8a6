#!/bin/sh
# The packages of distributions, each built and tried by its own means.
#
#     scripts/release/distributions.sh [--twice] FOLDER [SUITE|conan]...
#
# SUITE is a suite of Debian; without any: bookworm trixie conan.  Of each suite packages are built in one
# fresh root and installed in another one, where debian/tests runs; that needs root, mmdebstrap, lintian
# and dpkg-dev.  conan creates packaging/conan, whose test_package it runs.  FOLDER gets the packages; what
# could not be done here is said, and what failed ends with status 1.  Debian's packages are made of the
# release's source package, which is beside FOLDER; all other sources are those of HEAD.
# shellcheck disable=SC2016 # what inner shells expand
set -eu
twice=""
[ "${1-}" != --twice ] || { twice=yes && shift; }
[ $# -gt 0 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 2; }
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
shift
[ $# -gt 0 ] || set -- bookworm trixie conan
cd "$(dirname "$0")/../.."
work=$PWD/build/distributions
version=$(sed -n 's/^#define STACKSPLICE_VERSION_[MP][A-Z]* \([0-9]*\)$/\1/p' core/include/stacksplice/stacksplice.h |
    paste -sd.)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
failed=""
. scripts/release/roots.sh

# ---- Debian --------------------------------------------------------------------------------------

# source_of SUITE FOLDER: the source package's tree in FOLDER, beside the upstream tarball.
source_of() {
    rm -rf "$2"
    mkdir -p "$2"
    release=$(in_root "$work/$1-build" sh -c '. /etc/os-release && echo "$VERSION_ID"')
    cp "$out/../stacksplice-$version.tar.gz" "$2/stacksplice_$version.orig.tar.gz" || return 1
    tar -C "$2" -xf "$2/stacksplice_$version.orig.tar.gz"
    cp -r packaging/debian "$2/stacksplice-$version/debian"
    who=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
    cat >"$2/stacksplice-$version/debian/changelog" <<END
stacksplice ($version-1~deb${release}u1) $1; urgency=medium

  * Version $version: CHANGELOG.md says what is new.

 -- $who  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END
}

build_debian() { # FOLDER, of the suite's build root
    quietly "$suite-$1" in_root "$work/$suite-build" sh -c "cd /$1/stacksplice-$version &&
        SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH dpkg-buildpackage --no-sign -sa"
}

debian() {
    suite=$1
    if ! can_make_roots || ! command -v lintian >/dev/null || ! command -v dpkg-scanpackages >/dev/null; then
        step "$suite: left out, as it needs root, mmdebstrap, lintian and dpkg-dev"
        return 0
    fi
    fresh_root "$suite" "$suite-build" || return 1
    step "$suite: building the packages"
    source_of "$suite" "$work/$suite-build/build" || return 1
    quietly "$suite-build-dep" in_root "$work/$suite-build" apt-get -y --no-install-recommends install \
        build-essential fakeroot && quietly "$suite-build-dep" in_root "$work/$suite-build" \
        apt-get -y --no-install-recommends build-dep "/build/stacksplice-$version" || return 1
    build_debian build || return 1
    if [ -n "$twice" ]; then
        step "$suite: building them again, in another folder"
        source_of "$suite" "$work/$suite-build/again" && build_debian again || return 1
        for package in "$work/$suite-build/build/"*.deb; do
            cmp "$package" "$work/$suite-build/again/${package##*/}" || return 1
        done
        step "$suite: both builds made the same bytes"
    fi
    rm -rf "${out:?}/$suite"
    mkdir "$out/$suite"
    cp "$work/$suite-build/build/"*.deb "$work/$suite-build/build/"*.dsc \
        "$work/$suite-build/build/"*.tar.?z "$out/$suite"
    step "$suite: lintian"
    quietly "$suite-lintian" lintian --fail-on error,warning "$work/$suite-build/build/"*.changes || return 1
    try_debian "$suite" &&
        step "$suite: $(find "$out/$suite" -name '*.deb' | wc -l) packages, with all tests passed"
}

# What a user does, in a root that never saw the sources: apt installs what a test depends on, with what
# that recommends, from a folder.
try_debian() {
    fresh_root "$1" "$1-fresh" || return 1
    fresh=$work/$1-fresh
    mkdir "$fresh/packages"
    cp "$out/$1/"*.deb "$fresh/packages"
    (cd "$fresh/packages" && dpkg-scanpackages -m . >Packages 2>/dev/null)
    echo "deb [trusted=yes] file:/packages ./" >"$fresh/etc/apt/sources.list.d/stacksplice.list"
    in_root "$fresh" apt-get -qq update
    git archive --prefix=source/ HEAD examples tests/install packaging/debian/tests | tar -C "$fresh" -x
    quietly "$1-update" in_root "$fresh" apt-get -y install python3 || return 1
    # Debian 12's lupa is of 2022: the example has the one that pip installs, where pip puts it.
    minor=$(in_root "$fresh" python3 -c 'import sys; print(sys.version_info[1])')
    quietly "$1-lupa" python3 -m pip download --no-deps --only-binary :all: --python-version "3.$minor" \
        -d "$work/lupa-3.$minor" lupa || return 1
    python3 -m zipfile -e "$work/lupa-3.$minor/"lupa-*.whl "$fresh/usr/local/lib/python3.$minor/dist-packages"
    # shellcheck disable=SC2013 # words
    for name in $(sed -n 's/^Tests: //p' packaging/debian/tests/control); do
        step "$1: the test $name"
        needs=$(sed -n "/^Tests: $name\$/,/^\$/s/^Depends: //p" packaging/debian/tests/control |
            sed 's/,//g; s/:any//g')
        quietly "$1-try-$name" in_root "$fresh" sh -ec "apt-get -y install $needs
            cd /source && AUTOPKGTEST_TMP=\$(mktemp -d) sh packaging/debian/tests/$name" || return 1
    done
}

# ---- Conan ---------------------------------------------------------------------------------------

# In a Conan home of its own, by the profile that Conan finds.  Nothing is taken from a remote.
conan_package() {
    step "conan: creating the package and running its test"
    export CONAN_HOME="$work/conan"
    conan=$work/conan-venv/bin/conan
    [ -x "$conan" ] || quietly conan-venv python3 -m venv "$work/conan-venv" || return 1
    [ -x "$conan" ] || quietly conan-pip "$work/conan-venv/bin/pip" install 'conan>=2.4,<3' || return 1
    rm -rf "$work/conan-sources"
    git archive --prefix=conan-sources/ HEAD | tar -C "$work" -x
    quietly conan-profile "$conan" profile detect --force &&
        quietly conan-create "$conan" create "$work/conan-sources/packaging/conan" --no-remote
}

# ---- All -----------------------------------------------------------------------------------------

for part in "$@"; do
    case $part in
    conan) conan_package || failed="$failed $part" ;;
    *) debian "$part" || failed="$failed $part" ;;
    esac
done
[ -z "$failed" ] || { step "failed:$failed" && exit 1; }
