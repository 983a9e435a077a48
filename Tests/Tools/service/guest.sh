#!/bin/bash
# Runs in a virtual machine of scripts/check-service, started by its systemd: installs the package beside this file, and
# checks that the service counts every byte once while it is restarted, killed, stopped, upgraded and configured.
# Each line of output begins with GUEST; the last one is "GUEST done" if all went well.
set -uo pipefail
cd "$(dirname "$0")" || exit
exec >/dev/ttyS0 2>guest.log

finish() {
    if [[ ${1:-} != "done" ]]; then
        systemctl status --no-pager trafficd 2>&1 | sed 's/^/GUEST log: /'
        { journalctl --unit trafficd --no-pager --output cat | tail -n 40; tail -n 20 guest.log; } | sed 's/^/GUEST log: /'
    fi
    echo "GUEST ${1:-failed}"
    systemctl poweroff --force --force
    exit
}
fail() { echo "GUEST $*" && finish; }

move() { echo "$1" >&8 && read -r moved <&7; }

# exact WORDS: the daemon must come to have what the mover moved.
exact() {
    local counted
    for _ in {1..3000}; do
        counted=$(trafficctl processes --format json 2>/dev/null | ./counted.py "$mover")
        [[ $counted == "$moved $moved" ]] && echo "GUEST $*: exact, $moved bytes both ways" && return
        sleep 0.3
    done
    fail "$*: counted '$counted' bytes of $moved $moved"
}

# journal WORDS MESSAGE: the daemon's log must come to have these words.
journal() {
    for _ in {1..3000}; do
        journalctl --unit trafficd --output cat | grep -q "$1" && return
        sleep 0.3
    done
    fail "$2"
}

options() { sed -i "s/^TRAFFICD_OPTIONS=.*/TRAFFICD_OPTIONS=\"$1\"/" /etc/default/trafficd && systemctl restart trafficd; }

echo "GUEST kernel $(uname -r), $(systemctl --version | head -1)"
dpkg --install first.deb >&2 || fail "dpkg --install"
[[ $(systemctl is-active trafficd) == active ]] || fail "the service does not run"
mkfifo orders answers
./mover.py orders >answers &
mover=$!
exec 7<answers 8>orders
read -r moved <&7
move 100001
exact "after the installation"
since=$(trafficctl export | python3 -c 'import json, sys; print(json.load(sys.stdin)["counting_since"])')

systemctl restart trafficd
move 100001
exact "after a restart"
systemctl kill --signal KILL trafficd
move 777
for _ in {1..3000}; do [[ $(systemctl is-active trafficd) == active ]] && break; sleep 0.3; done
exact "killed, and restarted by systemd"
systemctl stop trafficd
move 5555
journal 'sudo trafficd unload ends that' "nothing says that counting goes on"
systemctl start trafficd
exact "stopped for a while"
# The configuration file: a change, and a mistake.
echo 'keep_exited: 1h' >/etc/trafficd.yaml
systemctl reload trafficd || fail "systemctl reload"
# The reload is a signal: the daemon reads the file a moment later.
journal 'keep_exited: 5m → 1h' "the journal lacks the change"
echo 'keep_exitd: 2h' >/etc/trafficd.yaml
if systemctl reload trafficd 2>/dev/null; then fail "a wrong file is reloaded"; fi
move 333
exact "after a reload"
journal 'did you mean keep_exited' "the journal lacks the mistake"
rm /etc/trafficd.yaml
dpkg --install next.deb >&2 || fail "the upgrade"
move 100001
exact "after an upgrade to other programs"
dpkg --install first.deb >&2 || fail "the downgrade"
move 100001
exact "after a downgrade"
options "--wire derived"
move 100001
exact "with --wire derived"
[[ $(trafficctl export | python3 -c 'import json, sys; print(json.load(sys.stdin)["counting_since"])') == "$since" ]] ||
    fail "counting_since is another"
options "--pin-directory off"
move 100001
journal 'sudo trafficd unload --pin-directory' "with --pin-directory off nothing says that pins are left"
trafficd unload || fail "trafficd unload"
options ""
[[ -n $(ls /sys/fs/bpf/trafficd) ]] || fail "it does not pin again"
if journalctl --unit trafficd --output cat | grep -q 'Failed to set'; then fail "the journal has lines of the runtime"; fi
rating=$(systemd-analyze security --no-pager trafficd | grep -o 'exposure level.*')
echo "GUEST $rating"
dpkg --purge trafficd >&2 || fail "dpkg --purge"
for path in /sys/fs/bpf/trafficd /run/trafficd /var/lib/trafficd; do [[ ! -e $path ]] || fail "the purge left $path"; done
finish "done"
