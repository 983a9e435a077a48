# shellcheck shell=bash
# Packages of other Debian releases than this machine's, unpacked into a directory and not installed. Source it after
# lib.sh.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/trafficd

# private_apt SUITE COMMAND...: runs apt-get or apt-cache with a package list of this script's own.
private_apt() {
    local state=$cache/apt/$1 command=$2
    shift 2
    "$command" -qq \
        -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
        -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false "$@"
}

# fetch_packages SUITE DIRECTORY COMMAND...: unpacks the packages that COMMAND prints into DIRECTORY/root, unless they are
# there already. One script at a time: others wait.
fetch_packages() (
    suite=$1 target=$2 state=$cache/apt/$1
    shift 2
    [[ -e $target/complete ]] && return
    mkdir -p "$cache"
    exec {lock}>"$cache/lock"
    flock --nonblock "$lock" || { say "waiting for another script that fetches" && flock "$lock"; }
    [[ -e $target/complete ]] && return
    say "fetching $(basename "$target") ($suite)"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    touch "$state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive) $suite main" >"$state/sources.list"
    # A caller that tests the result switches errexit off in here, too.
    private_apt "$suite" apt-get update || return
    mapfile -t packages < <("$@")
    ((${#packages[@]})) || { say "no such package in $suite" && return 1; }
    rm -rf "$target" && mkdir -p "$target/packages" "$target/root"
    (cd "$target/packages" && private_apt "$suite" apt-get download "${packages[@]}") || return
    for package in "$target"/packages/*.deb; do dpkg-deb -x "$package" "$target/root" || return; done
    rm -r "$target/packages"
    touch "$target/complete"
)
