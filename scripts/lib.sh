# shellcheck shell=bash
# Helpers of the scripts beside this file. Source it after `set -euo pipefail`.

# The package's root, from wherever the script was called.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# print_help FILE: prints the comment at the top of a script, which is its help.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$1"; }

# Goes before a command that needs root. This is an array, and not only a function: $! after `"${sudo[@]}" COMMAND &` is
# then the command's own pid, and not the pid of a shell around the command.
sudo=()
((EUID == 0)) || sudo=(sudo)

as_root() {
    ((EUID == 0)) || command -v sudo >/dev/null || die "needs root, and there is no sudo"
    "${sudo[@]}" "$@"
}

is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# need_packages NAME...: installs the packages that are missing, after one `apt-get update` for the whole run.
need_packages() {
    local name missing=()
    for name in "$@"; do
        is_installed "$name" || missing+=("$name")
    done
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null || die "missing: ${missing[*]} (and there is no apt-get to install them)"
    say "installing ${missing[*]}"
    if [[ -z ${updated_packages:-} ]]; then
        as_root apt-get update -qq
        updated_packages=yes
    fi
    without_services as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# deb_with_other_programs DEB DIRECTORY FILE: makes a later version of the package, with other BPF programs.
deb_with_other_programs() {
    dpkg-deb -R "$1" "$2"
    sed -i 's/^Version: .*/&+next/' "$2/DEBIAN/control"
    "$root/Tests/Tools/otherprograms/otherprograms.py" "$2/usr/sbin/trafficd"
    (cd "$2" && sed -i "s|.*usr/sbin/trafficd\$|$(md5sum usr/sbin/trafficd)|" DEBIAN/md5sums)
    dpkg-deb --root-owner-group --build "$2" "$3" >/dev/null
}

# archive: prints the package archive that this machine's own apt uses.
archive() {
    # shellcheck disable=SC2016 # apt's own variable
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1
}

# without_services COMMAND...: installs packages without starting their services. We need nginx, but no running web
# server.
without_services() (
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'as_root rm -f "$policy"' EXIT # also if somebody interrupts apt
        as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy"
    fi
    "$@"
)

# What a build needs beside the toolchain.
build_packages=(libbpf-dev libelf-dev libncurses-dev libcurl4-openssl-dev libmd-dev libsqlite3-dev libyaml-dev libzstd-dev zlib1g-dev)

need_swift() {
    command -v swift >/dev/null && return
    die "the Swift toolchain is missing: install Swift 6.2 or later (swift.org/install, or swiftly) and put it in PATH"
}

# Where builds go. SwiftPM locks this folder, so a build beside another one needs a folder of its own.
build_folder=${TRAFFICD_BUILD_FOLDER:-$root/.build}

# build ARGUMENT...: swift build, its progress on standard error.
# shellcheck disable=SC2120 # all arguments are optional
build() {
    need_swift
    need_packages "${build_packages[@]}"
    say "building (swift build $*)"
    swift build --package-path "$root" --scratch-path "$build_folder" "$@" >&2
}

# build_shown WHAT ARGUMENT...: the same, with one line that says how far it is: rewritten on a terminal, otherwise at each
# tenth. What swift build prints comes only if it fails.
build_shown() {
    local what=$1 log result=0
    shift
    need_swift
    need_packages "${build_packages[@]}"
    log=$(mktemp)
    swift build --package-path "$root" --scratch-path "$build_folder" "$@" 2>&1 | show_progress "$what" "$log" || result=$?
    ((result == 0)) || grep -v '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 100 >&2
    rm -f "$log"
    return "$result"
}

# show_progress WHAT LOG: reads what swift build prints, keeps it in the file LOG, and says how far the build is.
show_progress() {
    local what=$1 log=$2 line percent=0 now begin=$SECONDS said=-10 step='reading packages'
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
            # Plugins come first, with few steps of their own. Later more steps turn up: what was reached stays.
            now=$((BASH_REMATCH[2] < 50 ? 0 : 100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
            ((now <= percent)) || percent=$now
            step=${BASH_REMATCH[3],}
        elif [[ $line =~ ^(Fetching|Fetched|Creating|Computing|Updating) ]]; then
            step=${line,}
        else
            continue
        fi
        if [[ -t 2 ]]; then
            line="${0##*/}: $what: $percent %, $((SECONDS - begin)) s: $step"
            printf '\r\e[K%s' "${line:0:${COLUMNS:-80}-1}" >&2
        elif ((percent >= said + 10)); then
            said=$((percent / 10 * 10))
            say "$what: $percent %, $((SECONDS - begin)) s"
        fi
    done
    if [[ -t 2 ]]; then printf '\r\e[K' >&2; fi
    say "$what: $((SECONDS - begin)) s"
}

# Options for programs that are installed or measured: optimised, with Swift's libraries inside. Such programs run where
# there is no toolchain, and keep resident only what they use of those libraries. Their debug information would be stripped.
# Each function has a section of its own. So the linker leaves out functions that nobody calls, and keeps one of several that
# are the same to the byte, as specialisations of generic code often are. This makes the programs a tenth smaller. A trace
# of a crash may name another of these functions. The checks of the package, of other kernels and of accuracy run such
# programs.
# shellcheck disable=SC2034 # for the scripts that source this file
release=(
    -c release --static-swift-stdlib -debug-info-format none
    -Xswiftc -Xfrontend -Xswiftc -function-sections -Xcc -ffunction-sections -Xlinker --icf=all
)

# Options for programs that are tested: not optimised, no debug information, and each module in one piece, which spares the
# compiler from reading its files again and again. In the folder of other options each would build all anew, so these
# programs have a folder of their own.
# shellcheck disable=SC2034 # for the scripts that source this file
tested=(-debug-info-format none -Xswiftc -wmo -Xswiftc -num-threads -Xswiftc 1 -Xswiftc -disable-batch-mode)
use_tested() { build_folder=${TRAFFICD_BUILD_FOLDER:-$root/.build/tested}; }

# Options for programs that are only tried: the same without traits, and without the index, by which SwiftPM finds tests.
# One fifth of the work of `swift build` with its own options.
# shellcheck disable=SC2034 # for the scripts that source this file
quick=(--disable-default-traits --disable-index-store "${tested[@]}")

# Prints where a build with these arguments leaves its programs.
# shellcheck disable=SC2120
binaries() { swift build --package-path "$root" --scratch-path "$build_folder" "$@" --show-bin-path; }

# Packages for the namespaces in which the accuracy is measured.
# shellcheck disable=SC2034 # for the scripts that source this file
lab_packages=(ethtool iproute2 nftables)

# Packages of scripts/kernel-matrix.
# shellcheck disable=SC2034 # for the scripts that source this file
matrix_packages=(binutils busybox-static cpio debian-archive-keyring gcc kmod libc6-dev qemu-system-x86 xz-utils)

# accuracy_table PROGRAMS ROWS OUTPUT COMMAND: prints the lines of trafficcheck in ROWS as a table, with COMMAND in its
# head. Writes the table to the file OUTPUT too, unless OUTPUT is empty.
accuracy_table() {
    { echo "Made by \`$4\`." && echo && "$1/trafficcheck" table <"$2"; } |
        if [[ -n $3 ]]; then tee "$3"; else cat; fi
}

# compared ROWS: succeeds where a scenario was compared. Without this check a run would pass where the kernel does not
# offer the method, or where the machine skips everything.
compared() { awk -F'\t' '$6 == "exact" || $6 == "different" { found = 1 } END { exit !found }' "$1"; }
