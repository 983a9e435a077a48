"""What counting adds to a request and its answer, in nanoseconds. One thread plays both ends, so the figure is far
steadier than the throughput of a server, and shows what a server pays for each request."""

import random
import statistics
import subprocess
import time

import counting


def measure(bench) -> None:
    program = bench.compiled("round_trip.c")
    ways = counting.ways(bench)
    times: dict[str, list[float]] = {name: [] for name in ways}
    rounds = 5 if bench.quick else 15
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            with ways[name]():
                time.sleep(0.5)
                times[name].append(float(subprocess.check_output([program, "120"])))
    floor = added(times[counting.FLOOR], times[counting.NOTHING])
    bench.row("round trip of one thread, nobody counts", f"{statistics.median(times[counting.NOTHING]):,.0f} ns", f"medians of {rounds} rounds")
    for name in list(ways)[1:]:
        low, middle, high = added(times[name], times[counting.NOTHING])
        bench.row(f"  {name}", f"{middle:+,.0f} ns ±{(high - low) / 2:.0f}", f"{middle - floor[1]:+,.0f} ns to the floor")


def added(times: list[float], others: list[float]) -> list[float]:
    """Quartiles of what one way adds to the other, within a round."""
    return statistics.quantiles((one - other for one, other in zip(times, others)), n=4)
