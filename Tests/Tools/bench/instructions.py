"""How many instructions an exchange takes of a program because it reports, counted by callgrind.

The same program runs with a number of requests and with twice as many. The difference divided by the number is what a
request takes, without the program's start and end. The figure is this slope with reporting less the slope without.
Unlike a time, it hardly depends on the machine and on the other work of the machine. The system's own work is not in it.
callgrind makes a program some fifty times slower, so what a program does ten times a second weighs more than it should.
"""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading

from ports import free_port, wait_for_port

REQUESTS = 1500
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


def collected(errors: pathlib.Path) -> int:
    found = re.search(r"Collected : (\d+)", errors.read_text())
    return int(found[1]) if found else sys.exit(f"callgrind: {errors.read_text()}")


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
    def __init__(self, example: str, directory: str, requests: int = REQUESTS):
        # valgrind can't read the debug information of newer compilers. It needs only the names of functions.
        self.example, self.requests = f"{directory}/trafficexample", requests
        self.output = f"{directory}/callgrind.out"
        subprocess.run(["strip", "--strip-debug", "-o", self.example, example], check=True)

    def server(self, directory: str, options: list[str], load: list[str], tls: bool, requests: int) -> int:
        """Instructions of a server that answers so many requests."""
        port, errors = free_port(), pathlib.Path(directory, "errors")
        with program(errors, callgrind(self.output, self.example, "serve", "--port", str(port), *options)):
            wait_for_port(port, 60)
            url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/{PATH}"
            command = ["h2load", "--requests", str(requests), *load, url]
            text = subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)
            if f"{requests} succeeded" not in text:
                sys.exit(f"h2load: {text}")
        return collected(errors)

    def client(self, directory: str, options: list[str], requests: int) -> int:
        """Instructions of a client that makes so many requests, one after the other."""
        port, errors = free_port(), pathlib.Path(directory, "errors")
        with program(pathlib.Path(directory, "server"), [self.example, "serve", "--port", str(port), "--silent"]):
            wait_for_port(port)
            command = [self.example, "buy", "--port", str(port), "--orders", str(requests), *options]
            with program(errors, callgrind(self.output, *command)) as process:
                process.wait(600)
        return collected(errors)

    def difference(self, run) -> tuple[float, float]:
        """Runs with reporting and without. Returns what a request takes without, and what reporting adds."""
        slopes = {}
        for reports in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                listener = Listener(directory)
                options = ["--report-socket", listener.path] if reports else ["--silent"]
                counts = [run(directory, options, self.requests * factor) for factor in (1, 2)]
                slopes[reports] = (counts[1] - counts[0]) / self.requests
                if reports != (listener.datagrams > 0):
                    sys.exit(f"{listener.datagrams} datagrams came from a program with {options}")
        return slopes[False], slopes[True] - slopes[False]

    def all(self):
        """Yields each figure's name, what a request takes without reporting, what reporting adds, and the bound."""
        one_by_one = ["--clients", "8", "--max-concurrent-streams", "1", "--h1"]
        streams = ["--clients", "8", "--max-concurrent-streams", "8"]
        plain = self.difference(lambda d, options, n: self.server(d, options, one_by_one, False, n))
        yield ("server, HTTP/1.1", *plain, 6_500)
        yield (
            "server, HTTP/2",
            *self.difference(lambda d, options, n: self.server(d, [*options, "--http2"], streams, False, n)),
            15_000,
        )
        yield ("AsyncHTTPClient", *self.difference(self.client), 8_000)
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = f"{directory}/certificate.pem", f"{directory}/key.pem"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
                + ["-keyout", key, "-out", certificate],
                check=True, capture_output=True,
            )
            secret = ["--certificate", certificate, "--key", key]
            tls = self.difference(lambda d, options, n: self.server(d, [*options, *secret], one_by_one, True, n))
        yield ("server, HTTP/1.1 with TLS", *tls, round(plain[1] * 1.5))


def measure(bench) -> None:
    for name, without, added, bound in Measurement(bench.program("trafficexample"), str(bench.work)).all():
        bench.row(f"instructions of an exchange, {name}", f"{added:,.0f}", f"beside {without:,.0f} (bound {bound:,})")


if __name__ == "__main__":
    # usage: instructions.py TRAFFICEXAMPLE [FOLDER]: without the rest of the benchmark. The last run's profile stays in
    # the folder, for callgrind_annotate.
    with tempfile.TemporaryDirectory() as own:
        for name, without, added, bound in Measurement(sys.argv[1], (sys.argv[2:] or [own])[0]).all():
            print(f"{name}: {added:,.0f} beside {without:,.0f} (bound {bound:,})", flush=True)
