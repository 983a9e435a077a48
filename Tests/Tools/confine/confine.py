#!/usr/bin/python3
"""Runs a program under the restrictions of a systemd unit, on a machine whose init is not systemd.

usage: confine.py UNIT USER WRITABLE BPF COMMAND...

USER replaces the unit's User=, and BPF, a mounted BPF file system, replaces /sys/fs/bpf. Runs the unit's ExecStartPre=,
then COMMAND. It may write to WRITABLE and to the unit's ReadWritePaths= only. This program applies user and group,
ambient and bounding capabilities, no_new_privs, the system call filter and address families. The file system is
read-only, without /home and devices; /proc/sys, /sys/kernel and cgroups are read-only. Standard error names every other
setting that restricts, because this program does not apply such a setting.
"""
import ctypes
import errno
import os
import pwd
import resource
import shlex
import subprocess
import sys

import seccomp

PASSED_OVER = {
    "Description", "Documentation", "Type", "EnvironmentFile", "ExecReload", "ExecStart", "Restart",
    "RestartPreventExitStatus", "WatchdogSec",
    "RuntimeDirectory", "RuntimeDirectoryMode", "RuntimeDirectoryPreserve", "LimitMEMLOCK", "WantedBy", "Group",
    "SystemCallErrorNumber",
}
CAPABILITIES = {
    "CAP_DAC_READ_SEARCH": 2, "CAP_NET_ADMIN": 12, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39,
}
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
CLONE_NEWNS = 0x20000
libc = ctypes.CDLL(None, use_errno=True)


def read(path, user=None, bpf=None):
    settings = {}
    for line in open(path):
        if user:
            line = line.replace("-o trafficd -g trafficd", f"-o {user}").replace("/sys/fs/bpf", bpf)
        name, sign, value = line.strip().partition("=")
        if sign and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def check(result, what):
    if result != 0:
        sys.exit(f"confine.py: {what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags):
    arguments = [word.encode() if word else None for word in (source, target, kind)]
    check(libc.mount(*arguments, flags, None), f"mount {target}")


def run_first(settings):
    for command in settings.pop("ExecStartPre", []):
        # -: it may fail. +: without the restrictions.
        assert command.startswith("-+")
        subprocess.run(shlex.split(command[2:]), check=False)


def confine_files(settings, writable):
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    read_only = []
    if settings.pop("ProtectSystem", None) == ["strict"]:
        points = [line.split()[4] for line in open("/proc/self/mountinfo")]
        read_only += [point for point in points if not point.startswith(("/proc", "/sys", "/dev"))]
    if settings.pop("ProtectKernelTunables", None):
        read_only += ["/proc/sys", "/sys/kernel"]
    if settings.pop("ProtectControlGroups", None):
        read_only += ["/sys/fs/cgroup"]
    writable = [writable] + [path[1:] for path in settings.pop("ReadWritePaths", []) if os.path.isdir(path[1:])]
    for point in writable:
        mount(point, point, None, MS_BIND)
    for point in read_only:
        if point not in writable and os.path.isdir(point):
            mount(point, point, None, MS_BIND | MS_REC)
            mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    for point in writable:
        mount(point, point, None, MS_BIND)
        mount(None, point, None, MS_REMOUNT | MS_BIND)
    for name, point in [("ProtectHome", "/home"), ("ProtectHome", "/root"), ("PrivateDevices", "/dev/shm")]:
        if name in settings and os.path.isdir(point):
            mount("tmpfs", point, "tmpfs", MS_RDONLY)
    for name in ("ProtectHome", "PrivateDevices", "PrivateMounts"):
        settings.pop(name, None)


def calls_of(words):
    names = set()
    for word in words.split():
        if not word.startswith("@"):
            names.add(word)
            continue
        lines = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True).stdout
        listed = [line.strip() for line in lines.split("\n")[1:]]
        names |= calls_of(" ".join(line for line in listed if line and not line.startswith("#")))
    return names


def allowed_calls(filters):
    # The first line says that this is a list of allowed calls. systemd adds @default to such a list.
    names = calls_of("@default")
    for words in filters:
        names = names - calls_of(words[1:]) if words.startswith("~") else names | calls_of(words)
    return names


def confine_calls(settings):
    filter = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in allowed_calls(settings.pop("SystemCallFilter")) - {"socket"}:
        try:
            filter.add_rule(seccomp.ALLOW, name)
        except (RuntimeError, OSError, ValueError):
            pass  # a call of another architecture, or newer than this library
    for family in " ".join(settings.pop("RestrictAddressFamilies")).split():
        filter.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, FAMILIES[family]))
    settings.pop("SystemCallArchitectures", None)
    filter.load()


def main():
    unit, user, writable, bpf, *command = sys.argv[1:]
    settings = read(unit, user, bpf)
    run_first(settings)
    for name in PASSED_OVER:
        settings.pop(name, None)
    entry = pwd.getpwnam(user)
    settings.pop("User")
    os.environ.update(pair.split("=", 1) for pair in settings.pop("Environment", []))
    if umask := settings.pop("UMask", None):
        os.umask(int(umask[0], 8))
    if limit := settings.pop("LimitNOFILE", None):
        most = min(int(limit[0]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.chown(writable, entry.pw_uid, entry.pw_gid)
    confine_files(settings, writable)
    ambient = settings.pop("AmbientCapabilities")[0].split()
    bounding = settings.pop("CapabilityBoundingSet")[0].split()
    assert ambient == bounding and settings.pop("NoNewPrivileges") == ["yes"]
    names = ",".join("+" + name.removeprefix("CAP_").lower() for name in ambient)
    setpriv = [
        "setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--bounding-set", "-all," + names,
        "--inh-caps", "-all," + names, "--ambient-caps", "-all," + names, "--no-new-privs",
    ]
    program = [sys.executable, __file__, "--filter", unit, *command]
    for name in settings:
        if name not in ("SystemCallFilter", "RestrictAddressFamilies", "SystemCallArchitectures"):
            print(f"not applied: {name}={' '.join(settings[name])}", file=sys.stderr)
    os.execvp("setpriv", setpriv + program)


def filter_and_run():
    unit, *command = sys.argv[2:]
    confine_calls(read(unit))
    os.execvp(command[0], command)


if __name__ == "__main__":
    filter_and_run() if sys.argv[1] == "--filter" else main()
