"""What it costs to count every packet. iperf3 runs over a veth pair between two namespaces of its own: without
trafficd, and with each choice of --wire. Each round has all modes, with segmentation offload and without."""

import contextlib
import json
import os
import statistics
import subprocess
import time

from statistics_of_bpf import bpf_statistics, program_costs, program_times

MODES = ("none", "derived", "exact", "audited")


def measure(bench) -> None:
    for offload in ("on", "off"):
        with Link(offload) as link:
            rates = {mode: [] for mode in MODES}
            costs: dict[str, list[float]] = {}
            for _ in range(bench.runs):
                for mode in MODES:
                    with running(bench, mode):
                        rates[mode].append(link.bits_per_second(bench.seconds(5)))
            with running(bench, "audited"), bpf_statistics():
                before = program_times()
                link.bits_per_second(bench.seconds(5))
                for name, cost in program_costs(before).items():
                    costs.setdefault(name, []).append(cost)
        none = statistics.median(rates["none"])
        # Ratios are of one round, because the machine's other work changes more from round to round than from mode to
        # mode.
        ratio = {
            mode: statistics.median(with_it / without for with_it, without in zip(rates[mode], rates["none"]))
            for mode in MODES
        }
        bench.row(
            f"iperf3 over veth, offload {offload}",
            f"{none / 1e9:.2f} Gbit/s without trafficd",
            f"derived x{ratio['derived']:.3f}, exact x{ratio['exact']:.3f}, audited x{ratio['audited']:.3f}"
            + (" (bound of exact x0.93)" if offload == "off" else ""),
        )
        seen = [f"{name} {statistics.median(costs[name]):.0f}" for name in sorted(costs) if name in PROGRAMS]
        bench.row(f"per packet, offload {offload}", "ns: " + (", ".join(seen) or "too few packets"))


PROGRAMS = ("packet_sent", "packet_received", "interface_sent", "interface_received", "interface_recei")


@contextlib.contextmanager
def running(bench, mode: str):
    if mode == "none":
        yield
        return
    with bench.daemon("--wire", mode):
        yield


class Link:
    """Two namespaces, and a pair of virtual Ethernet interfaces between them."""

    def __init__(self, offload: str):
        self.offload = offload
        self.near, self.far = f"trafficd-near-{os.getpid()}", f"trafficd-far-{os.getpid()}"

    def __enter__(self):
        for name in (self.near, self.far):
            ip("netns", "add", name)
        ip("link", "add", "veth0", "netns", self.near, "type", "veth", "peer", "name", "veth0", "netns", self.far)
        for name, address in ((self.near, "10.213.0.1/24"), (self.far, "10.213.0.2/24")):
            ip("-netns", name, "address", "add", address, "dev", "veth0")
            ip("-netns", name, "link", "set", "veth0", "up")
            for feature in ("tso", "gso", "gro"):
                subprocess.run(
                    ["ip", "netns", "exec", name, "ethtool", "-K", "veth0", feature, self.offload],
                    check=True, capture_output=True,
                )
        self.server = subprocess.Popen(
            ["ip", "netns", "exec", self.far, "iperf3", "--server"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        return self

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()
        for name in (self.near, self.far):
            ip("netns", "delete", name)

    def bits_per_second(self, seconds: int) -> float:
        client = ["ip", "netns", "exec", self.near, "iperf3", "--client", "10.213.0.2", "--time", str(seconds), "--json"]
        for _ in range(20):
            result = subprocess.run(client, capture_output=True, text=True)
            answer = json.loads(result.stdout or "{}")
            if "error" not in answer:
                return answer["end"]["sum_received"]["bits_per_second"]
            time.sleep(0.2)  # the server is still busy with the last run
        raise SystemExit(f"iperf3: {answer['error']}")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
