"""The ways to count that the benchmarks compare: nobody counts, reference programs, and trafficd with each choice of
witnesses."""

import contextlib
import statistics
import sys

NOTHING = "nothing"
# counter.bpf.c says what these programs do.
REFERENCE = "reference: finds socket and process of sends and TCP receives"
FLOOR = "floor: the reference, also called for all receives and packets"

DAEMONS = {
    "trafficd --wire derived": ["--wire", "derived"],
    "trafficd": [],
    "trafficd --wire audited": ["--wire", "audited"],
    "trafficd --method lifecycle": ["--method", "lifecycle", "--wire", "derived"],
}
# Of the reference, and of nothing.
BOUNDS = {"trafficd --wire derived": "x0.98", "trafficd": "x0.965"}
BOUNDS_OF_NOTHING = {"trafficd --method lifecycle": "x0.99"}


def ways(bench) -> dict:
    """By name: what makes a context in which that way counts."""
    found = {
        NOTHING: contextlib.nullcontext,
        "three programs that only bump a counter": lambda: bench.reference("bump_"),
        REFERENCE: lambda: bench.reference("find_"),
        FLOOR: lambda: bench.reference("find_", "floor_"),
    }
    for name, options in DAEMONS.items():
        found[name] = lambda options=options: bench.daemon(*options)
    found["trafficd with twins"] = lambda: twins(bench)
    return found


@contextlib.contextmanager
def twins(bench):
    """A second program for each call, as on kernels that may skip the first one (bpf/preempt.bpf.h)."""
    hidden = bench.compiled("hidden_variables.c", "-shared", "-fPIC", "-ldl")
    with bench.daemon("--method", "tracepoint", preloaded=hidden) as started:
        if bench.status(started[1])["hooks"].count("tp_btf/sock_send_length") != 2:
            sys.exit("trafficd has attached no twins")
        yield started


def ratio(rates: list[float], others: list[float]) -> str:
    """The median of the ratios within a round, and half the range of the middle half."""
    ratios = [one / other for one, other in zip(rates, others)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"x{middle:.3f} ±{(high - low) / 2:.3f}"
