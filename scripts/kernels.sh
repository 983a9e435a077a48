# shellcheck shell=bash
# Debian's kernels in QEMU, for the scripts beside this file. Source it after lib.sh.

# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

# Name and suite. In the suite, linux-image-cloud-amd64 depends on the kernel's package.
# shellcheck disable=SC2034 # for the scripts that source this
suites="5.10 bullseye
6.1 bookworm
6.12 trixie
newest sid"

offline= # yes: use only what earlier runs fetched
kernels_cache=$cache/kernels
mkdir -p "$kernels_cache"

# kernel_packages SUITE: the packages that hold the image and its modules.
kernel_packages() {
    private_apt "$1" apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances linux-image-cloud-amd64 |
        grep -oE '^linux-(image|binary|modules)-[0-9][^ ]*' | grep -v -- '-dbg' | sort -u
}

# fetch_kernel NAME SUITE: unpacks the kernel into $kernels_cache/NAME, unless it is there already.
fetch_kernel() {
    [[ -e $kernels_cache/$1/complete ]] && return
    [[ -z $offline ]] || { say "$1 was never fetched" && return 1; }
    fetch_packages "$2" "$kernels_cache/$1" kernel_packages "$2"
}

# boot_kernel NAME INITRAMFS MEBIBYTES SECONDS CONSOLE: boots the kernel with /init of the initramfs, without a network,
# and writes what its console shows to the file CONSOLE.
boot_kernel() {
    local image append='console=ttyS0 quiet panic=-1 rdinit=/init systemd.show_status=0'
    image=$(find "$kernels_cache/$1/root" -name 'vmlinuz*' | head -1)
    # QEMU 7.2 sometimes emulates the CMPXCHG16B of the kernel's allocator wrongly, which ends in a double fault in
    # kmalloc. Without that feature (cx16, bit 141) the allocator takes a lock; programs may still use the instruction.
    # This is not possible since Linux 6.18: there BPF allocates by kmalloc_nolock(), which fails where the processor
    # has no CMPXCHG16B.
    [[ $1 == newest ]] || append+=' clearcpuid=141'
    # Without this the kernel looks whether the timer ticks, and panics where the emulation stands still for a moment,
    # because other programs have the processors: "IO-APIC + timer doesn't work!".
    append+=' no_timer_check'
    # In the foreground: QEMU ends with the script that waits for it.
    timeout --foreground "$4" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m "$3" -nographic -no-reboot -nic none \
        -kernel "$image" -initrd "$2" -append "$append" </dev/null 2>&1 | sed -u 's/\r//g' >"$5" || true
}
