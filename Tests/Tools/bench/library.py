"""What reporting costs the programs that report: the same programs with and without reporting, in turns. Beside them is
another server, reportfloor, which does less than any library can, and whose datagrams nobody reads for their contents.

Both servers run all the time, and take turns of a few seconds with the load. So the other work of the machine affects
both equally.
"""

import contextlib
import functools
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

import instructions
from ports import free_port, wait_for_port

CONNECTIONS = 64
# Answers of 1 kB and of 29 kB, the same of trafficexample and reportfloor.
SMALLEST, LARGER = "orders/1", "search"
VISITORS = 64
# Seconds that a program waits for a daemon. Connections that begin later are not counted.
PATIENCE = 10
# By chance, glibc hands a picture's pages back to the kernel after each answer, or does not. That stays the same within
# a process and takes up to 30 us of a request, so here neither side hands pages back.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}


def thread_seconds(pid: int) -> float:
    """Processor time of all living threads, as counted by the scheduler, which is finer than ticks."""
    nanoseconds = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # the program has ended
            nanoseconds += int(task.read_text().split()[0])
    return nanoseconds / 1e9


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    return float(found[1]) if found else sys.exit(f"no {pattern} in: {text}")


class Turn:
    """One load on one server: its requests, its duration, and the processor time of each program."""

    def __init__(self, programs: dict[str, int], load):
        before = {name: thread_seconds(pid) for name, pid in programs.items()}
        self.requests, self.seconds, took = load()
        self.costs = {name: thread_seconds(pid) - before[name] for name, pid in programs.items()} | took

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def cost(self, program: str) -> float:
        """Microseconds of processor time for each request."""
        return self.costs[program] / self.requests * 1e6


# Loads. A load gets the server's port, the number of seconds, and the options of the program that reports. A load
# returns the number of requests, the time that these took, and the processor time of programs that have ended.


def wrk(path: str, port: int, seconds: int, _options: list[str]):
    """The same request, as fast as possible."""
    url = f"http://127.0.0.1:{port}/{path}"
    command = ["wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{seconds}s", url]
    text = subprocess.check_output(command, text=True)
    return number(r"(\d+) requests in", text), number(r"requests in ([\d.]+)s", text), {}


def h2load(port: int, seconds: int, _options: list[str]):
    """The smallest answers with HTTP/2: 8 streams at a time on each of 8 connections."""
    url = f"http://127.0.0.1:{port}/{SMALLEST}"
    command = ["h2load", "--clients=8", "--max-concurrent-streams=8", f"--duration={seconds}", "--warm-up-time=0", url]
    return number(r"(\d+) succeeded", subprocess.check_output(command, text=True)), seconds, {}


def shopping(program: str, port: int, seconds: int, options: list[str]):
    """Pages, pictures and redirects, for a client that reports if `options` say so."""
    visit = 14  # requests of Buy.visit, including the request that a redirect leads to
    command = [program, "buy", "--port", str(port), "--seconds", str(seconds), "--rate", "1000"]
    start, before = time.monotonic(), children_seconds()
    command += ["--visitors", str(VISITORS), *options]
    text = subprocess.check_output(command, text=True, env=os.environ | ENVIRONMENT)
    return number(r"visits: (\d+)", text) * visit, time.monotonic() - start, {"client": children_seconds() - before}


def children_seconds() -> float:
    """Processor time of child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(bench) -> None:
    example, floor = bench.program("trafficexample"), bench.program("reportfloor")
    with bench.daemon() as (daemon, directory):
        others, reporting = {"daemon": daemon.pid}, ["--report-socket", f"{directory}/report.sock"]
        # Not the daemon's socket: the daemon would turn these datagrams down, which is no part of reporting.
        nobody = ["--report-socket", instructions.Listener(str(bench.work)).path]

        def compare(name: str, options: list[str], load, aim: str, bound: float | None = None) -> None:
            """`bound`: the least part of what reportfloor keeps, if there is such a floor for this load."""
            ours = in_turns(bench, others, example, reporting, options, load)
            beside = f"(aim {aim})"
            if bound:
                least = in_turns(bench, {}, floor, nobody, options, load)
                beside = f"x{ours.ratio / least.ratio:.3f} of reportfloor's x{least.ratio:.3f} (bound x{bound}, aim {aim})"
                beside += f"; reportfloor: {least.costs}"
            bench.row(f"library, {name}", str(ours), beside)

        compare("server, smallest answers", [], functools.partial(wrk, SMALLEST), "x0.955", 0.93)
        compare("server, larger answers", [], functools.partial(wrk, LARGER), "x0.98", 0.93)
        compare("server, HTTP/2", ["--http2"], h2load, "x0.955", 0.92)
        compare("client and server", [], functools.partial(shopping, example), "x0.98")
        counters = bench.snapshot(directory)["capture"]["reports"]
    bench.row(
        "reports of these",
        f"{counters['joined']:,} messages joined, {counters['inferred']:,} inferred",
        f"{counters['dropped_by_senders']:,} records dropped by senders",
    )
    nowhere = ["--report-socket", "/nowhere/report.sock"]
    ours = in_turns(bench, {}, example, nowhere, [], functools.partial(wrk, SMALLEST), PATIENCE + 1)
    bench.row("library, server, no daemon", str(ours), "(bound x0.99)")


class Compared:
    """The turns of a program that reports, and those of the same program without reports."""

    def __init__(self, reporting: list[Turn], silent: list[Turn]):
        pairs = list(zip(reporting, silent))
        self.rate = statistics.median(turn.rate for turn in silent)
        self.ratio = statistics.median(one.rate / other.rate for one, other in pairs)
        costs = []
        for side in reporting[0].costs:
            low, middle, high = statistics.quantiles((one.cost(side) - other.cost(side) for one, other in pairs), n=4)
            without = statistics.median(turn.cost(side) for turn in silent)
            costs.append(f"{side} {middle:+.1f} us ±{(high - low) / 2:.1f} a request ({without:.1f} without)")
        self.costs = ", ".join(costs)

    def __str__(self) -> str:
        return f"x{self.ratio:.3f} of {self.rate:,.0f} requests/s; {self.costs}"


def in_turns(
    bench, others: dict[str, int], program: str, reporting: list[str], server_options: list[str], load, wait: int = 0
) -> Compared:
    """Measures the server and other programs in turns. The load begins `wait` seconds after the server that reports."""
    turns: dict[bool, list[Turn]] = {False: [], True: []}
    for _ in range(bench.runs):
        # New processes in each round: the speed of a process depends on where its memory happens to be, and stays the
        # same.
        with contextlib.ExitStack() as servers:
            sides = {}
            for reports in (False, True):
                port, options = free_port(), reporting if reports else ["--silent"]
                command = [program, "serve", "--port", str(port), *server_options, *options]
                server = servers.enter_context(bench.child(*command, environment=ENVIRONMENT))
                wait_for_port(port)
                time.sleep(wait if reports else 0)
                programs = {"server": server.pid} | others
                sides[reports] = (programs, functools.partial(load, port, 1 if bench.quick else 2, options))
                Turn(*sides[reports])  # warms the caches
            for index in range(4):
                # Each side goes first equally often.
                for reports in (False, True) if index % 2 else (True, False):
                    turns[reports].append(Turn(*sides[reports]))
    return Compared(turns[True], turns[False])
