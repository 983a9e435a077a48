#!/usr/bin/python3
"""Runs a command, and ends everything that it has started: when it ends, and when a signal ends this program.

usage: enclose.py COMMAND [ARGUMENT...]

The command finds in TRAFFICD_TEST_FOLDER a directory for its temporary files. When the command has ended, or when
SIGHUP, SIGINT or SIGTERM comes, this program
  - ends the processes that descend from the command, also those that have a session of their own or whose parents are
    gone: SIGTERM, and SIGKILL for those that are there ten seconds later;
  - deletes the network namespaces with the names of the tests, if the process that made them is gone;
  - unmounts what is mounted in the directory, and removes the directory.
It leaves all other processes alone. Exits as the command does, or by the signal that came.
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
MNT_DETACH = 2
PATIENCE = 10  # seconds, until SIGKILL
MORE_PATIENCE = 60  # seconds, until nothing helps
libc = ctypes.CDLL(None, use_errno=True)


def say(text):
    with contextlib.suppress(OSError):  # whoever read it may be gone too
        print(f"test: {text}", file=sys.stderr, flush=True)


def stat(pid):
    """The fields after the name, which may contain anything; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def descendants():
    """The processes that descend from this one, without those that have ended and that nobody has waited for."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = stat(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append((int(pid), fields[0]))
    found, parents = [], [os.getpid()]
    while parents:
        for pid, state in children.get(parents.pop(), []):
            parents.append(pid)
            if state not in (b"Z", b"X"):
                found.append(pid)
    return found


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    return " ".join(words).strip()[:100] or "?"


def send(number, pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        if number == signal.SIGTERM:  # one that is stopped would not notice
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)


def reap(child=None):
    """Waits for what has ended. Returns the status of `child`, if it is among that."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, result = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == child:
                status = os.waitstatus_to_exitcode(result)
    return status


def end_processes():
    """Returns what had to be ended, as text."""
    left = descendants()
    ended = [f"{pid} {command_of(pid)}" for pid in left]
    send(signal.SIGTERM, left)
    begin = time.monotonic()
    while left and time.monotonic() < begin + MORE_PATIENCE:
        time.sleep(0.05)
        reap()
        left = descendants()
        # What appears meanwhile may clean up after the others, so it has the same time.
        if time.monotonic() > begin + PATIENCE:
            send(signal.SIGKILL, left)
    reap()  # who has ended since the last look would pass for running
    if left:
        say(f"the kernel does not end: {' '.join(map(str, left))}")
    return ended


def delete_namespaces():
    """Tests name their namespaces trafficd-WORD-PID-START-…, after the process that makes them."""
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        match = re.fullmatch(r"trafficd-(?:lab|test)-(\d+)-(\d+)-.*", name)
        if not match:
            continue
        fields = stat(match[1])
        if fields is None or fields[19] != match[2].encode():
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)


def mounts_in(folder):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split()[4] for line in file]
    return [point for point in points if point.startswith(folder + "/")]


def remove(folder):
    for point in sorted(mounts_in(folder), key=len, reverse=True):
        libc.umount2(os.fsencode(point), MNT_DETACH)
    left = mounts_in(folder)
    if left:  # what is mounted there is not ours to remove
        say(f"still mounted: {' '.join(left)}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    command = sys.argv[1:]
    if not command or command[0] in ("--help", "-h"):
        print(__doc__)
        return 64
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Short, because sockets are made in it; open to other users, as /tmp is, because tests become other users.
    folder = tempfile.mkdtemp(prefix="t")
    os.chmod(folder, 0o1777)
    # Whoever starts this program with a signal ignored (nohup) wants it to go on.
    ending = {one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) != signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending | {signal.SIGCHLD})
    # Kept, because an object that is deleted takes the status of a command that has ended already.
    process = subprocess.Popen(
        command,
        env={**os.environ, "TRAFFICD_TEST_FOLDER": folder},
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
    )
    child = process.pid
    status, came = None, None
    while status is None and came is None:
        number = signal.sigwait(ending | {signal.SIGCHLD})
        if number == signal.SIGCHLD:
            status = reap(child)
        else:
            came = number
            say(f"{signal.Signals(came).name}: ending what this run has started")
    ended = end_processes()
    if came is None and ended:
        say("left behind, and ended now:\n  " + "\n  ".join(ended))
    delete_namespaces()
    remove(folder)
    number = came or (-status if status < 0 else None)
    if number is None:
        return status
    with contextlib.suppress(OSError):  # that of SIGKILL can't be set
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


sys.exit(main())
