"""How many instructions an exchange takes of a program because it reports, counted by callgrind.

The same program runs with a number of requests and with twice as many. The difference divided by the number is what a
request takes, without the program's start and end. The figure is this slope with reporting less the slope without.
Unlike a time, it hardly depends on the machine and on the other work of the machine. The system's own work is not in it.
callgrind makes a program some fifty times slower, so what a program does ten times a second weighs more than it should.

Beside each figure is that of another program, reportfloor, which does less than any library can. Its second figure is
with llhttp, the parser of NIO: it then finds the ends of the messages, as every library must that knows where an
exchange ends.

What the look-ups in the caches of Swift's runtime take depends on where its objects happen to be in memory: by
thousands of instructions an exchange, more than all of reporting. So the functions of these look-ups are left out. Each
figure is the median of several turns.
"""

import contextlib
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

from ports import free_port, wait_for_port

REQUESTS = 1500
TURNS = 5
# Each exchange at its cheapest: the same request again, the smallest answers.
PATH = "orders/1"


class Listener:
    """Takes datagrams as a daemon does, and counts them. Without it the program would soon stop to report."""

    def __init__(self, directory: str):
        self.path = f"{directory}/report.sock"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.datagrams = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while self.socket.recv(1 << 16):
            self.datagrams += 1


def callgrind(output: str, *command: str) -> list[str]:
    # valgrind runs one thread at a time, and would let one of them spin while the others wait.
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", "--fair-sched=try", *command]


# Functions of the runtime's caches of metadata and conformances.
CACHES = re.compile("HashMap|MetadataCacheKey|LockingConcurrentMap")


def collected(output: str, errors: pathlib.Path) -> int:
    """Instructions of a program that has ended, without those of the runtime's caches."""
    if "Collected : " not in errors.read_text():
        sys.exit(f"callgrind: {errors.read_text()}")
    options = ["--threshold=100", "--show-percs=no"]
    total = 0
    for line in subprocess.check_output(["callgrind_annotate", *options, output], text=True).splitlines():
        function = re.match(r"\s*([\d,]+)\s+\S+:(.*)", line)
        if function and not CACHES.search(function[2]):
            total += int(function[1].replace(",", ""))
    return total


@contextlib.contextmanager
def program(errors: pathlib.Path, command: list[str]):
    # Swift's hashes differ from run to run, and so does the work of its dictionaries.
    environment = os.environ | {"SWIFT_DETERMINISTIC_HASHING": "1"}
    with errors.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)


class Measurement:
    """What reporting adds to a program that serves and buys, as trafficexample and reportfloor do."""

    def __init__(self, path: str, directory: str, turns: int = TURNS):
        # valgrind can't read the debug information of newer compilers. It needs only the names of functions.
        self.program, self.turns = f"{directory}/{pathlib.Path(path).name}", turns
        self.output = f"{self.program}.callgrind.out"
        subprocess.run(["strip", "--strip-debug", "-o", self.program, path], check=True)

    def server(self, directory: str, options: list[str], load: list[str], tls: bool, requests: int) -> int:
        """Instructions of a server that answers so many requests."""
        port, errors = free_port(), pathlib.Path(directory, "errors")
        with program(errors, callgrind(self.output, self.program, "serve", "--port", str(port), *options)):
            wait_for_port(port, 60)
            url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/{PATH}"
            command = ["h2load", "--requests", str(requests), *load, url]
            text = subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)
            if f"{requests} succeeded" not in text:
                sys.exit(f"h2load: {text}")
        return collected(self.output, errors)

    def client(self, directory: str, options: list[str], requests: int) -> int:
        """Instructions of a client that makes so many requests, one after the other."""
        port, errors = free_port(), pathlib.Path(directory, "errors")
        with program(pathlib.Path(directory, "server"), [self.program, "serve", "--port", str(port), "--silent"]):
            wait_for_port(port)
            command = [self.program, "buy", "--port", str(port), "--orders", str(requests), *options]
            with program(errors, callgrind(self.output, *command)) as process:
                process.wait(600)
        return collected(self.output, errors)

    def difference(self, run) -> tuple[float, float]:
        """Runs with reporting and without. Returns what a request takes without, and what reporting adds."""
        slopes = {}
        for reports in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                listener = Listener(directory)
                options = ["--report-socket", listener.path] if reports else ["--silent"]
                counts = [run(directory, options, REQUESTS * factor) for factor in (1, 2)]
                slopes[reports] = (counts[1] - counts[0]) / REQUESTS
                if reports != (listener.datagrams > 0):
                    sys.exit(f"{listener.datagrams} datagrams came from a program with {options}")
        return slopes[False], slopes[True] - slopes[False]

    def added(self, run) -> "Figure":
        turns = [self.difference(run) for _ in range(self.turns)]
        return Figure(statistics.median(without for without, _ in turns), [added for _, added in turns])

    def http1(self, *special: str, tls: bool = False) -> "Figure":
        """`special`: options of the program."""
        load = ["--clients", "8", "--max-concurrent-streams", "1", "--h1"]
        return self.added(lambda d, more, n: self.server(d, [*more, *special], load, tls, n))

    def http2(self) -> "Figure":
        load = ["--clients", "8", "--max-concurrent-streams", "8"]
        return self.added(lambda d, more, n: self.server(d, [*more, "--http2"], load, False, n))

    def buying(self, *special: str) -> "Figure":
        return self.added(lambda d, more, n: self.client(d, [*more, *special], n))


class Figure:
    def __init__(self, without: float, added: list[float]):
        self.without = without
        low, self.added, high = statistics.quantiles(added, n=4)
        self.half_range = (high - low) / 2

    def __str__(self) -> str:
        return f"{self.added:,.0f} ±{self.half_range:,.0f}"


def rows(example: Measurement, floor: Measurement):
    """Yields each figure's name, the figure, and what is beside it."""

    def row(name: str, aim: int, bound: float, ours: Figure, least: Figure, parsing: Figure | None = None):
        ratio = f"x{ours.added / least.added:.2f} of reportfloor's {least} (bound x{bound:.2f}, aim {aim:,})"
        if parsing:
            ratio += f"; x{ours.added / parsing.added:.2f} of its {parsing} with llhttp"
        return name, str(ours), f"{ratio}; {ours.without:,.0f} without reports"

    plain = example.http1()
    yield row("server, HTTP/1.1", 6_500, 3, plain, floor.http1(), floor.http1("--llhttp"))
    yield row("server, HTTP/2", 15_000, 3.5, example.http2(), floor.http2())
    yield row("AsyncHTTPClient", 8_000, 4, example.buying(), floor.buying(), floor.buying("--llhttp"))
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = f"{directory}/certificate.pem", f"{directory}/key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
            + ["-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )
        secret = example.http1("--certificate", certificate, "--key", key, tls=True)
    beside = f"(bound x1.50 of plain) x{secret.added / plain.added:.2f}; {secret.without:,.0f} without reports"
    yield "server, HTTP/1.1 with TLS", str(secret), beside


def measure(bench) -> None:
    turns = 2 if bench.quick else TURNS
    example, floor = (Measurement(bench.program(name), str(bench.work), turns) for name in ("trafficexample", "reportfloor"))
    for name, figure, beside in rows(example, floor):
        bench.row(f"instructions of an exchange, {name}", figure, beside)


if __name__ == "__main__":
    # usage: instructions.py FOLDER-OF-PROGRAMS [FOLDER]: without the rest of the benchmark. The last profile of each
    # program stays in the folder, for callgrind_annotate.
    with tempfile.TemporaryDirectory() as own:
        folder = (sys.argv[2:] or [own])[0]
        programs = [Measurement(f"{sys.argv[1]}/{name}", folder) for name in ("trafficexample", "reportfloor")]
        for name, figure, beside in rows(*programs):
            print(f"{name}: {figure} {beside}", flush=True)
