#!/bin/sh
# README's ways in, as they are copied, on fresh systems.
#
#     scripts/release/doors.sh [SUITE]...
#
# SUITE is of Debian or Ubuntu; without any: bookworm trixie noble.  In a fresh root of each the packages
# that README lists for Python, Lua and C are installed, and the commands that it shows are run, once by
# root and once by a user who is nobody.  The report that README promises must be in what they print.
# Needs root and mmdebstrap; status 1 if a way led nowhere.
# shellcheck disable=SC2016 # what inner shells expand
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bookworm trixie noble
work=$PWD/build/doors
. scripts/release/roots.sh
failed=""

# The section of README with this title.
section() {
    awk -v title="## $1" '/^## /{inside = $0 == title} inside' README.md
}

# The first code of LANGUAGE in it.
code() { # TITLE LANGUAGE
    section "$1" | awk -v fence="\`\`\`$2" '$0 == fence {inside = 1; next} inside && /^```/ {exit} inside'
}

packages() { # TITLE
    section "$1" | tr '\n' ' ' | sed -n 's/.*Ubuntu 24\.04 is `\([^`]*\)`.*/\1/p'
}

# try_door ROOT HOME USER TITLE PROMISE...: each PROMISE is a part of a line that must be printed.
try_door() {
    place=$1 home=$2 user=$3 title=$4
    shift 4
    rm -rf "${place:?}$home/stacksplice"
    mkdir -p "$place$home/stacksplice"
    git archive HEAD | tar -C "$place$home/stacksplice" -x
    code "$title" sh >"$place$home/door.sh"
    # Lua's is shown as a session: with the name that its text gives Debian's interpreter.
    [ "$title" != Lua ] || {
        code Lua lua >"$place$home/stacksplice/tickets.lua"
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

try_doors() { # SUITE
    suite=$1
    for title in Python Lua "C and C++"; do
        fresh_root "$suite" "$suite" || return 1
        # shellcheck disable=SC2046 # words
        quietly "$suite-packages" in_root "$work/$suite" apt-get -y --no-install-recommends install \
            $(packages "$title") || return 1
        # Behind some firewalls the machine's own certificates are needed.
        mkdir -p "$work/$suite/etc/ssl/certs"
        cp /etc/ssl/certs/ca-certificates.crt "$work/$suite/etc/ssl/certs/" 2>/dev/null || :
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
    try_doors "$each" || failed="$failed $each"
done
rm -rf "$work/keys"
[ -z "$failed" ] || { step "failed:$failed" && exit 1; }
