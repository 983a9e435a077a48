"""Run times of BPF programs by the kernel's own statistics."""

import contextlib
import json
import pathlib
import subprocess


@contextlib.contextmanager
def bpf_statistics():
    """Switches kernel.bpf_stats_enabled on during the block. This costs every call of every program about 20 ns."""
    switch = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


def program_times() -> dict[int, tuple[str, int, int]]:
    listing = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"]))
    return {
        row["id"]: (row.get("name", ""), row.get("run_time_ns", 0), row.get("run_cnt", 0)) for row in listing
    }


def program_costs(before: dict[int, tuple[str, int, int]]) -> dict[str, float]:
    """Nanoseconds per run, by program name, for the programs that ran more than 10,000 times since `before`."""
    costs = {}
    for identity, (name, nanoseconds, count) in program_times().items():
        _, earlier_ns, earlier_count = before.get(identity, (name, 0, 0))
        if count - earlier_count > 10_000:
            # bpftool shows the first 15 letters of a name.
            full = next((known for known in ("sock_send_length", "sock_recv_length") if known.startswith(name)), name)
            costs[full] = (nanoseconds - earlier_ns) / (count - earlier_count)
    return costs
