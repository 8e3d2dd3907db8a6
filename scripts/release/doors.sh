#!/bin/sh
# README's ways in, as they are copied, on fresh systems.
#
#     scripts/release/doors.sh [SUITE|dockerfile]...
#
# SUITE is of Debian or Ubuntu; without any: bookworm trixie noble dockerfile.  In a fresh root of each the
# packages that README lists for Python, Lua and C are installed, and the commands that it shows are run,
# once by root and once by a user.  The report that README promises must be in what they print.  dockerfile
# runs what the Dockerfile of docs/how-to/deploy.md runs.
# Without root and mmdebstrap all is left out, which is said; status 1 if a way led nowhere.
# shellcheck disable=SC2016 # what inner shells expand
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bookworm trixie noble dockerfile
work=$PWD/build/doors
. scripts/release/roots.sh
failed=""
can_make_roots || { step "left out, as it needs root and mmdebstrap" && exit 0; }

# The section of README with this title.
section() {
    awk -v title="## $1" '/^## /{inside = $0 == title} inside' README.md
}

# code LANGUAGE: the first that is in the input.
code() {
    awk -v fence="\`\`\`$1" '$0 == fence {inside = 1; next} inside && /^```/ {exit} inside'
}

packages() { # TITLE
    section "$1" | tr '\n' ' ' | sed -n 's/.*Ubuntu 24\.04 is `\([^`]*\)`.*/\1/p'
}

# Behind some firewalls pip needs those of this machine.
take_certificates() { # ROOT
    mkdir -p "$1/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/" 2>/dev/null || :
}

# try_door ROOT HOME USER TITLE PROMISE...: each PROMISE is a part of a line that must be printed.
try_door() {
    place=$1 home=$2 user=$3 title=$4
    shift 4
    rm -rf "${place:?}$home/stacksplice"
    mkdir -p "$place$home/stacksplice"
    git archive HEAD | tar -C "$place$home/stacksplice" -x
    section "$title" | code sh >"$place$home/door.sh"
    # Lua's is shown as a session: with the name that its text gives Debian's interpreter.
    [ "$title" != Lua ] || {
        section Lua | code lua >"$place$home/stacksplice/tickets.lua"
        echo "lua5.4 -lstacksplice tickets.lua" >>"$place$home/door.sh"
    }
    in_root "$place" chown -R "$user" "$home"
    name="$(basename "$place")-$user-$(echo "$title" | tr -dc A-Za-z)"
    # What each ends with is an error that nobody catches, so its status says nothing.
    in_root "$place" su "$user" -c "cd && cd stacksplice && sh ../door.sh" >"$work/$name.log" 2>&1 </dev/null || :
    for promise in "$@"; do
        grep -qF -- "$promise" "$work/$name.log" && continue
        tail -n 30 "$work/$name.log"
        step "$suite, $user, $title: not there: $promise (the log is $work/$name.log)"
        failed="$failed $name"
        return 0
    done
    step "$suite, $user: README's way for $title leads to its report"
}

# image FOLDER: python:3.13-slim is Debian 13 with a Python and a pip that take packages.
image() {
    fresh_root trixie "$1" && quietly image-python in_root "$work/$1" \
        apt-get -y --no-install-recommends install python3-dev python3-venv || return 1
    take_certificates "$work/$1"
    in_root "$work/$1" python3 -m venv /usr/local
}

# run_stage NUMBER FOLDER: what the Dockerfile of the manual runs in that stage.
run_stage() {
    code dockerfile <docs/how-to/deploy.md | awk -v stage="$1" '/^FROM/ {n++} n == stage' |
        sed -n 's/^RUN //p' >"$work/$2/stage.sh"
    quietly "dockerfile-$1" in_root "$work/$2" sh -ec 'PATH=/usr/local/bin:$PATH; . /stage.sh'
}

# FROM and COPY by hand: Docker itself is not needed.
try_dockerfile() {
    rm -rf "$work/wheels"
    image image || return 1
    mkdir "$work/image/src"
    git archive HEAD | tar -C "$work/image/src" -x
    run_stage 1 image && mv "$work/image/wheels" "$work/wheels" && image image || return 1
    mv "$work/wheels" "$work/image/wheels"
    run_stage 2 image && in_root "$work/image" /usr/local/bin/stacksplice doctor || return 1
    step "the Dockerfile of docs/how-to/deploy.md: what it runs makes an image in which doctor finds nothing wrong"
}

try_doors() { # SUITE
    suite=$1
    for title in Python Lua "C and C++"; do
        fresh_root "$suite" "$suite" || return 1
        # shellcheck disable=SC2046 # words
        quietly "$suite-packages" in_root "$work/$suite" apt-get -y --no-install-recommends install \
            $(packages "$title") || return 1
        take_certificates "$work/$suite"
        in_root "$work/$suite" useradd -m guest
        for home in /root /home/guest; do
            case $title in
            Python) set -- '(Lua) File "pricing.lua", line 2, in convert' "KeyError: 'XXX'" ;;
            Lua) set -- 'the seat is taken' "tickets.lua:3: in " ;;
            *) set -- '(Lua) File "rules.lua", line 3, in price' 'rates.py", line 4, in rate' ;;
            esac
            try_door "$work/$suite" "$home" "$(basename "$home")" "$title" "$@"
        done
    done
}

for each in "$@"; do
    case $each in
    dockerfile) try_dockerfile || failed="$failed $each" ;;
    *) try_doors "$each" || failed="$failed $each" ;;
    esac
done
rm -rf "$work/keys"
[ -z "$failed" ] || { step "failed:$failed" && exit 1; }
