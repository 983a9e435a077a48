"""Many open sockets: what a sweep takes beside a walk that only looks at each socket, and the daemon's processor time.
A million sockets are simulated: the ledger gets them without a kernel (ledgerbench)."""

import contextlib
import json
import socket
import statistics
import subprocess
import threading
import time

from processes import cpu_seconds, resident_mib
from statistics_of_bpf import bpf_statistics, program_times

IN_GENERATOR = 18_000  # a process may have 20,000 files
SWEEPS = ("sweep_sockets", "sweep_held_sock")  # bpftool shows the first 15 letters


def measure(bench) -> None:
    requests(bench, 10_000)
    sweeps(bench, 100_000)
    ledger(bench, 1_000_000)


def requests(bench, count: int) -> None:
    with bench.daemon() as (process, directory):
        time.sleep(2)
        before = resident_mib(process.pid)
        with bench.held_sockets(count):
            time.sleep(3)
            fetch = [bench.program("trafficgen"), "fetch", f"{directory}/control.sock", "/v1/snapshot"]
            export = [bench.program("trafficctl"), "export", "--format", "json", "--runtime-directory", directory]
            bench.row(f"{count:,} sockets: GET /v1/snapshot", f"{bench.median_ms(fetch):.0f} ms", "(bound 100 ms)")
            bench.row(f"{count:,} sockets: trafficctl export", f"{bench.median_ms(export):.0f} ms", "(bound 100 ms)")
            grown = (resident_mib(process.pid) - before) * 1024 * 1024 / count
            bench.row("  memory for each socket", f"{grown:,.0f} bytes", "resident, of the daemon")


def sweeps(bench, count: int) -> None:
    """All sockets idle but for each hundredth, which moves bytes twice a second."""
    with bench.daemon() as (process, _directory), contextlib.ExitStack() as stack:
        for first in range(0, count, IN_GENERATOR):
            stack.enter_context(bench.held_sockets(min(IN_GENERATOR, count - first)))
        stack.enter_context(moving(count // 200))
        time.sleep(5)
        seconds = bench.seconds(30)
        start = cpu_seconds(process.pid)
        time.sleep(seconds)
        usage = (cpu_seconds(process.pid) - start) / seconds * 100
        with bpf_statistics():
            before = program_times()
            time.sleep(seconds)
            runs, nanoseconds = grown(before)
        looks, reads = (walk(bench, program, 5 if bench.quick else 15) for program in ("walk", "walk_counters"))
    of_socket = nanoseconds / max(runs, 1)
    floor = "no floor: the kernel refuses the walk"
    if looks and reads:
        floor = f"a walk takes {looks:.1f} ms if it only looks at each socket, {reads:.1f} ms if it reads its counters"
    bench.row(
        f"{count:,} sockets, 1 % active: sweep",
        f"{nanoseconds / seconds / 1e6:.1f} ms a second",
        f"(bound 25 ms) {of_socket:.0f} ns a socket in the program, with about 20 ns for the statistics",
    )
    bench.row("  the daemon", f"{usage:.1f} % of a core", f"(bound 2 %) {floor}")


@contextlib.contextmanager
def moving(pairs: int):
    """Connections over loopback that each move 200 bytes twice a second."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, contextlib.ExitStack() as stack:
        ends = []
        for _ in range(pairs):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            ends.append((client, stack.enter_context(listener.accept()[0])))
        over = threading.Event()

        def move() -> None:
            while not over.wait(0.5):
                for client, server in ends:
                    client.sendall(bytes(200))
                    server.recv(200, socket.MSG_WAITALL)

        mover = threading.Thread(target=move)
        mover.start()
        try:
            yield
        finally:
            over.set()
            mover.join()


def grown(before: dict) -> tuple[int, int]:
    """Runs and nanoseconds of the sweep's program since `before`."""
    runs = nanoseconds = 0
    for identity, (name, time_ns, count) in program_times().items():
        if name.startswith(SWEEPS):
            _, earlier_ns, earlier = before.get(identity, (name, 0, 0))
            runs, nanoseconds = runs + count - earlier, nanoseconds + time_ns - earlier_ns
    return runs, nanoseconds


def walk(bench, program: str, passes: int) -> float | None:
    """Milliseconds of a walk over the daemon's sockets; None where the daemon can't walk over them either."""
    if not any(name == "sweep_sockets" and count for name, _, count in program_times().values()):
        return None
    command = [bench.compiled("walk.c", "-lbpf"), bench.reference_programs(), program, str(passes)]
    result = subprocess.run(command, capture_output=True, text=True)
    return statistics.median(float(line) for line in result.stdout.split()) if result.returncode == 0 else None


def ledger(bench, count: int) -> None:
    result = json.loads(subprocess.check_output([bench.program("ledgerbench"), "sockets", "--count", str(count)]))
    bench.row(
        f"{count:,} sockets in the ledger, simulated",
        f"{result['bytes_per_socket']:,} bytes a socket, tick {result['tick_ms']:.0f} ms, snapshot {result['snapshot_ms']:,.0f} ms",
        f"JSON {result['json_bytes'] / 1e6:,.0f} MB in {result['json_ms']:.0f} ms: {result['listed']:,} sockets listed, "
        f"{result['unlisted']:,} in `sockets_unlisted`",
    )
