#!/usr/bin/env python3
"""Measure one plan on `model:D` and on `seeklab serve D`, and compare throughput, p50 and p99 of each phase.

The emulated device is measured over NBD on a unix socket, or as a block device, in real time; the model in virtual time, with the same plan and seed. Each
phase has an emulator of its own, because the emulator's report is one on its whole run. Runs count if that report trusts them, with care
at most over NBD, where nothing measures what the host adds (`trust`); phases whose figures differ by more than the tolerance make the
exit code 1. Times of a disk depend on where its platters
are when a phase begins, so the means over several seeds are compared. The emulator keeps idle processors awake (`--pacing exact`), and compensates for
what the machine adds if it was calibrated.

    cargo build --release -p seeklab && target/release/seeklab calibrate && scripts/plan-real-and-simulated.py --seconds 20 --seeds 5
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ["requests_per_second", "response_p50_ms", "response_p99_ms"]
# Rates that each device sustains, in requests per second.
DEVICES = {"cheetah-36es": 60, "hp-c2247a": 30, "exponential": 50, "constant": 50}
WIDTHS = [14, 22, 9, 10, 9, 9, 8]
PHASES = [
    ("random reads, closed", "random,size=4KiB,read=100%,closed=4"),
    ("oltp, open", "random,size=8KiB,read=67%,poisson={rate}/s"),
    ("sequential, open", "sequential,size=64KiB,read=100%,constant={rate}/s"),
]


def measure(binary, folder, target, workload, arguments, seed):
    """The figures of a measurement of one phase."""
    path = folder / "plan.toml"
    phase = f'[[phases]]\nduration = "{arguments.seconds}s"\n[[phases.streams]]\nworkload = "{workload}"\n'
    path.write_text(f'target = "{target}"\n{phase}')
    command = [binary, "bench", str(path), "--json", "--seed", str(seed)]
    if not target.startswith("model:") and "read=100%" not in workload:
        command += ["--destroy", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def emulated(binary, folder, device, workload, arguments, seed):
    """The figures of a measurement of the emulated device, and the emulator's report."""
    socket = folder / "disk.sock"
    socket.unlink(missing_ok=True)
    frontend = ["--block"] if arguments.block else ["--nbd", f"unix:{socket}"]
    command = [binary, "serve", device, *frontend, "--json", "--seed", str(seed), "--pacing", arguments.pacing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            # It tells when it is ready, and ends its output when it ends.
            ready = next((line for line in server.stderr if " is ready: " in line), None)
            if ready is None:
                sys.exit(f"{' '.join(command)}: ended with {server.wait()}")
            target = ready.split(" is ready: ")[1].strip()
            figures = measure(binary, folder, target, workload, arguments, seed)
        finally:
            server.send_signal(signal.SIGTERM)
        report, _ = server.communicate()
    return figures, json.loads(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="*", default=list(DEVICES), help="devices of the catalog")
    parser.add_argument("--binary", default=str(ROOT / "target/release/seeklab"))
    parser.add_argument("--block", action="store_true",
                        help="as a block device in place of NBD, where the emulator measures what the host adds; needs root")
    parser.add_argument("--pacing", default="exact", help="exact, balanced or frugal")
    parser.add_argument("--seconds", type=int, default=20, help="length of each phase")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each device")
    parser.add_argument("--tolerance", type=float, default=5.0, help="percent")
    arguments = parser.parse_args()
    wrong = compared = 0
    columns = ["device", "phase", "requests", "throughput", "p50", "p99", "trusted"]
    print("  ".join(name.ljust(width) for name, width in zip(columns, WIDTHS)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for device in arguments.devices:
            rate = DEVICES.get(device, 50)
            for phase, workload in PHASES:
                workload = workload.format(rate=rate)
                pairs = []
                for seed in range(1, arguments.seeds + 1):
                    simulated = measure(arguments.binary, folder, f"model:{device}", workload, arguments, seed)
                    real, report = emulated(arguments.binary, folder, device, workload, arguments, seed)
                    pairs.append((simulated, real, report["trust"]))
                trusted = [pair for pair in pairs if pair[2] in ("trusted", "with_care")]
                changes = []
                for figure in FIGURES:
                    model, measured = (mean(pair[side][figure] for pair in trusted or pairs) for side in (0, 1))
                    changes.append(100 * (measured / model - 1))
                requests = sum(pair[1]["requests"] for pair in trusted or pairs)
                cells = [device, phase, str(requests), *(f"{change:+.2f} %" for change in changes)]
                cells.append(f"{len(trusted)} of {len(pairs)}")
                print("  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS)), flush=True)
                if trusted:
                    compared += 1
                    wrong += any(abs(change) > arguments.tolerance for change in changes)
    print(f"{compared} phases compared, {wrong} differ by more than {arguments.tolerance:g} %")
    sys.exit(1 if wrong or not compared else 0)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
