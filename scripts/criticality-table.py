#!/usr/bin/env python3
"""Tables of docs/criticality.md: five workloads, classes by flags and by waits, two schedulers.

    scripts/criticality-table.py predict --results FILE [--workload NAME]... [--repetitions N]
    scripts/criticality-table.py measure --results FILE [--workload NAME]... [--repetitions N] [--first N] [--seed N]
    scripts/criticality-table.py table --results FILE

predict      records each workload with `seeklab run --system` under c-look, and simulates the recording as a whole host under both
             schedulers. Appends one line of JSON a recording to FILE. Comes before `measure`.
measure      runs each workload with `seeklab run` under c-look and criticality-c-look, with --criticality flags and
             waits: four runs a repetition, in an order drawn from the seed. Appends one line of JSON a run to FILE.
             Needs root, FUSE, loop devices, tracefs, postmark and sqlite3.
table        prints the tables from FILE, as Markdown.

The host is small: 4 MiB of the device may be dirty, and writeback is not throttled. The host's scheduler is `none`, so
that the emulated disk orders the requests. The command has one processor, and `seeklab calibrate` comes first (see
scripts/host-table.py). Beside the host, an open replay predicts: `seeklab simulate` sends the requests of a run under c-look, with
their classes and changes, to the disk with each scheduler.

Workloads: copy, postmark, tar, sqlite, grep. `sqlite` and `grep` run beside a process that writes a file.
Settings: SEEKLAB (the program), DEVICE [default: cheetah-36es].
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEKLAB = os.environ.get("SEEKLAB", str(ROOT / "target/release/seeklab"))
DEVICE = os.environ.get("DEVICE", "cheetah-36es")
SCHEDULERS = ("c-look", "criticality-c-look")
RULES = ("flags", "waits")
CLASSES = ("time_critical", "time_limited", "time_noncritical")

# A process that writes until the workload has ended.
WRITER = """
dd if=/dev/zero of=beside bs=64k count=20000 2>/dev/null &
writer=$!
"""

TREE = """
for folder in $(seq %d); do
    mkdir -p a/$folder
    for file in $(seq %d); do head -c $((1000 + (folder * 7919 + file * 104729) %% %d)) /dev/urandom > a/$folder/$file; done
done
"""

# Program whose elapsed time counts, where another one runs beside it.
TASKS = {"sqlite": "sqlite3", "grep": "grep"}

# Name: file system, setup, command.
WORKLOADS = {
    "copy": ("ext2", TREE % (20, 40, 60000), "cp -r a b"),
    "postmark": (
        "ext2",
        "printf 'set number 1000\\nset transactions 1500\\nset size 1000 20000\\nset seed 5\\nset location .\\nrun\\nquit\\n' > load",
        "postmark load > /dev/null",
    ),
    "tar": ("ext2", TREE % (20, 40, 60000) + "tar cf a.tar a; rm -r a", "tar xf a.tar"),
    "sqlite": (
        "ext4",
        "sqlite3 db 'create table t(k integer primary key, v blob);'",
        WRITER + """
for row in $(seq 20); do echo "insert into t(v) values(randomblob(2000));"; done | sqlite3 db
kill $writer || true
""",
    ),
    "grep": ("ext2", TREE % (8, 30, 60000), WRITER + "grep -r -c absent a > /dev/null || true\nkill $writer || true"),
}


def emulate(workload, scheduler, extra):
    """Runs a workload once. Returns the figures of its only repetition."""
    file_system, setup, command = WORKLOADS[workload]
    result = subprocess.run(
        [SEEKLAB, "run", DEVICE, "--scheduler", scheduler, "--fs", file_system, "--size", "2GiB", "--setup", setup, "--cpus", "1",
         "--host-scheduler", "none", "--dirty-limit", "4MiB", "--wbt", "off", "--quiet", "--json", *extra, "--", "sh", "-ec", command],
        stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{workload}, {scheduler}: seeklab run exited with {result.returncode}")
    return json.loads(result.stdout)["devices"][0]["repetitions"][0]


def predict(options):
    for workload in [workload for _ in range(options.repetitions) for workload in options.workload or WORKLOADS]:
        with tempfile.TemporaryDirectory() as folder:
            figures = emulate(workload, "c-look", ["--system", folder])
            (trace,) = Path(folder).glob("*.sys")
            line = {"workload": workload, "recorded_s": figures["elapsed_s"]}
            task = ["--task", TASKS[workload]] if workload in TASKS else []
            for scheduler in SCHEDULERS:
                simulated = subprocess.run(
                    [SEEKLAB, "simulate", DEVICE, "-w", str(trace), "--scheduler", scheduler, *task, "--json", "--quiet"],
                    stdout=subprocess.PIPE, check=False)
                line[f"host {scheduler}"] = json.loads(simulated.stdout)["devices"][0]["host"]
        with open(options.results, "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        times = ", ".join(f"{scheduler} {line[f'host {scheduler}']['elapsed_s']:.2f} s" for scheduler in SCHEDULERS)
        print(f"{workload}: recorded {line['recorded_s']:.2f} s, predicted {times}", file=sys.stderr)


def run(workload, scheduler, rule, folder):
    """Runs a workload once. Returns its figures and those of the replay, if this run has one."""
    record = ["--record", folder] if scheduler == "c-look" else []
    figures = emulate(workload, scheduler, ["--criticality", rule, *record])
    keep = ("elapsed_s", "flush_s", "requests", "mp3_mean_ms", "mp1_mean_ms", "criticality", "trust_level", "lost")
    line = {"workload": workload, "scheduler": scheduler, "rule": rule, **{key: figures[key] for key in keep}}
    for trace in Path(folder).iterdir():
        for replayed in SCHEDULERS:
            simulated = subprocess.run(
                [SEEKLAB, "simulate", DEVICE, "-w", str(trace), "--open", "--scheduler", replayed, "--json", "--quiet"],
                stdout=subprocess.PIPE, check=True)
            line[f"replayed {replayed}"] = json.loads(simulated.stdout)["devices"][0]["by_criticality"]
        trace.unlink()
    return line


def measure(options):
    chosen = options.workload or list(WORKLOADS)
    for repetition in range(options.first, options.first + options.repetitions):
        runs = [(workload, scheduler, rule) for workload in chosen for scheduler in SCHEDULERS for rule in RULES]
        random.Random(f"{options.seed} {repetition}").shuffle(runs)
        for workload, scheduler, rule in runs:
            with tempfile.TemporaryDirectory() as folder:
                line = run(workload, scheduler, rule, folder)
            with open(options.results, "a", encoding="utf-8") as results:
                results.write(json.dumps({"repetition": repetition, **line}) + "\n")
            print(f"{repetition} {workload} {scheduler} {rule}: {line['elapsed_s']:.2f} s", file=sys.stderr)


def mean(values):
    values = [value for value in values if value is not None]
    return statistics.mean(values) if values else None


def spread(values):
    """Mean and standard deviation, as text."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ({sd:.2f})"


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def table(options):
    with open(options.results, encoding="utf-8") as results:
        everything = [json.loads(line) for line in results]
    lines = [line for line in everything if "scheduler" in line]
    names = [name for name in WORKLOADS if any(line["workload"] == name for line in lines)]

    def of(name, scheduler, rule):
        return [line for line in lines if (line["workload"], line["scheduler"], line["rule"]) == (name, scheduler, rule)]

    def classes(line):
        empty = {"requests": 0, "response_mean_ms": None, "became_time_critical": 0, "wait_mean_ms": None}
        return line["criticality"]["by_criticality"] or dict.fromkeys(CLASSES, empty)

    def count(runs, name, key):
        return mean([classes(line)[name][key] for line in runs])

    def delay(runs, key):
        return mean([line["criticality"][key] for line in runs])

    print("| workload | rule | requests: time-critical, -limited, -noncritical | became time-critical: of limited, "
          "of noncritical | change after arrival ms: mean, p50, p99 | missed changes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names:
        for rule in RULES:
            runs = of(name, "c-look", rule)
            counts = ", ".join(number(count(runs, one, "requests"), 0) for one in CLASSES)
            became = ", ".join(number(count(runs, one, "became_time_critical"), 0) for one in CLASSES[1:])
            late = ", ".join(number(delay(runs, f"class_delay_{key}_ms"), 2) for key in ("mean", "p50", "p99"))
            print(f"| {name} | {rule} | {counts} | {became} | {late} | {number(delay(runs, 'missed_changes'), 0)} |")
    print()
    print("| workload | scheduler | rule | elapsed s (sd) | response ms | time-critical | time-limited | time-noncritical | wait ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for scheduler in SCHEDULERS:
            for rule in RULES:
                runs = of(name, scheduler, rule)
                elapsed = spread([line["elapsed_s"] for line in runs])
                response = number(mean([line["mp3_mean_ms"] for line in runs]))
                each = " | ".join(number(count(runs, one, "response_mean_ms")) for one in CLASSES)
                waits = sum(classes(line)[one]["became_time_critical"] for line in runs for one in CLASSES)
                waited = sum((classes(line)[one]["wait_mean_ms"] or 0) * classes(line)[one]["became_time_critical"]
                             for line in runs for one in CLASSES)
                wait = number(waited / waits if waits else None)
                print(f"| {name} | {scheduler} | {rule} | {elapsed} | {response} | {each} | {wait} |")
    print()
    print("| workload | rule | predicted response ms, c-look to criticality-c-look: time-critical | time-limited | time-noncritical |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        for rule in RULES:
            runs = [line for line in of(name, "c-look", rule) if f"replayed {SCHEDULERS[1]}" in line]
            cells = []
            for one in CLASSES:
                times = [mean([(line[f"replayed {scheduler}"] or {}).get(one, {}).get("response_mean_ms") for line in runs])
                         for scheduler in SCHEDULERS]
                cells.append(" to ".join(number(time) for time in times))
            print(f"| {name} | {rule} | {' | '.join(cells)} |")
    print()
    print("| workload | measured s: c-look | criticality by flags | by waits | predicted s: c-look | criticality | predicted response ms, "
          "c-look to criticality: time-critical | time-limited | time-noncritical |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        predicted = [line for line in everything if line["workload"] == name and "recorded_s" in line]
        plain = [line["elapsed_s"] for rule in RULES for line in of(name, "c-look", rule)]
        before = statistics.mean(plain)
        cells = [spread(plain)]
        for rule in RULES:
            times = [line["elapsed_s"] for line in of(name, SCHEDULERS[1], rule)]
            cells.append(f"{spread(times)}, {100 * (statistics.mean(times) / before - 1):+.0f} %")
        times = [mean([line[f"host {scheduler}"]["elapsed_s"] for line in predicted]) for scheduler in SCHEDULERS]
        if predicted:
            cells += [number(times[0], 2), f"{times[1]:.2f}, {100 * (times[1] / times[0] - 1):+.0f} %"]
            for one in CLASSES:
                means = [mean([line[f"host {scheduler}"][one]["response_mean_ms"] for line in predicted]) for scheduler in SCHEDULERS]
                cells.append(" to ".join(number(time) for time in means))
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    predicting = verbs.add_parser("predict")
    predicting.set_defaults(run=predict)
    measuring = verbs.add_parser("measure")
    for verb in (predicting, measuring):
        verb.add_argument("--workload", action="append", choices=list(WORKLOADS))
        verb.add_argument("--repetitions", type=int, default=3)
    measuring.add_argument("--first", type=int, default=0)
    measuring.add_argument("--seed", type=int, default=1)
    measuring.set_defaults(run=measure)
    printing = verbs.add_parser("table")
    printing.set_defaults(run=table)
    for verb in (predicting, measuring, printing):
        verb.add_argument("--results", required=True)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
