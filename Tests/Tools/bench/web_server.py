"""What counting costs a busy web server: nginx with one worker, and wrk with 64 connections, which ask for the smallest
answers and keep both processors full.

Each round runs every side once, in random order, because the other work of the machine changes more from minute to
minute than from side to side. So all ratios are within a round.
"""

import contextlib
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

import counting
from ports import free_port, wait_for_port
from processes import cpu_seconds, resident_mib

# bpftrace needs the tracing file system, which it gets in a mount namespace of its own. A sum of sends by pid.
BPFTRACE = "tracepoint:sock:sock_send_length /args->ret > 0/ { @[pid] = sum(args->ret); }"
PEERS = {
    "peer: nethogs": ["nethogs", "-a", "-t", "-d", "1", "lo"],
    "peer: bpftrace, sums sends by pid": [
        *("unshare", "--mount", "sh", "-c"),
        *('mount -t tracefs none /sys/kernel/tracing; exec bpftrace -e "$0"', BPFTRACE),
    ],
}


class Side:
    """One way to count, and what its rounds gave."""

    def __init__(self, run):
        self.run = run
        self.rates: list[float] = []
        self.usages: list[float] = []
        self.sizes: list[float] = []
        self.reason: str | None = None


def measure(bench) -> None:
    sides = {name: Side(run) for name, run in counting.ways(bench).items()}
    for name, command in PEERS.items():
        sides[name] = Side(lambda command=command: bench.child(*command))
    with server(bench) as url:
        requests_per_second(url, 1)  # warms the caches
        rounds = 3 if bench.quick else 11
        for _ in range(rounds):
            for name in random.sample(list(sides), len(sides)):
                turn(sides[name], url, bench.seconds(4))
    none, reference, floor = (sides[name].rates for name in (counting.NOTHING, counting.REFERENCE, counting.FLOOR))
    bench.row("requests/s of nginx, nobody counts", f"{statistics.median(none):,.0f}", f"medians of {rounds} rounds")
    for name, side in list(sides.items())[1:]:
        if side.reason:
            bench.row(f"  {name}", "does not run here", side.reason)
            continue
        bound = f" (bound {counting.BOUNDS[name]})" if name in counting.BOUNDS else ""
        against = [
            f"{counting.ratio(side.rates, reference)} of the reference{bound}",
            f"{counting.ratio(side.rates, floor)} of the floor",
        ]
        if side.sizes:
            usage, size = statistics.median(side.usages), statistics.median(side.sizes)
            against.append(f"process: {usage:.2f} % of one core, {size:.1f} MiB")
        bound = f" (bound {counting.BOUNDS_OF_NOTHING[name]})" if name in counting.BOUNDS_OF_NOTHING else ""
        bench.row(f"  {name}", f"{counting.ratio(side.rates, none)} of nothing{bound}", "; ".join(against))


def turn(side: Side, url: str, seconds: int) -> None:
    with side.run() as running:
        process = running[0] if isinstance(running, tuple) else running
        process = process if isinstance(process, subprocess.Popen) else None
        time.sleep(1)
        if isinstance(running, str) or process and process.poll() is not None:
            side.reason = running if process is None else last_words(process)
            return
        start = cpu_seconds(process.pid) if process else 0
        side.rates.append(requests_per_second(url, seconds))
        if process:
            side.usages.append((cpu_seconds(process.pid) - start) / seconds * 100)
            side.sizes.append(resident_mib(process.pid))


def last_words(process) -> str:
    process.errors.seek(0)
    lines = process.errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {process.returncode}"


@contextlib.contextmanager
def server(bench):
    port = free_port()
    folder = tempfile.mkdtemp(dir=bench.work)
    pathlib.Path(folder, "nginx.conf").write_text(
        "daemon off; user root; worker_processes 1; pid nginx.pid; error_log error.log;\n"
        "events { worker_connections 1024; }\n"
        "http { access_log off; keepalive_requests 1000000000;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }} }}\n"
    )
    with bench.child("nginx", "-p", folder, "-e", "error.log", "-c", f"{folder}/nginx.conf"):
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}/"


def requests_per_second(url: str, seconds: int) -> float:
    command = ["wrk", "--threads", "1", "--connections", "64", "--duration", f"{seconds}s", url]
    text = subprocess.check_output(command, text=True)
    found = re.search(r"(\d+) requests in ([\d.]+)s", text)
    if not found:
        raise SystemExit(f"wrk: {text}")
    return int(found[1]) / float(found[2])
