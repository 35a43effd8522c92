#!/usr/bin/env python3
"""Evaluation of clones: the tables of docs/models/station.md, as Markdown on stdout.

    scripts/clones.py [evaluation] [pooled] [ablation] [degradation] [disks] [region] [pairs] [all] [--traces FOLDER]
                      [--out FOLDER] [--disk FOLDER]

evaluation   all models on every real trace with response times, by operation: fitted to the first half, the second
             predicted, with several seeds; and the mean of the operations, by which `fit` chooses. A trace that is absent is
             reported and skipped.
pooled       the same over all operations together, with inferred dependencies and with --open.
ablation     the station on the same traces, and without each of the features that its service times may depend on.
degradation  the clone of a simulated disk under fresh requests of the load that it was fitted to, and as the load
             moves away from it.
disks        clones of six simulated disks, each under three loads that they were fitted to, with fresh requests and three seeds:
             errors by operation, with those of the disk itself under other requests beside.
region       clones of three simulated disks, each fitted to one of six loads and driven by all six: error of the worse
             operation, and share of the requests outside the fitted range.
pairs        two workloads of fio after each other on this machine's disk, captured, in four ways: rows of the same
             tables as evaluation and pooled, and one table with each if both are given. Needs root, fio and loop devices, and an idle
             machine for a minute and a half.

Seeds are stated above each table: fits and first loads have 1 (evaluation: 1 to --seeds), fresh loads 2, fio 3; disks has its own. Without captures, the output is the same to
the digit. --traces [default: ../shared/traces]. --out: keep every document of seeklab and the captured traces, and use
captured traces that are already there; without it nothing is kept. --seeds: seeds of evaluation [default: 5]. --disk: folder on the disk that is captured
[default: that of --out, otherwise a temporary one]. Settings: SEEKLAB (the program).
Exit status 1 if a row failed.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("station", "plain", "trivial")

# Models of which the clone of a simulated disk is made.
CLONED = ("station", "plain")

# The think time on a line of the traces of 1997-99 precedes the request (docs/models/measured-drives.md).
THINK_BEFORE = ["--format-option", "think=before"]

# Evaluated traces: name in the table, file below --traces, further arguments of `seeklab fit`.
TRACES = [
    *((f"{drive}, measured drive", f"disksim-validate/{drive}.trace.zst", THINK_BEFORE)
      for drive in ("atlas10k", "barracuda", "cheetah9LP")),
    *((f"{drive}, measured drive", f"disksim-validate/{drive}.trace.zst", [])
      for drive in ("dec_rz26", "hp_c2247a", "hp_c2490a")),
    ("YCSB on RocksDB, Optane", "opencas-ycsb-rocksdb-optane/sample_trace.octf.tar.xz", []),
    ("pgbench, ext4 on a loop device", "pgbench-loop/pgbench.ftrace.zst", []),
    ("… `--warm-up none`", "pgbench-loop/pgbench.ftrace.zst", ["--warm-up", "none"]),
    ("hplajw, disk 0", "hpl-srt-ajw/ajw.1week.srt.zst", ["--device", "0"]),
    ("hplajw, disk 1", "hpl-srt-ajw/ajw.1week.srt.zst", ["--device", "1"]),
    ("Windows 11 boot", "wpa-win11-boot/diskio.part1.csv.zst", []),
    ("Hadoop node", "blktrace-hadoop-node8/sdb.blktrace.tar.zst", []),
]

# The columns of the pooled evaluation: title, and the demerit from two documents of `seeklab fit`: with inferred dependencies, and
# with recorded arrival times (--open). The table shows its percent of the measured mean.
COLUMNS = [
    ("random variation", lambda waits, _: model(waits, "station")["resampled_demerit_to_p99"]),
    ("between parts", lambda waits, _: waits["rest"]["variation_between_parts"]["demerit_to_p99"]),
    ("change", lambda waits, _: waits["rest"]["change"]["demerit_to_p99"]),
    ("station", lambda waits, _: model(waits, "station")["demerit_to_p99"]),
    ("plain", lambda waits, _: model(waits, "plain")["demerit_to_p99"]),
    ("trivial", lambda waits, _: model(waits, "trivial")["demerit_to_p99"]),
    ("station, open", lambda _, none_waits: model(none_waits, "station")["demerit_to_p99"]),
    ("plain, open", lambda _, none_waits: model(none_waits, "plain")["demerit_to_p99"]),
    ("everything: station", lambda waits, _: model(waits, "station")["demerit_all"]),
    ("plain", lambda waits, _: model(waits, "plain")["demerit_all"]),
    ("random variation", lambda waits, _: model(waits, "station")["resampled_demerit_all"]),
]

# Features of a station's service times, without those of the request itself (op, length).
FEATURES = ("waited", "queue", "distance", "stream", "place", "before", "idle", "writes_in_row", "writes_since_idle", "owed", "fua")

# The disk that is cloned, and its loads of so many requests: name, workload, further arguments for the disk. RATE is the
# arrivals per second at which it is 70 % busy.
DISK = "atlas10k"
REQUESTS = 200_000
SAME_LOADS = [
    ("one at a time, 5 ms of think time", "random,closed=1,think=5ms", []),
    ("open, Poisson at 70 % utilisation, FCFS", "random,poisson=RATE", []),
    ("eight outstanding behind SPTF", "random,closed=8", ["--scheduler", "sptf"]),
]
FITTED_LOAD = "random,poisson=RATE"
OTHER_LOADS = [
    *((f"open, {share} utilisation", f"random,poisson={share}", []) for share in (0.3, 0.5, 0.7, 0.8, 0.9)),
    ("eight outstanding, FCFS", "random,closed=8", []),
    ("eight outstanding, SPTF", "random,closed=8", ["--scheduler", "sptf"]),
    ("writes alone, 50 %", "synthetic,size=8KiB,read=0%,poisson=0.5", []),
    ("64 KiB reads, 50 %", "synthetic,size=64KiB,read=100%,poisson=40/s", []),
    ("sequential 8 KiB reads, one at a time", "sequential,closed=1", []),
]

# The disks that are cloned under each of SAME_LOADS, with so many requests; the seeds of the fitted requests, and those of the fresh ones.
CLONED_DISKS = ("atlas10k", "cheetah9lp", "barracuda", "hp-c2490a", "cheetah-36es", "nearline-7200")
DISK_REQUESTS = 500_000
DISK_SEEDS = (1, 2, 3)
FRESH_SEED_OFFSET = 10

# Greatest errors of an operation in percent, and of how many of the clones.
DISK_MEAN_PCT, DISK_P99_PCT, DISK_CLONES = 1, 3, 50

# The disks whose clones are driven by loads that they were not fitted to, and the loads, each of which differs from the first in one
# property. RATE is half the requests per second that the disk serves one after the other.
REGION_DISKS = ("nearline-7200", "cheetah-36es", "atlas10k")
REGION_REQUESTS = 60_000
REGION_LOADS = [
    ("base", "synthetic,size=8KiB,read=67%,closed=4"),
    ("depth", "synthetic,size=8KiB,read=67%,closed=1"),
    ("mixture", "synthetic,size=8KiB,read=10%,closed=4"),
    ("length", "synthetic,size=64KiB,read=67%,closed=4"),
    ("sequential", "synthetic,size=8KiB,read=67%,sequential=80%,closed=4"),
    ("open", "synthetic,size=8KiB,read=67%,poisson=RATE"),
]

# Errors of the mean of the worse operation, in percent: wrong above the first, right below the second; and the shares outside, in
# percent, at least and at most, that are to go with them.
REGION_WRONG_PCT, REGION_RIGHT_PCT = 20, 5
REGION_WRONG_OUTSIDE_PCT, REGION_RIGHT_OUTSIDE_PCT = 50, 5

# Pairs of workloads: name in the table, file, arguments of fio for the first and for the second.
PAIR_MIB = 1024
PAIR_SECONDS = 8
PAIRS = [
    ("this machine's disk, fio, one mixture throughout", "same",
     *["--rw=randrw --rwmixread=60 --bssplit=4k/60:32k/40 --iodepth=4"] * 2),
    ("… longer requests in the second half", "size", "--rw=randrw --bssplit=4k/50:16k/30:64k/20 --iodepth=4",
     "--rw=randrw --bssplit=4k/10:16k/30:64k/60 --iodepth=4"),
    ("… 80 % reads, then 30 %", "mix", "--rw=randrw --rwmixread=80 --bs=8k --iodepth=8",
     "--rw=randrw --rwmixread=30 --bs=8k --iodepth=8"),
    ("… depth 2, then 16", "depth", "--rw=randread --bs=4k --iodepth=2", "--rw=randread --bs=4k --iodepth=16"),
]


def say(text):
    print(f"clones: {text}", file=sys.stderr, flush=True)


def fail(message):
    sys.exit(f"error: {message}")


class Failed(Exception):
    """A command that a row needs has failed."""


def run(*command):
    """What a command prints; it goes if this process is killed."""
    command = [str(part) for part in command]
    done = subprocess.run(["setpriv", "--pdeathsig", "KILL", *command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def model(fit, name):
    return next(of for of in fit["evaluations"] if of["model"] == name)


def percent(demerit):
    """A demerit in percent of the measured mean, to two digits behind the point where it is small."""
    value = demerit["ea_rms_pct"]
    return "–" if value is None else f"{value:.2f}" if value < 3 else f"{value:.1f}"


def figure(value):
    return "–" if value is None else f"{value:.2f}" if value < 3 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def by_operation(fits):
    """Rows of cells: one for each operation that decides, then their mean, from the documents of several seeds."""
    first = fits[0]

    def spread(values, is_saved):
        values = sorted(values)
        median = figure(statistics.median(values))
        text = f"**{median}**" if is_saved else median
        return text if len(values) == 1 else f"{text} ({figure(values[0])} to {figure(values[-1])})"

    def of_change(demerits):
        return figure(demerits["demerit_to_p99"]["ea_rms_pct"]) if demerits else "–"

    def operation_of(fit, name, operation):
        return next(of for of in model(fit, name)["operations"] if of["operation"] == operation)

    saved = first["saved_model"]
    deciding = [of for of in model(first, saved)["operations"] if of["decides"]]
    for of in deciding:
        operation = of["operation"]
        change = next(one for one in first["rest"]["operations"] if one["operation"] == operation)
        models = [spread([operation_of(fit, name, operation)["demerit_to_p99"]["ea_rms_pct"] for fit in fits], name == saved)
                  for name in MODELS]
        yield (operation, f"{of['requests']:,}", figure(of["resampled_demerit_to_p99"]["ea_rms_pct"]),
               of_change(change["variation_between_parts"]), of_change(change["change"]), *models,
               f"{of['mean_error_pct']:+.1f} %, {of['p99_error_pct']:+.1f} %")
    if len(deciding) > 1:
        means = [spread([model(fit, name)["operation_means"]["demerit_to_p99_pct"] for fit in fits], name == saved)
                 for name in MODELS]
        resampled = model(first, saved)["operation_means"]["resampled_demerit_to_p99_pct"]
        yield ("mean", "", figure(resampled), "", "", *means, "")


def heading(*titles):
    print("| " + " | ".join(titles) + " |")
    print("|" + " --- |" * len(titles), flush=True)


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


class Clones:
    def __init__(self, options, work):
        self.options, self.out, self.work = options, options.out or work, work
        self.failed = 0

    def seeklab(self, name, *arguments):
        """The JSON document of a verb, kept under that name."""
        text = run(self.options.seeklab, *arguments, "--json")
        (self.out / f"{name}.json").write_text(text)
        return json.loads(text)

    @contextlib.contextmanager
    def attempt(self, label):
        """A row. If it fails, the failure is reported and the other rows follow."""
        begun = time.monotonic()
        say(f"{label} …")
        try:
            yield
            say(f"{label}: {time.monotonic() - begun:.0f} s")
        except Failed as problem:
            say(f"{label} FAILED: {problem}")
            self.failed += 1

    # Real traces

    def evaluation(self, rows):
        """One table by operation of rows (label, name, function that gives the trace or nothing, further arguments)."""
        version = run(self.options.seeklab, "--version").strip()
        seeds = self.options.seeds
        print(f"{version}: `seeklab fit TRACE`, first half of the time against the second; demerit up to p99 in percent of the "
              f"measured mean, median of seeds 1 to {seeds} (least to greatest). In bold the model that `fit` saves with seed 1.\n")
        heading("trace", "operation", "requests", "random variation", "between parts", "fitted part", *MODELS, "saved: mean, p99")
        for label, name, trace, more in rows:
            with self.attempt(label):
                if path := trace():
                    fits = [self.seeklab(f"{name}-seed{seed}", "fit", path, *more, "--model", ",".join(MODELS), "--seed", str(seed),
                                         "-o", self.work / f"{name}.toml")["fit"] for seed in range(1, seeds + 1)]
                    for cells in by_operation(fits):
                        row(label, *cells)
        print()

    def pooled(self, rows):
        """One table of rows (label, name, function that gives the trace or nothing, further arguments)."""
        version = run(self.options.seeklab, "--version").strip()
        print(f"{version}: `seeklab fit TRACE --model {','.join(MODELS)}`, without and with `--open`; seed 1, first half of the "
              "time against the second, all operations together.\n")
        heading("trace", *(title for title, _ in COLUMNS))
        for label, name, trace, more in rows:
            with self.attempt(label):
                if path := trace():
                    both = []
                    for way, flag in (("waits", []), ("open", ["--open"])):
                        fit = self.seeklab(f"{name}-{way}", "fit", path, *more, "--model", ",".join(MODELS), "--seed", "1",
                                           "-o", self.out / f"{name}.toml", *flag)["fit"]
                        both.append(fit)
                    row(label, *(percent(of(*both)) for _, of in COLUMNS))
        print()

    def ablation(self):
        """Gain of each feature: the station without it, mean of the operations."""
        version = run(self.options.seeklab, "--version").strip()
        print(f"{version}: `seeklab fit TRACE --without FEATURE`; seed 1, first half of the time against the second, demerit up to "
              "the 99th percentile in percent of the mean: mean of the operations.\n")
        heading("trace", "random variation", "all features", *(f"without `{feature}`" for feature in FEATURES))
        for label, name, trace, more in self.of_traces():
            with self.attempt(label):
                if path := trace():
                    def of(name, *without):
                        fit = self.seeklab(f"{name}-ablation", "fit", path, *more, "--model", "station", "--seed", "1",
                                           "-o", self.work / "clone.toml", *without)["fit"]
                        return model(fit, "station")["operation_means"]
                    whole = of(name)
                    without = [of(f"{name}-{feature}", "--without", feature) for feature in FEATURES]
                    row(label, figure(whole["resampled_demerit_to_p99_pct"]), figure(whole["demerit_to_p99_pct"]),
                        *(figure(means["demerit_to_p99_pct"]) for means in without))
        print()

    def of_traces(self):
        def trace(file):
            path = self.options.traces / file
            if not path.exists():
                say(f"skipped: {path} is absent")
                return None
            return path
        for label, file, more in TRACES:
            name = Path(file).name.split(".")[0] + "".join(more[1:] if more[:1] == ["--device"] else [])
            yield label, name, lambda file=file: trace(file), more

    def of_pairs(self):
        for label, name, first, then in PAIRS:
            yield label, name, lambda name=name, first=first, then=then: self.pair(name, first, then), []

    # Pairs

    @contextlib.contextmanager
    def disk(self):
        """A loop device over a file that was written in full; both go with this process, however that ends."""
        path = self.options.disk / f"clones-{os.getpid()}.img"
        try:
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, PAIR_MIB << 20)
                for _ in range(PAIR_MIB):
                    file.write(bytes(1 << 20))
                os.fsync(file.fileno())
            device = run("losetup", "--find", "--show", "--direct-io=on", path).strip()
            try:
                held = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
            finally:
                # Of a device that is open the kernel does this when the last that has it open is gone.
                run("losetup", "--detach", device)
        finally:
            path.unlink(missing_ok=True)
        try:
            Path("/sys/block", Path(device).name, "queue/scheduler").write_text("none")
            yield device
        finally:
            os.close(held)

    def pair(self, name, first, then):
        """The trace of a pair, captured unless it is there."""
        trace = self.out / f"{name}.parquet"
        if trace.exists():
            say(f"{trace} is there and taken as it is")
            return trace
        with self.disk() as device:
            partial = self.out / f"{name}.partial.parquet"
            capture = subprocess.Popen(["setpriv", "--pdeathsig", "INT", self.options.seeklab, "capture", device, "-o", partial,
                                        "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       start_new_session=True)
            try:
                while not list(self.out.glob(f"*{partial.name}*")) and capture.poll() is None:
                    time.sleep(0.05)
                for workload in (first, then):
                    # Its job as a thread, which goes with it.
                    run("fio", "--name=x", "--thread", f"--filename={device}", "--direct=1", "--ioengine=libaio",
                        "--time_based", f"--runtime={PAIR_SECONDS}", "--minimal", "--randseed=3", *workload.split())
                capture.send_signal(signal.SIGTERM)
                document, errors = capture.communicate(timeout=60)
                if capture.returncode != 0:
                    raise Failed(f"`seeklab capture` ended with {capture.returncode}: {errors.strip()}")
                (self.out / f"{name}-capture.json").write_text(document)
                if lost := json.loads(document).get("lost_events"):
                    raise Failed(f"the capture lost {lost} events; is the machine busy?")
                partial.rename(trace)
            finally:
                if capture.poll() is None:
                    capture.kill()
                    capture.wait()
                for left in self.out.glob(f"*{partial.name}*"):
                    left.unlink()
        return trace

    # A simulated disk

    def simulated(self, name, device, load, more, seed):
        return self.seeklab(name, "simulate", device, "-w", f"{load},requests={REQUESTS}", "--seed", seed, *more)["devices"][0]

    def clone(self, name, load, more):
        """Fits each model to the disk under a load; returns their files."""
        trace = self.work / f"{name}.parquet"
        self.simulated(f"{name}-recorded", DISK, load, [*more, "--out", trace], 1)
        clones = {}
        for of in CLONED:
            clones[of] = self.out / f"{name}-{of}.toml"
            self.seeklab(f"{name}-{of}-fit", "fit", trace, "--model", of, "--seed", "1", "-o", clones[of])
        trace.unlink()
        return clones

    def answers(self, name, clones, load, more):
        """For each clone: difference from the disk under fresh requests in mean and p99, and the share outside the fitted range."""
        own = self.simulated(f"{name}-disk", DISK, load, more, 2)
        for of, file in clones.items():
            predicted = self.simulated(f"{name}-{of}", file, load, [], 2)
            differs = [100 * (predicted[key] / own[key] - 1) for key in ("response_mean_ms", "response_p99_ms")]
            yield (*differs, 100 * predicted["out_of_validated_range"] / predicted["requests"])

    def degradation(self):
        alone = self.seeklab("alone", "simulate", DISK, "-w", "random,closed=1,requests=20000", "--seed", "1")["devices"][0]
        def at(load):
            """`poisson=RATE` and `poisson=0.3`: at 70 and 30 % of the requests that the disk serves one after the other."""
            head, found, rate = load.partition("poisson=")
            if not found or rate.endswith("/s"):
                return load
            share = 0.7 if rate == "RATE" else float(rate)
            return f"{head}poisson={share * 1e3 / alone['response_mean_ms']:.1f}/s"
        version = run(self.options.seeklab, "--version").strip()
        about = f"{version}: `{DISK}`, {REQUESTS:,} requests with seed 1 fitted, as many with seed 2 predicted"
        print(f"{about}; the difference of clone and disk.\n")
        heading("load", "station: mean", "p99", "plain: mean", "p99")
        for index, (label, load, more) in enumerate(SAME_LOADS):
            with self.attempt(label):
                clones = self.clone(f"same{index}", at(load), more)
                found = [f"{value:+.2f} %" for figures in self.answers(f"same{index}", clones, at(load), more) for value in figures[:2]]
                row(label, *found)
        print(f"\n{about}; fitted under `{at(FITTED_LOAD)}`.\n")
        heading("load", "station: mean", "p99", "outside", "plain: mean", "p99", "outside")
        clones = None
        for index, (label, load, more) in enumerate(OTHER_LOADS):
            with self.attempt(label):
                clones = clones or self.clone("away", at(FITTED_LOAD), [])
                found = self.answers(f"away{index}", clones, at(load), more)
                row(label, *(cell for mean, p99, outside in found
                             for cell in (f"{mean:+.1f} %", f"{p99:+.1f} %", f"{outside:.0f} %")))
        print()

    def disks(self):
        """Clones of several disks under fresh requests of the loads that they were fitted to."""
        version = run(self.options.seeklab, "--version").strip()
        print(f"{version}: {DISK_REQUESTS:,} requests fitted with seeds {DISK_SEEDS[0]} to {DISK_SEEDS[-1]}, as many predicted with seeds "
              f"{DISK_SEEDS[0] + FRESH_SEED_OFFSET} to {DISK_SEEDS[-1] + FRESH_SEED_OFFSET}. Difference of the clone from the disk under the "
              "same requests, by seed: mean, p99. *Station*: the greatest differences of the station. *Itself*: those of the fitted requests of "
              "the disk from its fresh ones.\n")
        heading("disk", "load", "operation", "saved", *(f"seed {seed}" for seed in DISK_SEEDS), "station", "itself")
        met = {"saved": 0, "station": 0}
        for disk in CLONED_DISKS:
            rate = f"{0.7e3 / self.disk_run(disk, disk, 'alone', 'random,closed=1', 1)['response_mean_ms']:.2f}/s"
            for index, (label, load, more) in enumerate(SAME_LOADS):
                with self.attempt(f"{disk}, {label}"):
                    rows = [self.cloned_disk(disk, index, load.replace("RATE", rate), more, seed) for seed in DISK_SEEDS]
                    for errors, _, _ in rows:
                        for name, of in errors.items():
                            met[name] += all(abs(mean) <= DISK_MEAN_PCT and abs(p99) <= DISK_P99_PCT for mean, p99 in of.values())
                    saved = "/".join(dict.fromkeys(model for _, _, model in rows))
                    for operation in rows[0][1]:
                        cells = [errors["saved"][operation] for errors, _, _ in rows]
                        station = self.greatest(errors["station"][operation] for errors, _, _ in rows)
                        itself = self.greatest(own[operation] for _, own, _ in rows)
                        row(disk, label, operation, saved, *(self.two_errors(cell) for cell in [*cells, station, itself]))
        print(f"\nMean within {DISK_MEAN_PCT} % and p99 within {DISK_P99_PCT} % for both operations, of "
              f"{len(CLONED_DISKS) * len(SAME_LOADS) * len(DISK_SEEDS)} clones (required: {DISK_CLONES}): "
              + ", ".join(f"{name} {count}" for name, count in met.items()) + ".\n")

    def disk_run(self, device, name, load_name, load, seed, *more):
        return self.seeklab(f"disks-{name}-{load_name}-{seed}", "simulate", device, "-w", f"{load},requests={DISK_REQUESTS}", "--seed", seed,
                            *more)["devices"][0]

    def cloned_disk(self, disk, index, load, more, seed):
        """Errors of the saved model and of the station, then of the disk under the fitted requests, by operation; and the saved model."""
        trace, fresh = self.work / "seen.parquet", seed + FRESH_SEED_OFFSET
        fitted = self.disk_run(disk, disk, f"load{index}", load, seed, *more, "--out", trace)
        own = self.disk_run(disk, disk, f"load{index}", load, fresh, *more)

        def errors(answer):
            return {operation: [100 * (answer[f"{operation}_response_{figure}_ms"] / own[f"{operation}_response_{figure}_ms"] - 1)
                                for figure in ("mean", "p99")] for operation in ("read", "write")}

        def clone(name, models):
            file = self.work / f"{name}.toml"
            fit = self.seeklab(f"disks-{disk}-load{index}-{seed}-{name}-fit", "fit", trace, "--model", models, "--seed", "1", "-o", file)
            return fit["fit"]["saved_model"], errors(self.disk_run(file, f"{disk}-{name}", f"load{index}", load, fresh))

        saved_model, saved = clone("saved", ",".join(MODELS))
        station = saved if saved_model == "station" else clone("station", "station")[1]
        trace.unlink()
        return {"saved": saved, "station": station}, errors(fitted), saved_model

    @staticmethod
    def greatest(pairs):
        return [max(errors, key=abs) for errors in zip(*pairs)]

    @staticmethod
    def two_errors(pair):
        return f"{pair[0]:+.2f} %, {pair[1]:+.2f} %"

    def region(self):
        """Clones under the loads that they were fitted to and under others: are the others counted as outside?"""
        version = run(self.options.seeklab, "--version").strip()
        print(f"{version}: fitted to {REGION_REQUESTS:,} requests of the load of the row (seed 1), driven by as many of that of the column "
              "(seed 2). Difference of the mean of the worse operation from that of the disk; share of the requests outside.\n")
        heading("disk", "model", "fitted to", *(name for name, _ in REGION_LOADS))
        cells = []
        for disk in REGION_DISKS:
            loads = self.region_loads(disk)
            own = {name: self.region_run(disk, disk, name, load, 2) for name, load in loads}
            for model in CLONED:
                for fitted, load in loads:
                    with self.attempt(f"{disk}, {model}, {fitted}"):
                        trace, clone = self.work / "seen.parquet", self.work / "clone.toml"
                        self.region_run(disk, disk, fitted, load, 1, "--out", trace)
                        self.seeklab(f"region-{disk}-{fitted}-{model}-fit", "fit", trace, "--model", model, "--seed", "1", "-o", clone)
                        found = []
                        for asked, asked_load in loads:
                            answer = self.region_run(clone, f"{disk}-{fitted}-{model}", asked, asked_load, 2)
                            errors = [100 * (answer[key] / own[asked][key] - 1)
                                      for key in ("read_response_mean_ms", "write_response_mean_ms")]
                            found.append((max(errors, key=abs), answer["fitted_range"]))
                            cells.append((disk, model, fitted, asked, *found[-1]))
                        row(disk, model, fitted, *(f"{error:+.0f} %, {seen['out_of_fitted_range_pct']:.0f} %" for error, seen in found))
        print()
        self.region_summary(cells)

    def region_loads(self, disk):
        alone = self.region_run(disk, disk, "alone", REGION_LOADS[1][1], 1)
        rate = f"{0.5e3 / alone['response_mean_ms']:.2f}/s"
        return [(name, load.replace("RATE", rate)) for name, load in REGION_LOADS]

    def region_run(self, device, name, load_name, load, seed, *more):
        return self.seeklab(f"region-{name}-{load_name}-{seed}", "simulate", device, "-w", f"{load},requests={REGION_REQUESTS}", "--seed",
                            seed, *more)["devices"][0]

    @staticmethod
    def region_summary(cells):
        def named(chosen):
            return "; ".join(f"{disk} {model} {fitted} → {asked} ({error:+.0f} %, {seen['out_of_fitted_range_pct']:.1f} %: "
                             + ", ".join(f"{of['property']} {of['side']}" for of in seen["outside_of"][:2]) + ")"
                             for disk, model, fitted, asked, error, seen in chosen) or "none"

        heading("model", "loads", "clones", "as required", "exceptions")
        for model in CLONED:
            of = [cell for cell in cells if cell[1] == model]
            others, same = [cell for cell in of if cell[2] != cell[3]], [cell for cell in of if cell[2] == cell[3]]
            wrong = [cell for cell in others if abs(cell[4]) > REGION_WRONG_PCT]
            right = [cell for cell in others if abs(cell[4]) <= REGION_RIGHT_PCT]
            rows = [
                (f"others, more than {REGION_WRONG_PCT} % off: at least {REGION_WRONG_OUTSIDE_PCT} % outside", wrong,
                 lambda share: share >= REGION_WRONG_OUTSIDE_PCT),
                (f"others, at most {REGION_RIGHT_PCT} % off: at most {REGION_RIGHT_OUTSIDE_PCT} % outside", right,
                 lambda share: share <= REGION_RIGHT_OUTSIDE_PCT),
                (f"the same: less than {REGION_RIGHT_OUTSIDE_PCT} % outside", same, lambda share: share < REGION_RIGHT_OUTSIDE_PCT),
            ]
            for text, chosen, holds in rows:
                failed = [cell for cell in chosen if not holds(cell[5]["out_of_fitted_range_pct"])]
                row(model, text, str(len(chosen)), str(len(chosen) - len(failed)), named(failed))
        print()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", metavar="TABLE",
                        choices=("evaluation", "pooled", "ablation", "degradation", "disks", "region", "pairs", "all"),
                        help="evaluation, pooled, ablation, degradation, disks, region, pairs, all")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="seeds of evaluation [default: 5]")
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces", metavar="FOLDER",
                        help="folder of the real traces")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep documents and captured traces in this folder")
    parser.add_argument("--disk", type=Path, metavar="FOLDER", help="folder on the disk that is captured")
    return parser.parse_args()


def main():
    options = arguments()
    wanted = {"evaluation", "pooled", "ablation", "degradation", "disks", "region", "pairs"} if "all" in options.tables else set(options.tables)
    needed = [("setpriv", "util-linux")]
    if "pairs" in wanted:
        needed += [("losetup", "mount"), ("fio", "fio")]
        if os.geteuid() != 0:
            fail("pairs makes and captures a block device, which needs root")
    for program, package in needed:
        if not shutil.which(program):
            fail(f"{program} is missing: install Debian's package {package}")
    options.seeklab = os.environ.get("SEEKLAB")
    if not options.seeklab:
        subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "seeklab"], cwd=ROOT, check=True)
        options.seeklab = str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/seeklab")
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, lambda number, _: sys.exit(128 + number))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clones-") as work:
        clones = Clones(options, Path(work))
        options.disk = options.disk or clones.out
        pairs = list(clones.of_pairs()) if "pairs" in wanted else []
        tables = [table for table in (clones.evaluation, clones.pooled) if table.__name__ in wanted]
        for table in tables:
            table([*clones.of_traces(), *pairs])
        if pairs and not tables:
            clones.evaluation(pairs)
        if "ablation" in wanted:
            clones.ablation()
        if "degradation" in wanted:
            clones.degradation()
        if "disks" in wanted:
            clones.disks()
        if "region" in wanted:
            clones.region()
    if clones.failed:
        fail(f"{clones.failed} rows could not be made")


if __name__ == "__main__":
    main()
