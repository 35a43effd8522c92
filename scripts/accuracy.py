#!/usr/bin/env python3
"""How exact the emulator is, beside this machine's own noise and beside what people use today.

Three tables on stdout, as Markdown:

1. lateness at MP2 of a disk's requests over NBD, FUSE and a block device, and of an empty loop that meets the
   same kind of deadlines, in turns;
2. EI and EA between the host (MP1) and the model (MP3) by the method of Griffin 2004, section 5.4: 1,000 like
   requests, 50 ms apart, best of three, beside his tables 5.7 and 5.8;
3. a fixed delay by seeklab, by nbdkit's delay filter and by qemu-storage-daemon, as fio sees it, in turns.

Run as root after `seeklab calibrate`, on a machine that does nothing else:
    cargo build --release && cargo build --release -p seeklab-emulator --example empty_loop
    scripts/accuracy.py [--quick] [lateness] [paper] [peers]
Needs fio; nbdkit and qemu-storage-daemon for the third table. The first takes 6 minutes, the second 24
(--quick: 200 requests, 10 ms apart), the third one.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
SEEKLAB = os.environ.get("SEEKLAB", str(TARGET / "seeklab"))
EMPTY_LOOP = os.environ.get("EMPTY_LOOP", str(TARGET / "examples" / "empty_loop"))
DEVICE = ["cheetah-36es", "--bare", "--size", "1GiB"]
QUICK = "--quick" in sys.argv

# Griffin 2004, tables 5.7 (Adaptec) and 5.8 (QLogic): EI_avg, EI_rms, EA_rms in ms.
PAPER = {
    ("read", 2): ((0.001, 0.072, 0.013), (0.006, 0.048, 0.035)),
    ("write", 2): ((0.007, 0.111, 0.015), (0.006, 0.029, 0.027)),
    ("read", 8): ((0.003, 0.120, 0.014), (0.004, 0.040, 0.034)),
    ("write", 8): ((0.002, 0.081, 0.009), (0.007, 0.024, 0.022)),
    ("read", 64): ((0.000, 0.087, 0.008), (-0.002, 0.011, 0.006)),
    ("write", 64): ((0.007, 0.095, 0.061), (0.005, 0.024, 0.008)),
    ("read", 128): ((0.002, 0.087, 0.061), (0.003, 0.064, 0.008)),
    ("write", 128): ((0.004, 0.048, 0.036), (0.010, 0.076, 0.013)),
}


def fio(target, op, kib, requests, pause_ms):
    """fio's command for like requests, one at a time, all at one place."""
    return [
        "fio", "--name=x", *target, f"--rw={op}", f"--bs={kib}k", f"--size={kib}k", "--io_size=1g",
        "--offset=512m", f"--number_ios={requests}", f"--thinktime={pause_ms * 1000}", "--direct=1",
        "--output-format=json",
    ]


def served(arguments, run):
    """Runs `run` with what a `seeklab serve` says it is reached by; returns the path of its trace."""
    folder = tempfile.mkdtemp()
    trace = os.path.join(folder, "trace.csv")
    server = subprocess.Popen(
        [SEEKLAB, "serve", *arguments, "--pacing", "exact", "--json", "--record", trace],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if " is ready: " in line:
                run(line.split(" is ready: ")[1].strip())
                break
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    return trace


def lateness_of(trace):
    """Lateness in ns of every read and write of a trace, ascending."""
    late = []
    with open(trace) as lines:
        rows = (line for line in lines if not line.startswith("#"))
        columns = next(rows).strip().split(",")
        due, left, op = (columns.index(name) for name in ("mp2_due_ns", "mp2_completion_ns", "op"))
        for row in rows:
            cells = row.strip().split(",")
            if cells[op] in ("read", "write"):
                late.append(max(0, int(cells[left]) - int(cells[due])))
    return sorted(late)


def row(late):
    """p50, p90, mean of the lowest 99 %, share beyond 20 us."""
    at = lambda quantile: late[min(len(late) - 1, int(quantile * len(late)))] / 1e3
    lowest = late[: max(1, int(0.99 * len(late)))]
    beyond = 100 * sum(ns > 20_000 for ns in late) / len(late)
    return f"{at(0.5):.2f} | {at(0.9):.2f} | {statistics.mean(lowest) / 1e3:.2f} | {beyond:.2f} %"


def lateness():
    requests, rounds = (40, 2) if QUICK else (200, 5)
    print("| frontend, request | p50 us | p90 us | mean of lowest 99 % us | beyond 20 us | empty loop: p50 | p90 | mean of lowest 99 % | beyond |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for frontend in ("nbd", "fuse", "block"):
        for op in ("read", "write"):
            for kib in (1, 4, 16, 64):
                ours, empty = [], []
                for _ in range(rounds):
                    folder = tempfile.mkdtemp()
                    flags = {"nbd": ["--nbd", f"unix:{folder}/s"], "fuse": ["--fuse", folder], "block": ["--block"]}
                    def run(place):
                        target = ["--ioengine=nbd", f"--uri={place}"] if frontend == "nbd" else [f"--filename={place}"]
                        subprocess.run(fio(target, op, kib, requests, 2), check=True, stdout=subprocess.DEVNULL)
                    ours += lateness_of(served([*DEVICE, *flags[frontend]], run))
                    out = subprocess.run([EMPTY_LOOP, str(requests), "4000", "4000"], check=True, capture_output=True)
                    empty += json.loads(out.stdout)["lateness_ns"]
                print(f"| {frontend}, {kib} KiB {op} | {row(sorted(ours))} | {row(sorted(empty))} |", flush=True)


def paper():
    requests, pause, repeat = (200, 10, 3) if QUICK else (1000, 50, 3)
    print("| request | mean ms | EI_avg us | EI_rms us | EA_rms us | Adaptec: EI_avg, EI_rms, EA_rms us | QLogic |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for (op, blocks), theirs in PAPER.items():
        command = fio(["--filename=$SEEKLAB_DEVICE"], op, blocks / 2, requests, pause)
        command = " ".join(command).replace(".0k", "k")
        out = subprocess.run(
            [SEEKLAB, "run", *DEVICE, "--fs", "none", "--pacing", "exact", "--repeat", str(repeat), "--json",
             "--", "sh", "-c", command], check=True, capture_output=True, text=True)
        runs = json.loads(out.stdout)["devices"][0]["repetitions"]
        best = lambda key: min((run[key] for run in runs), key=abs) * 1e3
        figures = [f"{figure * 1e3:.0f}, {rms * 1e3:.0f}, {area * 1e3:.0f}" for figure, rms, area in theirs]
        print(f"| {blocks} block {op} | {runs[0]['mp3_mean_ms']:.3f} | {best('ei_avg_ms'):.1f} | "
              f"{best('ei_rms_ms'):.1f} | {best('ea_rms_ms'):.1f} | {figures[0]} | {figures[1]} |", flush=True)


def peers():
    folder = tempfile.mkdtemp()
    delay_us = 5000
    servers = {
        "seeklab": lambda path: [SEEKLAB, "serve", "constant", "--size", "256MiB", "--set",
                                 f"service_time={delay_us}us", "--pacing", "exact", "--nbd", f"unix:{path}"],
        "nbdkit delay filter": lambda path: ["nbdkit", "-f", "-U", path, "--filter=delay", "memory", "256M",
                                             "rdelay=5ms", "wdelay=5ms"],
        "qemu-storage-daemon latency-ns": lambda path: [
            "qemu-storage-daemon", "--blockdev",
            f"driver=null-co,size=268435456,node-name=d0,latency-ns={delay_us * 1000}",
            "--nbd-server", f"addr.type=unix,addr.path={path}",
            "--export", "type=nbd,id=e0,node-name=d0,name=,writable=on"],
    }
    seen = {name: [] for name in servers}
    for turn in range(2 if QUICK else 5):
        for name, command in servers.items():
            path = os.path.join(folder, f"{turn}-{len(name)}")
            server = subprocess.Popen(command(path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                while not os.path.exists(path) and server.poll() is None:
                    time.sleep(0.01)
                target = ["--ioengine=nbd", f"--uri=nbd+unix:///?socket={path}"]
                out = subprocess.run(fio(target, "randread", 4, 400, 1) + ["--size=128m", "--offset=0"],
                                     check=True, capture_output=True, text=True)
                clat = json.loads(out.stdout[out.stdout.index("{"):])["jobs"][0]["read"]["clat_ns"]
                at = clat["percentile"]
                seen[name].append((clat["mean"], at["50.000000"], at["99.000000"], clat["stddev"]))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait()
    print(f"| a delay of {delay_us / 1000:.0f} ms by | mean error us | p50 error us | p99 error us | sd us |")
    print("| --- | --- | --- | --- | --- |")
    for name, runs in seen.items():
        mean, p50, p99, sd = (statistics.median(column) / 1e3 for column in zip(*runs))
        print(f"| {name} | {mean - delay_us:+.1f} | {p50 - delay_us:+.1f} | {p99 - delay_us:+.1f} | {sd:.1f} |", flush=True)


if __name__ == "__main__":
    chosen = [name for name in sys.argv[1:] if not name.startswith("-")] or ["lateness", "paper", "peers"]
    print("load average before:", open("/proc/loadavg").read().strip(), file=sys.stderr)
    for name in chosen:
        {"lateness": lateness, "paper": paper, "peers": peers}[name]()
        print()
    print("load average after:", open("/proc/loadavg").read().strip(), file=sys.stderr)
