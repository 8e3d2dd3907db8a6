# Fresh systems in folders, for scripts that build, install or try in one.  They set work, the folder
# for all of it.  Needs root, mmdebstrap and the machine's own source of packages.  Minimal systems stay as
# tar files in build/roots.
# shellcheck shell=sh disable=SC2154,SC2016 # variables of the scripts; what inner shells expand
export LC_ALL=C.UTF-8
roots=$PWD/build/roots
mkdir -p "$work" "$roots"

can_make_roots() {
    [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null
}

step() {
    printf '==> %s\n' "$*"
}

# quietly NAME COMMAND...: the output goes to a log, whose end is shown on failure.
quietly() {
    log=$work/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null && return 0
    tail -n 40 "$log"
    printf 'failed: %s (the log is %s)\n' "$*" "$log"
    return 1
}

# The machine's own source of packages.
mirror() {
    python3 -c 'import sys; sys.path.insert(0, "tests"); import interpreters
print(interpreters.own_archive()["uris"][0])'
}

# in_root ROOT COMMAND...: with the kernel's folders, which vanish with the command, and without what
# this machine builds by.
in_root() {
    unshare --mount --fork sh -ec 'root=$1 && shift
        mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev"
        exec chroot "$root" env -u CMAKE_GENERATOR -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER \
            DEBIAN_FRONTEND=noninteractive "$@"' sh "$@"
}

# make_root SUITE: a minimal system.  Debian has Ubuntu's keys in a package.
make_root() {
    step "$1: a minimal system"
    case $1 in
    noble)
        fresh_root trixie keys && in_root "$work/keys" apt-get -qq -y install ubuntu-keyring >/dev/null 2>&1 || return 1
        # Where Ubuntu is by itself: no source of packages of this machine has it.
        quietly "$1-mmdebstrap" mmdebstrap --variant=minbase --include=apt --components=main,universe \
            --keyring="$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$1" "$roots/$1.part.tar"
        ;;
    *) quietly "$1-mmdebstrap" mmdebstrap --variant=minbase "$1" "$roots/$1.part.tar" "$(mirror)" ;;
    esac && mv "$roots/$1.part.tar" "$roots/$1.tar"
}

# fresh_root SUITE NAME: a minimal system of SUITE in $work/NAME.
fresh_root() {
    [ -f "$roots/$1.tar" ] || make_root "$1" || return 1
    rm -rf "${work:?}/$2"
    mkdir "$work/$2"
    tar -C "$work/$2" -xf "$roots/$1.tar"
    in_root "$work/$2" apt-get -qq update
}
