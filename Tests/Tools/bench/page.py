"""What a live page costs the daemon: the stream that its list of processes asks for, with many processes that all move."""

import subprocess
import sys
import time

import processes

COUNT = 500

# Each process sends a datagram to itself each second. The first one ends them all, with its group.
MOVERS = """
import os, socket, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.bind(("127.0.0.1", 0))
        while True:
            own.sendto(bytes(100), own.getsockname())
            own.recv(100)
            time.sleep(1)
print("ready", flush=True)
time.sleep(3600)
"""


def measure(bench) -> None:
    with (
        bench.child(sys.executable, "-c", MOVERS, str(COUNT), output=subprocess.PIPE) as movers,
        bench.daemon() as (daemon, directory),
    ):
        movers.stdout.readline()
        time.sleep(5)
        seconds = bench.seconds(30)

        def usage() -> float:
            start = processes.cpu_seconds(daemon.pid)
            time.sleep(seconds)
            return (processes.cpu_seconds(daemon.pid) - start) / seconds * 100

        without = usage()
        # As in Sources/TrafficPage/Page/live.js.
        url = "http://localhost/v1/stream?interval=1&view=processes"
        with bench.child("curl", "-sN", "--unix-socket", f"{directory}/control.sock", url):
            time.sleep(2)
            shown = usage()
        bench.row(
            f"a live page with {COUNT} processes that all move, at 1 Hz",
            f"{shown:.2f} % of one core", f"(bound 2 %) {without:.2f} % without it",
        )
