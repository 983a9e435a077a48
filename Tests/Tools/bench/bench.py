"""Measures trafficd and comparable programs in one run. scripts/bench installs and builds first, then calls this.

A figure that was measured more than once is a median. Each row has the figure, the bound that the project set itself,
and what the figure was compared with. If a comparable program does not run here, its row says why.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import allocations
import instructions
import library
import many_sockets
import packets
import page
import round_trip
import web_server
from processes import cpu_seconds, resident_mib
from statistics_of_bpf import bpf_statistics, program_costs, program_times

FIRST_MARK, LAST_MARK = "<!-- scripts/bench writes from here -->", "<!-- to here -->"


class Bench:
    def __init__(self, programs: pathlib.Path, quick: bool):
        self.programs = programs
        self.quick = quick
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="trafficd-bench-"))
        self.rows: list[tuple[str, str, str]] = []
        self.runs = 3 if quick else 5

    def row(self, figure: str, value: str, against: str = "") -> None:
        self.rows.append((figure, value, against))
        print(f"  {figure}: {value}  {against}", file=sys.stderr, flush=True)

    def seconds(self, full: int) -> int:
        return max(3, full // 5) if self.quick else full

    def program(self, name: str) -> str:
        return str(self.programs / name)

    @contextlib.contextmanager
    def child(self, *command: str, output=subprocess.DEVNULL, environment: dict[str, str] | None = None):
        """Runs a program during the block, then ends the program and its process group with SIGTERM."""
        errors = tempfile.TemporaryFile(dir=self.work)
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            env=os.environ | (environment or {}),
        )
        process.errors = errors
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    @contextlib.contextmanager
    def daemon(self, *options: str, preloaded: str | None = None):
        directory = tempfile.mkdtemp(dir=self.work)
        environment = {"LD_PRELOAD": preloaded} if preloaded else None
        command = [self.program("trafficd"), "run", "--runtime-directory", directory, *options]
        with self.child(*command, environment=environment) as process:
            control = pathlib.Path(directory, "control.sock")
            for _ in range(200):
                if control.exists():
                    break
                if process.poll() is not None:
                    sys.exit("trafficd did not start")
                time.sleep(0.05)
            yield process, directory

    @contextlib.contextmanager
    def held_sockets(self, count: int):
        """Holds `count` idle sockets open during the block."""
        command = [self.program("trafficgen"), "--hold", "600", "--count", str(count), "idle"]
        with self.child(*command, output=subprocess.PIPE) as process:
            json.loads(process.stdout.readline())
            yield

    def status(self, directory: str) -> dict:
        """How a daemon captures."""
        export = [self.program("trafficctl"), "export", "--format", "json", "--runtime-directory", directory]
        return json.loads(subprocess.check_output(export))["capture"]

    def capture(self) -> str:
        """The capture method that the daemon uses on this machine."""
        with self.daemon() as (_process, directory):
            capture = self.status(directory)
        if capture["method"] == "poll":
            sys.exit(f"nothing to measure: {capture['reason']}")
        return f"method `{capture['method']}`"

    def packets(self) -> None:
        packets.measure(self)

    # Figures ---------------------------------------------------------------------------------------------------------

    def cost_of_a_call(self) -> None:
        """Run time of each BPF program by the kernel's own statistics, beside the floor's program of the same hook."""
        samples: dict[str, list[float]] = {}
        with self.reference("bump_") as reason:
            if reason:
                self.row("in-kernel cost of a call", "not measured", reason)
                return
        with bpf_statistics():
            for _ in range(self.runs):
                # Separate runs, because the first program of a call warms the caches for the next program. The floor has
                # as many programs as the daemon: those of packets warm and cool caches, too.
                for measured in (self.daemon(), self.reference("find_", "floor_"), self.reference("bump_")):
                    with measured:
                        before = program_times()
                        run(self.program("trafficgen"), "--address", "127.0.0.1", "--count", "100000", "tcp-requests")
                        for name, cost in program_costs(before).items():
                            samples.setdefault(name, []).append(cost)
        costs = {name: statistics.median(values) for name, values in samples.items()}
        for program, counter, finder in (
            ("sock_send_length", "bump_send", "find_send"),
            ("tcp_receive", "bump_tcp", "find_tcp"),
            ("sock_recv_length", "bump_recv", "floor_recv"),
        ):
            cost, base = costs.get(program), costs.get(counter)
            if not cost or not base:
                continue
            against = f"floor {costs[finder]:.1f} ns: {cost - costs[finder]:+.1f} ns (bound +10 ns); counter only {base:.1f} ns"
            self.row(f"cost of a call, {program}", f"{cost:.1f} ns", against)

    @contextlib.contextmanager
    def reference(self, *prefixes: str):
        """Loads counter.bpf.c and attaches the programs with these prefixes. Yields the reason if that fails, else None."""
        command = [self.compiled("attach.c", "-lbpf"), self.reference_programs(), *prefixes]
        with self.child(*command, output=subprocess.PIPE) as process:
            yield None if process.stdout.readline() else "the reference programs could not be attached"

    def reference_programs(self) -> str:
        program = self.work / "counter.o"
        if not program.exists():
            source = str(pathlib.Path(__file__).with_name("counter.bpf.c"))
            machine = f"-I/usr/include/{os.uname().machine}-linux-gnu"
            run("clang", "-target", "bpf", "-O2", "-g", machine, "-c", source, "-o", str(program))
        return str(program)

    def compiled(self, source: str, *options: str) -> str:
        program = self.work / pathlib.Path(source).stem
        if not program.exists():
            run("cc", "-O2", str(pathlib.Path(__file__).with_name(source)), "-o", str(program), *options)
        return str(program)

    def round_trip(self) -> None:
        round_trip.measure(self)

    def web_server(self) -> None:
        web_server.measure(self)

    def idle(self) -> None:
        with self.daemon() as (process, _directory), self.held_sockets(1000):
            time.sleep(2)
            seconds = self.seconds(30)
            start = cpu_seconds(process.pid)
            time.sleep(seconds)
            usage = (cpu_seconds(process.pid) - start) / seconds * 100
            self.row("idle with 1,000 sockets", f"{usage:.2f} % of one core", "(bound 0.5 %)")

    def many_sockets(self) -> None:
        many_sockets.measure(self)

    def median_ms(self, command: list[str]) -> float:
        """The time of a request that comes alone. The daemon makes at most ten sweeps a second for requests, so a
        request right after another request would wait for its sweep."""
        times = []
        for _ in range(self.runs):
            time.sleep(0.5)
            start = time.monotonic()
            run(*command)
            times.append((time.monotonic() - start) * 1000)
        return statistics.median(times)

    def churn(self) -> None:
        seconds = self.seconds(30)
        result = subprocess.run(
            [
                self.program("trafficcheck"), "--method", "auto", "--scenario", "churn",
                "--generator-options", f"--rate 5000 --seconds {seconds}",
            ],
            capture_output=True, text=True,
        )
        runs = list(csv.DictReader(result.stdout.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
        if len(runs) != 1 or runs[0]["status"] not in ("exact", "different"):
            sys.exit(f"trafficcheck: {result.stdout}{result.stderr}")
        off, of = ([int(runs[0][f"{kind}_{what}"]) for kind in ("payload", "wire")] for what in ("difference", "bytes"))
        self.row(
            f"5,000 connections/s for {seconds} s",
            f"{off[0]} bytes off of {of[0]:,}, {off[1]} of {of[1]:,} wire bytes", f"(bound 0) {runs[0]['details']}".rstrip(" -"),
        )

    def snapshot(self, directory: str, view: str = "snapshot") -> dict:
        command = [self.program("trafficgen"), "fetch", f"{directory}/control.sock", f"/v1/{view}"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def reports(self) -> None:
        """Reports of 100,000 exchanges a second, as a library sends them."""
        seconds = self.seconds(10)
        for paths, what in ((500, "500 paths"), (1_000_000, "every path another")):
            count = 100_000 * seconds
            with self.daemon() as (process, directory):
                before = resident_mib(process.pid)
                sender = [sys.executable, str(pathlib.Path(__file__).with_name("reports.py"))]
                command = [*sender, f"{directory}/report.sock", str(count), "100000", str(paths)]
                with self.child(*command, output=subprocess.PIPE) as child:
                    while not self.snapshot(directory)["totals"]["payload_sent_bytes"] >= 300 * count:
                        time.sleep(0.5)
                    # Only then does the sender make the datagrams, which takes a while.
                    start = cpu_seconds(process.pid)
                    elapsed, full = child.stdout.readline().split()
                    for _ in range(20):
                        time.sleep(0.5)
                        counters = self.snapshot(directory)["capture"]["reports"]
                        if counters["records"] >= count - int(full):
                            break
                    processor = (cpu_seconds(process.pid) - start) / float(elapsed)
                    lost = 2 * count - counters["joined"]
                    rows = len(self.snapshot(directory, "endpoints")["endpoints"])
                rate = count / float(elapsed)
                self.row(
                    f"reports, {what}",
                    f"{rate:,.0f} exchanges/s for {seconds} s, {lost} of {2 * count:,} messages lost, {processor:.0%} of a core",
                    f"(bound 100,000/s, 0, 100 %) {rows} rows, {before:.0f} to {resident_mib(process.pid):.0f} MiB",
                )

    def join(self) -> None:
        joins = [self.program("ledgerbench"), "joins"]
        result = json.loads(subprocess.check_output(joins))
        self.row("join of a request and its response", f"{result['us_per_exchange']:.2f} µs", "(bound 0.9 µs) read and joined")
        crowded = json.loads(subprocess.check_output([*joins, "--others", "100000"]))
        self.row(
            "a single report beside 100,000 sockets",
            f"{crowded['ms_of_one_report'] * 1_000:.0f} µs", f"{result['ms_of_one_report'] * 1_000:.0f} µs beside none",
        )

    def history(self) -> None:
        result = json.loads(subprocess.check_output([self.program("ledgerbench"), "history"]))
        self.row("a minute of history, 2,000 groups", f"{result['minute_ms']:.1f} ms", f"{result['ms_per_25000_rows']:.0f} ms for 25,000 rows (bound 100)")
        self.row("a row of history", f"{result['bytes_per_row']:.1f} bytes", "(bound 40)")
        self.row("30 days by unit and day, of 2,000 groups", f"{result['answer_30d_ms']:.0f} ms", "(bound 200)")
        self.row("a minute of history, 2,000 endpoints", f"{result['endpoint_minute_ms']:.1f} ms", f"{result['endpoint_ms_per_25000_rows']:.0f} ms for 25,000 rows (bound 100)")
        self.row("a row of history of an endpoint", f"{result['endpoint_bytes_per_row']:.1f} bytes", "(bound 40)")
        self.row("30 days by host and day, of 2,000 endpoints", f"{result['endpoint_answer_30d_ms']:.0f} ms", "(bound 200)")

    def metrics(self) -> None:
        scrape = [self.program("ledgerbench"), "metrics", "--programs", "500", "--endpoints", "130"]
        result = json.loads(subprocess.check_output(scrape))
        took = result["ms_on_counting_thread"] + result["ms_of_text"]
        self.row(
            f"a scrape of {result['series']:,} series",
            f"{took:.1f} ms, {result['bytes'] / 1e6:.2f} MB",
            f"(bound 50 ms, 2 MB) {result['ms_on_counting_thread']:.1f} ms of it on the counting thread",
        )

    def page(self) -> None:
        page.measure(self)

    def library(self) -> None:
        library.measure(self)

    def instructions(self) -> None:
        instructions.measure(self)
        allocations.measure(self)

    def report(self, capture: str, commit: str) -> str:
        """The rows as Markdown. The head names everything that the figures depend on, because a document must not mix
        figures of two runs."""
        quick = ", quick" if self.quick else ""
        head = (
            f"One run of `scripts/bench` on {time.strftime('%Y-%m-%d')} at commit {commit}: Linux {os.uname().release}, "
            f"{capture}, {processor()}, medians{quick}; ± is half the range of the middle half."
        )
        rows = ("| " + " | ".join(cell.strip().replace("|", "\\|") for cell in row) + " |" for row in self.rows)
        return "\n".join([textwrap.fill(head, 120), "", "| | figure | beside it |", "|---|---|---|", *rows])


def replace_table(document: pathlib.Path, table: str) -> None:
    """Replaces what is between the two marks of the document."""
    before, rest = document.read_text().split(FIRST_MARK)
    _, after = rest.split(LAST_MARK)
    document.write_text(f"{before}{FIRST_MARK}\n\n{table}\n\n{LAST_MARK}{after}")


def processor() -> str:
    """The number and the model of the processors."""
    names = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} processors ({names[0]})" if names else f"{os.cpu_count()} processors"


def run(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    figures = (
        "cost_of_a_call", "round_trip", "web_server", "idle", "many_sockets", "churn", "packets", "reports", "join", "history",
        "metrics", "page", "library", "instructions",
    )
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--commit", default="unknown", help=argparse.SUPPRESS)
    parser.add_argument("--document", type=pathlib.Path, help="replace the table in this document")
    parser.add_argument("--quick", action="store_true", help="less than half of the time; figures are rougher")
    parser.add_argument("--only", choices=figures, action="append", help="only this figure; may be repeated")
    arguments = parser.parse_args()
    bench = Bench(arguments.programs, arguments.quick)
    try:
        capture = bench.capture()
        for figure in arguments.only or figures:
            print(f"measuring {figure.replace('_', ' ')}", file=sys.stderr, flush=True)
            getattr(bench, figure)()
        table = bench.report(capture, arguments.commit)
        print(table)
        if arguments.document:
            replace_table(arguments.document, table)
    finally:
        shutil.rmtree(bench.work, ignore_errors=True)


if __name__ == "__main__":
    main()
