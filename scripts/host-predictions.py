#!/usr/bin/env python3
"""Compares system-level traces with predictions from them, as Markdown.

    scripts/host-predictions.py TRACE.sys=DEVICE[:SCHEDULER] [...]
    scripts/host-predictions.py TRACE.sys=DEVICE[:SCHEDULER] --against OTHER.sys

The prediction runs the programs of TRACE.sys on DEVICE. It is compared with TRACE.sys itself, which was recorded on that
device, or with OTHER.sys, which was recorded there while TRACE.sys was recorded on another one. Reads count as alike if both
have the same address and length; a missing or additional one counts as unlike. `--reads` lists the first reads that only one side has.

Settings: SEEKLAB (the program), HOST (for `simulate --host`).
"""

import argparse
import collections
import csv
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEKLAB = os.environ.get("SEEKLAB", str(ROOT / "target/release/seeklab"))


def seeklab(*arguments):
    done = subprocess.run([SEEKLAB, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"seeklab {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def rows(trace, folder, name):
    """Operation, address and length of each request, in the order of arrival."""
    path = folder / f"{name}.csv"
    seeklab("trace", "convert", trace, path)
    with open(path) as file:
        lines = [line for line in file if not line.startswith("#")]
    return [(row["op"], int(row["lbn"]), int(row["blocks"])) for row in csv.DictReader(lines)]


def io_wait_s(waits):
    kinds = ("data_read", "metadata_read", "write", "flush", "journal", "throttle", "queue", "memory")
    return sum(waits[f"{kind}_s"] for kind in kinds)


def requests_of(requests):
    def of(op):
        return [blocks for kind, _, blocks in requests if kind == op]

    return {
        "requests": len(requests),
        "reads": len(of("read")),
        "writes": len(of("write")),
        "flushes": len(of("flush")),
        "KiB read": sum(of("read")) / 2,
        "KiB written": sum(of("write")) / 2,
    }


def measured_of(trace, requests):
    info = json.loads(seeklab("trace", "info", trace, "--json"))["traces"][0]
    task = info["task"]
    return {
        "elapsed s": info["command_elapsed_s"],
        "task CPU s": task["computing_s"],
        "I/O waits": info["io_waits"],
        "I/O wait s": io_wait_s(task["waits"]),
        "ready s": task["ready_s"],
        "switches of the task": task["switches"],
        **requests_of(requests),
    }


def predicted_of(host, requests):
    return {
        "elapsed s": host["elapsed_s"],
        "task CPU s": host["task_cpu_s"],
        "I/O waits": host["io_waits"],
        "I/O wait s": host["io_wait_s"],
        "ready s": None,
        "switches of the task": host["context_switches"],
        **requests_of(requests),
    }


def compare(trace, configuration, against, lists_reads):
    device, _, scheduler = configuration.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        out = folder / "predicted.parquet"
        arguments = ["simulate", device, "--workload", trace, "--json", "--out", out]
        if scheduler:
            arguments += ["--scheduler", scheduler]
        if os.environ.get("HOST"):
            arguments += ["--host", os.environ["HOST"]]
        simulated = json.loads(seeklab(*arguments))["devices"][0]
        predicted_requests = rows(out, folder, "predicted")
        measured_requests = rows(Path(against) / "requests.parquet", folder, "measured")
    measured = measured_of(against, measured_requests)
    predicted = predicted_of(simulated["host"], predicted_requests)
    print(f"\n{Path(trace).name} on {configuration}, compared with {Path(against).name}\n")
    print("| figure | measured | predicted | difference |\n| --- | --- | --- | --- |")
    for name, value in measured.items():
        guess = predicted[name]
        if guess is None:
            print(f"| {name} | {value:.4g} |  |  |")
            continue
        difference = f"{100 * (guess - value) / value:+.1f} %" if value else ""
        show = (lambda number: f"{number:.4f}") if name.endswith(" s") else (lambda number: f"{number:.0f}")
        print(f"| {name} | {show(value)} | {show(guess)} | {difference} |")
    one, other = (
        collections.Counter((lbn, blocks) for op, lbn, blocks in side if op == "read")
        for side in (measured_requests, predicted_requests)
    )
    alike = (one & other).total()
    print(f"| reads alike | {alike} of {max(one.total(), other.total())} | | {100 * alike / max(one.total(), other.total(), 1):.1f} % |")
    if lists_reads:
        for name, side, rest in (("measured", measured_requests, one - other), ("predicted", predicted_requests, other - one)):
            print(f"\nReads that are {name} only, by their position among all requests:\n")
            left = collections.Counter(rest)
            shown = 0
            for position, (op, lbn, blocks) in enumerate(side):
                if op == "read" and left[(lbn, blocks)] > 0 and shown < lists_reads:
                    left[(lbn, blocks)] -= 1
                    shown += 1
                    print(f"    {position} {lbn} {blocks}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE.sys=DEVICE[:SCHEDULER]")
    parser.add_argument("--against", metavar="OTHER.sys", help="trace that was recorded on DEVICE")
    parser.add_argument("--reads", type=int, default=0, metavar="N", help="reads to list that only one side has")
    arguments = parser.parse_args()
    for pair in arguments.traces:
        trace, _, configuration = pair.partition("=")
        if not configuration:
            parser.error(f"{pair}: write TRACE.sys=DEVICE")
        compare(trace, configuration, arguments.against or trace, arguments.reads)


if __name__ == "__main__":
    main()
