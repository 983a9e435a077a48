# shellcheck shell=bash
# Debian's kernels in QEMU, for the scripts beside this file. Source it after lib.sh.

# Name and suite. In the suite, linux-image-cloud-amd64 depends on the kernel's package.
# shellcheck disable=SC2034 # for the scripts that source this
suites="5.10 bullseye
6.1 bookworm
6.12 trixie
newest sid"

offline= # yes: use only what earlier runs fetched
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trafficd/kernels
mkdir -p "$cache"

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

# kernel_packages SUITE: the packages that hold the image and its modules.
kernel_packages() {
    private_apt "$1" apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances linux-image-cloud-amd64 |
        grep -oE '^linux-(image|binary|modules)-[0-9][^ ]*' | grep -v -- '-dbg' | sort -u
}

# fetch_kernel NAME SUITE: unpacks the kernel into $cache/NAME, unless it is there already.
fetch_kernel() {
    local name=$1 suite=$2 state=$cache/apt/$2 target=$cache/$1 packages
    [[ -e $target/complete ]] && return
    [[ -z $offline ]] || { say "$name was never fetched" && return 1; }
    say "fetching kernel $name ($suite)"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    touch "$state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(archive) $suite main" >"$state/sources.list"
    private_apt "$suite" apt-get update
    mapfile -t packages < <(kernel_packages "$suite")
    ((${#packages[@]})) || { say "no kernel package in $suite" && return 1; }
    rm -rf "$target" && mkdir -p "$target/packages" "$target/root"
    (cd "$target/packages" && private_apt "$suite" apt-get download "${packages[@]}")
    for package in "$target"/packages/*.deb; do dpkg-deb -x "$package" "$target/root"; done
    rm -r "$target/packages"
    touch "$target/complete"
}

# boot_kernel NAME INITRAMFS MEBIBYTES SECONDS CONSOLE: boots the kernel with /init of the initramfs, without a network,
# and writes what its console shows to the file CONSOLE.
boot_kernel() {
    local image append='console=ttyS0 quiet panic=-1 rdinit=/init systemd.show_status=0'
    image=$(find "$cache/$1/root" -name 'vmlinuz*' | head -1)
    # QEMU 7.2 sometimes emulates the CMPXCHG16B of the kernel's allocator wrongly, which ends in a double fault in
    # kmalloc. Without that feature (cx16, bit 141) the allocator takes a lock; programs may still use the instruction.
    # This is not possible since Linux 6.18: there BPF allocates by kmalloc_nolock(), which fails where the processor
    # has no CMPXCHG16B.
    [[ $1 == newest ]] || append+=' clearcpuid=141'
    timeout "$4" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m "$3" -nographic -no-reboot -nic none \
        -kernel "$image" -initrd "$2" -append "$append" </dev/null 2>&1 | tr -d '\r' >"$5" || true
}
